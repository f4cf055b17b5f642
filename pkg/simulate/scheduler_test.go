package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

func podGroup(name string, min int32) scheduling.PodGroup {
	pg := scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(1, 0)}}
	pg.Spec.MinMember = min
	return pg
}

// A group is drawn as one line: how it ends, where its pods are, and why others wait.
func (d Decision) line() string {
	text := "waits"
	if d.Starts {
		text = "starts"
	}
	for _, p := range d.Placements {
		text += fmt.Sprintf(" %s@%s", p.Pod, p.Node)
	}
	if len(d.Waiting) > 0 {
		text += fmt.Sprintf(" without %s: %s: %s", strings.Join(d.Waiting, ","), d.Reason, d.Message)
	}
	return text
}

func TestAsk(t *testing.T) {
	gang := func(name string, size int, cpu string) (all []*corev1.Pod) {
		for i := range size {
			all = append(all, objects.Pod(fmt.Sprintf("%s-%d", name, i), objects.InGroup(name), objects.CPU(cpu)))
		}
		return all
	}
	started := gang("g", 3, "2")
	started[0].Spec.NodeName = "n0"
	old := podGroup("big", 4)
	old.Status.Conditions = []metav1.Condition{{Type: "Scheduled", Status: metav1.ConditionFalse, Reason: "NoRoom", LastTransitionTime: metav1.Unix(0, 0)}}
	old.CreationTimestamp = metav1.Unix(0, 0)
	cases := map[string]struct {
		pods   []*corev1.Pod
		groups []scheduling.PodGroup
		ask    string
		want   string
	}{
		"a group that fits":                        {gang("g", 2, "3"), []scheduling.PodGroup{podGroup("g", 2)}, "g", "starts g-0@n0 g-1@n1"},
		"a group that fits but for some":           {gang("g", 3, "3"), []scheduling.PodGroup{podGroup("g", 2)}, "g", "starts g-0@n0 g-1@n1 without g-2: NoRoom: "},
		"a group for which there is no room":       {append(gang("g", 2, "3"), placed("o", "n0", "2")), []scheduling.PodGroup{podGroup("g", 2)}, "g", "waits without g-0,g-1: NoRoom: needs 2 pods with cpu 3; room for 1"},
		"a group that never fits":                  {gang("g", 1, "5"), []scheduling.PodGroup{podGroup("g", 1)}, "g", "waits without g-0: NeverFits: no node is large enough"},
		"a group that lacks pods":                  {gang("g", 2, "1"), []scheduling.PodGroup{podGroup("g", 3)}, "g", "waits without g-0,g-1: Gathering: waits for 1 more pod"},
		"a group of which a pod is gated":          {gated(gang("g", 2, "1")), []scheduling.PodGroup{podGroup("g", 2)}, "g", "waits without g-1: Gathering: waits for 1 more pod: has 1 of minMember 2"},
		"pods whose PodGroup does not exist":       {gang("g", 2, "1"), nil, "g", "waits without g-0,g-1: NoPodGroup: "},
		"late members of a group that runs":        {started, []scheduling.PodGroup{podGroup("g", 2)}, "g", "starts g-1@n0 g-2@n1"},
		"a lone pod that fits":                     {[]*corev1.Pod{objects.Pod("p")}, nil, "pod/p/p", "starts p@n0"},
		"a lone pod that does not":                 {[]*corev1.Pod{objects.Pod("p", objects.CPU("9"))}, nil, "pod/p/p", "waits without p: NeverFits: "},
		"room that is reserved for one that waits": {append(gang("big", 4, "2"), append(gang("g", 1, "1"), placed("o", "n0", "1"))...), []scheduling.PodGroup{old, podGroup("g", 1)}, "g", "waits without g-0: NoRoom: "},
	}
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := Cluster{PodGroups: tc.groups}
			c.Objects = append(c.Objects, objects.ReadyNode("n0", 4), objects.ReadyNode("n1", 4))
			for _, p := range tc.pods {
				c.Objects = append(c.Objects, p)
			}
			r, err := New(t.Context(), c, shipped)
			if err != nil {
				t.Fatal(err)
			}
			key := types.NamespacedName{Namespace: "ns", Name: tc.ask}
			if !slices.Contains(r.Groups(), key) {
				t.Fatalf("groups %v, want %s among them", r.Groups(), key)
			}
			d, err := r.Decide(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(d.line(), tc.want) {
				t.Errorf("%s\nwant  %s", d.line(), tc.want)
			}
		})
	}
}

// gated adds a scheduling gate to the first of pods.
func gated(pods []*corev1.Pod) []*corev1.Pod {
	pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a/b"}}
	return pods
}

func TestNewRefusesWhatIsThereTwice(t *testing.T) {
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	c := Cluster{Objects: []runtime.Object{objects.Pod("p"), objects.Pod("p")}}
	if _, err := New(t.Context(), c, shipped); err == nil || !strings.Contains(err.Error(), `pods "p" already exists`) {
		t.Errorf("New: %v, want an error", err)
	}
}

func placed(name, node, cpu string) *corev1.Pod {
	return objects.Pod(name, objects.CPU(cpu), objects.CreatedOn(node), objects.InPhase(corev1.PodRunning))
}
