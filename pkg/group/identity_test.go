package group

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// seenOwners maps the owners that were seen to their own owners.
type seenOwners map[Owner]Owner

func (s seenOwners) ControllerOf(namespace string, o Owner) (Owner, bool) {
	above, ok := s[o]
	return above, ok && namespace == "ns"
}

// ownerOfKind returns an owner of this kind with the name "train".
func ownerOfKind(k kindName) Owner {
	return Owner{Group: k.group, Kind: k.kind, Name: "train", UID: types.UID(k.kind + "-uid")}
}

// controlledPod returns a pod "p" in "ns" that o controls; no object controls it if o is zero.
// test/objects, which builds the pods of other packages, imports this one.
func controlledPod(uid types.UID, labels map[string]string, o Owner) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: uid, Labels: labels}}
	if o != (Owner{}) {
		apiVersion := "v1"
		if o.Group != "" {
			apiVersion = o.Group + "/v1"
		}
		pod.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "beside", UID: "beside", Controller: new(false)},
			{APIVersion: apiVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: new(true)},
		}
	}
	return pod
}

func TestIdentityOf(t *testing.T) {
	cronJob := kindName{"batch", "CronJob"}
	workflow := kindName{"argoproj.io", "Workflow"}
	volcanoJob := kindName{"batch.volcano.sh", "Job"}
	leader := Owner{Kind: "Pod", Name: "train-0", UID: "leader-uid"}
	owners := seenOwners{
		ownerOfKind(job):                         {},
		ownerOfKind(replicaSet):                  {},
		ownerOfKind(statefulSet):                 {},
		{"batch", "Job", "of-set", "1"}:          ownerOfKind(jobSet),
		{"batch", "Job", "of-mpi", "2"}:          ownerOfKind(mpiJob),
		{"batch", "Job", "of-cron", "3"}:         ownerOfKind(cronJob),
		{"batch", "Job", "of-flow", "4"}:         ownerOfKind(workflow),
		{"apps", "ReplicaSet", "of-deploy", "5"}: ownerOfKind(deployment),
		{"apps", "StatefulSet", "leaders", "6"}:  ownerOfKind(leaderWorkerSet),
		{"apps", "StatefulSet", "workers", "7"}:  leader,
		{"apps", "ReplicaSet", "of-job", "8"}:    ownerOfKind(jobSet),
		{"batch", "Job", "of-ray", "a"}:          {"ray.io", "RayJob", "train", "b"},
	}
	unit := func(name string, uid types.UID) Owner {
		return Owner{Group: leaderWorkerSet.group, Kind: leaderWorkerSet.kind, Name: name, UID: uid}
	}
	sized := map[string]string{SizeLabel: "4"}
	named := func(o Owner, gang bool) Identity {
		return Identity{Key: types.NamespacedName{Namespace: "ns", Name: o.PodGroupName()}, InPodGroup: true, NeedsPodGroup: gang, Owner: o}
	}
	alone := func(o Owner) Identity {
		return Identity{Key: types.NamespacedName{Namespace: "ns", Name: "pod/p/1"}, Owner: o}
	}
	labelled := func(name string, o Owner) Identity {
		return Identity{Key: types.NamespacedName{Namespace: "ns", Name: name}, InPodGroup: true, NeedsPodGroup: true, Owner: o}
	}
	labelledUnseen := labelled("g", Owner{})
	labelledUnseen.MissingOwner = Owner{"batch", "Job", "new", "9"}
	cases := map[string]struct {
		labels map[string]string
		owner  Owner
		want   Identity
	}{
		"a pod without label and owner is alone":                   {nil, Owner{}, alone(Owner{})},
		"an empty group label says nothing":                        {map[string]string{Label: ""}, Owner{}, alone(Owner{})},
		"a size label alone makes no group":                        {sized, Owner{}, alone(Owner{})},
		"the group label is the PodGroup's name as it is":          {map[string]string{Label: "Some_Group.1"}, Owner{}, labelled("Some_Group.1", Owner{})},
		"the group label goes before the owner":                    {map[string]string{Label: "g"}, ownerOfKind(job), labelled("g", ownerOfKind(job))},
		"a Job's pod waits for the Job's PodGroup":                 {nil, ownerOfKind(job), named(ownerOfKind(job), true)},
		"a label that says the same changes nothing":               {map[string]string{Label: ownerOfKind(deployment).PodGroupName()}, Owner{"apps", "ReplicaSet", "of-deploy", "5"}, named(ownerOfKind(deployment), false)},
		"each Job of a CronJob is a group":                         {nil, Owner{"batch", "Job", "of-cron", "3"}, named(Owner{"batch", "Job", "of-cron", "3"}, true)},
		"each Job of a maker that is not known is one":             {nil, Owner{"batch", "Job", "of-flow", "4"}, named(Owner{"batch", "Job", "of-flow", "4"}, true)},
		"the Jobs of a JobSet are one group":                       {nil, Owner{"batch", "Job", "of-set", "1"}, named(ownerOfKind(jobSet), true)},
		"the launcher's Job of an MPIJob is of its group":          {nil, Owner{"batch", "Job", "of-mpi", "2"}, named(ownerOfKind(mpiJob), true)},
		"the workers of an MPIJob are its own":                     {nil, ownerOfKind(mpiJob), named(ownerOfKind(mpiJob), true)},
		"head and workers of a RayCluster are its own":             {nil, ownerOfKind(rayCluster), named(ownerOfKind(rayCluster), true)},
		"the submitter of a RayJob is by itself":                   {nil, Owner{"batch", "Job", "of-ray", "a"}, named(Owner{"batch", "Job", "of-ray", "a"}, true)},
		"the pods of a PyTorchJob are its own":                     {nil, ownerOfKind(pyTorchJob), named(ownerOfKind(pyTorchJob), true)},
		"the leader of a LeaderWorkerSet names its unit":           {nil, Owner{"apps", "StatefulSet", "leaders", "6"}, named(unit("p", "1"), true)},
		"the workers of a LeaderWorkerSet follow their leader":     {nil, Owner{"apps", "StatefulSet", "workers", "7"}, named(unit("train-0", "leader-uid"), true)},
		"a StatefulSet is a gang":                                  {nil, ownerOfKind(statefulSet), named(ownerOfKind(statefulSet), true)},
		"the ReplicaSets of a Deployment are one group, no gang":   {nil, Owner{"apps", "ReplicaSet", "of-deploy", "5"}, named(ownerOfKind(deployment), false)},
		"with a size a Deployment is a gang":                       {sized, Owner{"apps", "ReplicaSet", "of-deploy", "5"}, named(ownerOfKind(deployment), true)},
		"a ReplicaSet of nobody is a group of its own":             {nil, ownerOfKind(replicaSet), named(ownerOfKind(replicaSet), false)},
		"a parent that has no such parts is no group":              {nil, Owner{"apps", "ReplicaSet", "of-job", "8"}, named(Owner{"apps", "ReplicaSet", "of-job", "8"}, false)},
		"a DaemonSet's pods are alone":                             {nil, ownerOfKind(daemonSet), alone(ownerOfKind(daemonSet))},
		"with a size they are a gang":                              {sized, ownerOfKind(daemonSet), named(ownerOfKind(daemonSet), true)},
		"a pod of a kind that is not known is alone":               {nil, ownerOfKind(volcanoJob), alone(ownerOfKind(volcanoJob))},
		"with a size it is in a gang":                              {map[string]string{MinLabel: "2"}, ownerOfKind(volcanoJob), named(ownerOfKind(volcanoJob), true)},
		"a static pod is alone whatever its labels say":            {sized, ownerOfKind(node), alone(ownerOfKind(node))},
		"a pod whose Job was not seen waits":                       {nil, Owner{"batch", "Job", "new", "9"}, Identity{Key: types.NamespacedName{Namespace: "ns", Name: "pod/p/1"}, NeedsPodGroup: true, MissingOwner: Owner{"batch", "Job", "new", "9"}}},
		"with a group label it need not be":                        {map[string]string{Label: "g"}, Owner{"batch", "Job", "new", "9"}, labelledUnseen},
		"a namesake of an owner that was seen is another":          {nil, Owner{"batch", "Job", "train", "9"}, Identity{Key: types.NamespacedName{Namespace: "ns", Name: "pod/p/1"}, NeedsPodGroup: true, MissingOwner: Owner{"batch", "Job", "train", "9"}}},
		"a size that was filled in makes a Deployment no gang":     {map[string]string{SizeLabel: "3", MinLabel: "1", "filled": "3/1"}, Owner{"apps", "ReplicaSet", "of-deploy", "5"}, named(ownerOfKind(deployment), false)},
		"a size that was changed after that is what its user said": {map[string]string{SizeLabel: "3", MinLabel: "2", "filled": "3/1"}, Owner{"apps", "ReplicaSet", "of-deploy", "5"}, named(ownerOfKind(deployment), true)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := controlledPod("1", tc.labels, tc.owner)
			if filled := tc.labels["filled"]; filled != "" {
				pod.Annotations = map[string]string{DefaultedAnnotation: filled}
			}
			if got := IdentityOf(pod, owners); got != tc.want {
				t.Errorf("Of() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestIdentityInANativePodGroup(t *testing.T) {
	owners := seenOwners{ownerOfKind(job): {}, ownerOfKind(replicaSet): {}, ownerOfKind(statefulSet): {}}
	unseen := Owner{"batch", "Job", "new", "9"}
	native := func(o Owner, needsMinimum bool) Identity {
		return Identity{Key: types.NamespacedName{Namespace: "ns", Name: "scheduling.k8s.io/train"}, InPodGroup: true, NeedsPodGroup: true, Owner: o, NeedsMinimum: needsMinimum}
	}
	waits := native(Owner{}, true)
	waits.MissingOwner = unseen
	cases := map[string]struct {
		labels map[string]string
		owner  Owner
		want   Identity
	}{
		"a pod without an owner":               {nil, Owner{}, native(Owner{}, false)},
		"its label says nothing":               {map[string]string{Label: "g"}, Owner{}, native(Owner{}, false)},
		"a size label asks for a minimum":      {map[string]string{SizeLabel: "4"}, Owner{}, native(Owner{}, true)},
		"a Job's pods start together":          {nil, ownerOfKind(job), native(ownerOfKind(job), true)},
		"a label beside a Job":                 {map[string]string{Label: "g"}, ownerOfKind(job), native(ownerOfKind(job), true)},
		"a ReplicaSet's pods start one by one": {nil, ownerOfKind(replicaSet), native(ownerOfKind(replicaSet), false)},
		"a ReplicaSet's pods with a minimum":   {map[string]string{MinLabel: "2"}, ownerOfKind(replicaSet), native(ownerOfKind(replicaSet), true)},
		"a static pod whatever its labels say": {map[string]string{MinLabel: "2"}, ownerOfKind(node), native(ownerOfKind(node), false)},
		"an owner that was not seen":           {nil, unseen, waits},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := controlledPod("1", tc.labels, tc.owner)
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("train")}
			if got := IdentityOf(pod, owners); got != tc.want {
				t.Errorf("IdentityOf() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestASchedulingGroupWithoutANameNamesNoPodGroup(t *testing.T) {
	for _, of := range []*corev1.PodSchedulingGroup{{}, {PodGroupName: new("")}} {
		pod := controlledPod("1", nil, Owner{})
		pod.Spec.SchedulingGroup = of
		if got := IdentityOf(pod, seenOwners{}); got.InPodGroup {
			t.Errorf("IdentityOf() = %+v with schedulingGroup %+v, want a pod alone", got, of)
		}
	}
}

func TestKeysOfNativePodGroups(t *testing.T) {
	key := NativeKey("ns", "train")
	if name, native := NativeName(key); name != "train" || !native {
		t.Errorf("NativeName(%v) = %q, %t", key, name, native)
	}
	if got, want := KeyText(key), "podgroup.scheduling.k8s.io ns/train"; got != want {
		t.Errorf("KeyText(%v) = %q, want %q", key, got, want)
	}
	own := types.NamespacedName{Namespace: "ns", Name: "train"}
	if name, native := NativeName(own); native {
		t.Errorf("NativeName(%v) = %q, want none", own, name)
	}
	if got, want := KeyText(own), "PodGroup ns/train"; got != want {
		t.Errorf("KeyText(%v) = %q, want %q", own, got, want)
	}
}

func TestAnOwnerThatDoesNotControlThePodIsNone(t *testing.T) {
	pod := controlledPod("1", nil, ownerOfKind(job))
	pod.OwnerReferences[1].Controller = nil
	if got := IdentityOf(pod, seenOwners{ownerOfKind(job): {}}); got.InPodGroup || got.NeedsPodGroup {
		t.Errorf("Of() = %+v, want a pod alone", got)
	}
}

// State 5 of the lessons of earlier systems: no two groups share a key if
// their names are the same in two namespaces, of two kinds or at two times.
func TestNoTwoGroupsShareAKey(t *testing.T) {
	namesake := ownerOfKind(job)
	namesake.UID = "another"
	owners := seenOwners{ownerOfKind(job): {}, namesake: {}, ownerOfKind(statefulSet): {}}
	labelled := controlledPod("1", map[string]string{Label: "p"}, Owner{})
	again := controlledPod("2", nil, Owner{})
	elsewhere := controlledPod("1", nil, Owner{})
	elsewhere.Namespace = "other"
	podOfAJobsName := controlledPod("3", nil, Owner{})
	podOfAJobsName.Name = "train"
	pods := []*corev1.Pod{
		labelled, again, controlledPod("1", nil, Owner{}), elsewhere, podOfAJobsName,
		controlledPod("4", nil, ownerOfKind(job)), controlledPod("5", nil, namesake), controlledPod("6", nil, ownerOfKind(statefulSet)),
	}
	seen := map[types.NamespacedName]bool{}
	for _, pod := range pods {
		key := IdentityOf(pod, owners).Key
		if seen[key] {
			t.Errorf("key %q belongs to two groups", key)
		}
		seen[key] = true
	}
	if name := IdentityOf(again, owners).Key.Name; !strings.Contains(name, "/") {
		t.Errorf("key %q of a lone pod could be the name of a PodGroup", name)
	}
}

// dns1123Label matches a label of RFC 1123 in lower case.
var dns1123Label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Requests 15 of the lessons of earlier systems: long and odd names make no invalid name or label.
func TestPodGroupName(t *testing.T) {
	long := strings.Repeat("a", 300)
	cases := map[string]struct {
		kind, name string
		want       string
	}{
		"a short name is kept whole":                        {"Job", "train", "job-train-"},
		"a name with dots loses them":                       {"Job", "train.v1.example", "job-train-v1-example-"},
		"a name of the largest length is cut":               {"Job", long, "job-" + long[:48] + "-"},
		"a name cut after a dash stays a label":             {"Job", strings.Repeat("a", 47) + "-bbbb", "job-" + strings.Repeat("a", 47) + "--"},
		"upper case and what is not ASCII are no hindrance": {"Job", "Zug-é", "job-zug---"},
		"an empty name leaves the hash":                     {"Job", "", "job--"},
		"a long kind leaves room for the name":              {strings.Repeat("Kind", 30), long, "kindkindkindkindkindk-" + long[:30] + "-"},
		"a kind that no label begins with":                  {"Ärger", "n", "x-rger-n-"},
		"no kind":                                           {"", "n", "x-n-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Owner{Kind: tc.kind, Name: tc.name, UID: "0d9e6c1e-7b1f-4f3c-8ac1-2f4f0f6a3a55"}.PodGroupName()
			if !strings.HasPrefix(got, tc.want) || len(got) != len(tc.want)+10 {
				t.Errorf("PodGroupName() = %q, want %q and ten characters", got, tc.want)
			}
			if len(got) > 63 || !dns1123Label.MatchString(got) {
				t.Errorf("PodGroupName() = %q is no DNS-1123 label", got)
			}
		})
	}
}

func TestOwnersThatCannotExist(t *testing.T) {
	sized := func(group, kind, name, uid int) Owner {
		x := func(n int) string { return strings.Repeat("x", n) }
		return Owner{Group: x(group), Kind: x(kind), Name: x(name), UID: types.UID(x(uid))}
	}
	cases := map[string]struct {
		owner Owner
		want  bool
	}{
		"the largest":                        {sized(253, 253, 253, 128), true},
		"a long group":                       {sized(254, 1, 1, 1), false},
		"a long kind":                        {sized(1, 254, 1, 1), false},
		"a long name":                        {sized(1, 1, 254, 1), false},
		"a long UID":                         {sized(1, 1, 1, 129), false},
		"none, as of a pod without an owner": {Owner{}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.owner.CanExist(); got != tc.want {
				t.Errorf("CanExist() = %t, want %t", got, tc.want)
			}
		})
	}
}

func FuzzPodGroupName(f *testing.F) {
	f.Add("Job", "train", "uid")
	f.Add("", "", "")
	f.Add("-É", strings.Repeat(".", 300), "\x00")
	f.Fuzz(func(t *testing.T, kind, name, uid string) {
		o := Owner{Kind: kind, Name: name, UID: types.UID(uid)}
		got := o.PodGroupName()
		if len(got) > 63 || !dns1123Label.MatchString(got) {
			t.Errorf("%+v makes %q, which is no DNS-1123 label", o, got)
		}
		if got != o.PodGroupName() {
			t.Errorf("the name of %+v changes from call to call", o)
		}
	})
}
