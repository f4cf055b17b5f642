package group

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownedPod is a pod "p" in "ns" with these owners.
func ownedPod(uid types.UID, labels map[string]string, owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: uid, Labels: labels, OwnerReferences: owners}}
}

func owner(apiVersion, kind string, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "train", UID: "job-uid", Controller: &controller}
}

func TestOf(t *testing.T) {
	alone := Identity{Key: types.NamespacedName{Namespace: "ns", Name: "pod/p/1"}}
	job := Identity{Key: types.NamespacedName{Namespace: "ns", Name: JobName("train", "job-uid")}, Gang: true}
	cases := map[string]struct {
		pod  *corev1.Pod
		want Identity
	}{
		"a pod without label and owner is alone": {ownedPod("1", nil), alone},
		"an empty group label says nothing":      {ownedPod("1", map[string]string{Label: ""}), alone},
		"a size label alone makes no group":      {ownedPod("1", map[string]string{SizeLabel: "4"}), alone},
		"the group label is the PodGroup's name as it is": {
			ownedPod("1", map[string]string{Label: "Some_Group.1"}),
			Identity{Key: types.NamespacedName{Namespace: "ns", Name: "Some_Group.1"}, Gang: true},
		},
		"a Job's pod waits for the Job's PodGroup":    {ownedPod("1", nil, owner("batch/v1", "Job", true)), job},
		"the group label goes before the owner":       {ownedPod("1", map[string]string{Label: "g"}, owner("batch/v1", "Job", true)), Identity{Key: types.NamespacedName{Namespace: "ns", Name: "g"}, Gang: true}},
		"a Job that does not control the pod":         {ownedPod("1", nil, owner("batch/v1", "Job", false)), alone},
		"a Job of another API group":                  {ownedPod("1", nil, owner("batch.volcano.sh/v1alpha1", "Job", true)), alone},
		"a pod of a ReplicaSet is alone":              {ownedPod("1", nil, owner("apps/v1", "ReplicaSet", true)), alone},
		"the controller is found behind other owners": {ownedPod("1", nil, owner("v1", "ConfigMap", false), owner("batch/v1", "Job", true)), job},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Of(tc.pod); got != tc.want {
				t.Errorf("Of() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

// A lone pod that comes again under its name, and one whose name spells another
// key, are groups of their own.
func TestLonePodsNeverShareAKey(t *testing.T) {
	labelled := ownedPod("1", map[string]string{Label: "p"})
	again := ownedPod("2", nil)
	first := ownedPod("1", nil)
	elsewhere := ownedPod("1", nil)
	elsewhere.Namespace = "other"
	seen := map[types.NamespacedName]bool{}
	for _, pod := range []*corev1.Pod{labelled, again, first, elsewhere} {
		key := Of(pod).Key
		if seen[key] {
			t.Errorf("key %q belongs to two groups", key)
		}
		seen[key] = true
	}
	if name := Of(first).Key.Name; !strings.Contains(name, "/") {
		t.Errorf("key %q of a lone pod could be the name of a PodGroup", name)
	}
}

// dns1123Label is what RFC 1123 lets a label be, in lower case.
var dns1123Label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func TestJobName(t *testing.T) {
	long := strings.Repeat("a", 300)
	cases := map[string]struct {
		name string
		want string
	}{
		"a short name is kept whole":                        {"train", "job-train-"},
		"a name with dots loses them":                       {"train.v1.example", "job-train-v1-example-"},
		"a name of the largest length is cut":               {long, "job-" + long[:48] + "-"},
		"a name cut after a dash stays a label":             {strings.Repeat("a", 47) + "-bbbb", "job-" + strings.Repeat("a", 47) + "--"},
		"upper case and what is not ASCII are no hindrance": {"Zug-é", "job-zug---"},
		"an empty name leaves the hash":                     {"", "job--"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := JobName(tc.name, "0d9e6c1e-7b1f-4f3c-8ac1-2f4f0f6a3a55")
			if !strings.HasPrefix(got, tc.want) || len(got) != len(tc.want)+10 {
				t.Errorf("JobName(%q) = %q, want %q and ten characters", tc.name, got, tc.want)
			}
			if len(got) > 63 || !dns1123Label.MatchString(got) {
				t.Errorf("JobName(%q) = %q is no DNS-1123 label", tc.name, got)
			}
		})
	}
	if JobName("train", "1") == JobName("train", "2") {
		t.Error("two Jobs of one name share a PodGroup")
	}
	if first := JobName(long+"x", "1"); first != JobName(long+"x", "1") {
		t.Error("the name of a Job's PodGroup changes from call to call")
	}
}
