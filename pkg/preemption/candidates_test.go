package preemption

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// now is the time of all queries.
var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// A world is what an Index is asked about.
type world struct {
	pods      []*corev1.Pod
	podGroups map[types.NamespacedName]PodGroup
	kept      map[string]bool
	owners    map[types.UID]Owner
	budgets   []*policyv1.PodDisruptionBudget
	// matched has the jobs of pods that this process matched.
	matched map[types.UID]match.JobID
}

// ControllerOf implements group.Owners.
func (w *world) ControllerOf(_ string, o group.Owner) (group.Owner, bool) {
	of, known := w.owners[o.UID]
	return of.Controller, known
}

func (w *world) cluster() Cluster {
	return Cluster{
		PodGroup: func(key types.NamespacedName) (PodGroup, bool) { pg, ok := w.podGroups[key]; return pg, ok },
		Kept:     func(namespace string) bool { return w.kept[namespace] },
		Owner:    func(_ string, o group.Owner) (Owner, bool) { of, known := w.owners[o.UID]; return of, known },
		Budgets:  func() []*policyv1.PodDisruptionBudget { return w.budgets },
		JobsOf: func(pods []*corev1.Pod) []match.JobID {
			jobs := make([]match.JobID, len(pods))
			for i, pod := range pods {
				if jobs[i] = w.matched[pod.UID]; jobs[i] == 0 {
					jobs[i] = match.NewJobID("pod", string(pod.UID))
				}
			}
			return jobs
		},
	}
}

// candidates asks for the candidates of a group of priority 100.
func (w *world) candidates(edit ...func(*Query)) ([]Victim, int) {
	x := NewIndex(w)
	for _, pod := range w.pods {
		x.PutPod(pod)
	}
	q := Query{
		For: Preemptor{Kind: Group, Namespace: objects.Namespace, Name: "urgent", Priority: 100}, Foreign: ForeignNever, Now: now,
		Own:    func(name string) bool { return name == objects.Scheduler || name == "second-profile" },
		Usable: func(node string) bool { return node != "unusable" },
	}
	for _, e := range edit {
		e(&q)
	}
	return x.Candidates(q, w.cluster())
}

// text describes a victim in one line.
func text(v Victim) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s p%d", v.Kind, v.Namespace, v.Name, v.Priority)
	for _, p := range v.Pods {
		fmt.Fprintf(&b, " %s@%s", p.Name, p.Node)
	}
	if v.Protected > 0 {
		fmt.Fprintf(&b, " protected %d", v.Protected)
	}
	if !v.ComesBack {
		b.WriteString(" lost")
	}
	if v.Suspend != (group.Owner{}) {
		fmt.Fprintf(&b, " suspend %s/%s", v.Suspend.Kind, v.Suspend.Name)
	}
	return b.String()
}

func texts(victims []Victim) []string {
	var all []string
	for _, v := range victims {
		all = append(all, text(v))
	}
	return all
}

// running returns a pod on node n1 that was bound an hour ago, and has a controller that makes it again.
func running(name string, priority int32, edit ...func(*corev1.Pod)) *corev1.Pod {
	return objects.Pod(name, objects.OnNode("n1"), boundBefore(time.Hour), func(p *corev1.Pod) { p.Spec.Priority = &priority },
		controlledBy("ReplicaSet", "web"), objects.All(edit...))
}

func boundBefore(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-d))}}
	}
}

// markedBefore gives a pod the mark of a scheduler that evicts it.
func markedBefore(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.NewTime(now.Add(-d)),
		})
	}
}

// controlledBy sets the controller of a pod. Its UID is its name. Without a kind there is none.
func controlledBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = nil
		apis := map[string]string{
			"ReplicaSet": "apps/v1", "Job": "batch/v1", "DaemonSet": "apps/v1", "Node": "v1", "PyTorchJob": "kubeflow.org/v1", "RayCluster": "ray.io/v1", "StatefulSet": "apps/v1",
		}
		if kind != "" {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apis[kind], Kind: kind, Name: name, UID: types.UID(name), Controller: &yes}}
		}
	}
}

func scheduler(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[key] = value
	}
}

// web is the controller of pods that come back.
var web = map[types.UID]Owner{"web": {}}

// with returns owners besides web.
func with(more map[types.UID]Owner) map[types.UID]Owner {
	all := map[types.UID]Owner{"web": {}}
	maps.Copy(all, more)
	return all
}

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: objects.Namespace, Name: name}
}

// groups returns PodGroups of these names.
func groups(names ...string) map[types.NamespacedName]PodGroup {
	all := map[types.NamespacedName]PodGroup{}
	for _, name := range names {
		all[keyOf(name)] = PodGroup{UID: types.UID(name)}
	}
	return all
}

func TestWhoMayBeEvicted(t *testing.T) {
	inGroup := objects.InGroup
	bare := controlledBy("", "")
	cases := map[string]struct {
		world
		query func(*Query)
		want  []string
	}{
		"a pod of lower priority": {world: world{pods: []*corev1.Pod{running("a", 99)}}, want: []string{"Pod ns/a p99 a@n1"}},
		"not one of the same":     {world: world{pods: []*corev1.Pod{running("a", 100)}}},
		"not one of higher":       {world: world{pods: []*corev1.Pod{running("a", 101)}}},
		"all pods of a group together": {
			world: world{pods: []*corev1.Pod{running("b", 5, inGroup("g")), running("a", 7, inGroup("g"), objects.OnNode("n2"))}, podGroups: groups("g")},
			want:  []string{"PodGroup ns/g p7 a@n2 b@n1"},
		},
		"not a group with one pod of the same priority": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g")), running("b", 100, inGroup("g"))}, podGroups: groups("g")},
		},
		"not a group with a pod of the same priority that waits": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g"))}, podGroups: map[types.NamespacedName]PodGroup{keyOf("g"): {Waits: true, Priority: 100}}},
		},
		"a group with a pod of lower priority that waits, at its priority": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g"))}, podGroups: map[types.NamespacedName]PodGroup{keyOf("g"): {Waits: true, Priority: 99}}},
			want:  []string{"PodGroup ns/g p99 a@n1"},
		},
		"pods of a group that has no PodGroup, alone": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g")), running("b", 100, inGroup("g"))}},
			want:  []string{"Pod ns/a p5 a@n1"},
		},
		"all pods of a native group together": {
			world: world{
				pods:      []*corev1.Pod{running("a", 5, objects.InNativeGroup("g")), running("b", 5, objects.InNativeGroup("g"))},
				podGroups: map[types.NamespacedName]PodGroup{group.NativeKey(objects.Namespace, "g"): {UID: "native"}},
			},
			want: []string{"NativePodGroup ns/g p5 a@n1 b@n1"},
		},
		"not a group that is being evicted": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g"))}, podGroups: map[types.NamespacedName]PodGroup{keyOf("g"): {Evicted: true}}},
		},
		"not the preemptor": {world: world{pods: []*corev1.Pod{running("a", 5, inGroup("urgent"))}, podGroups: groups("urgent")}},
		"not the preemptor, a pod alone": {
			world: world{pods: []*corev1.Pod{running("a", 5)}}, query: func(q *Query) { q.For = Preemptor{Kind: Pod, UID: "a", Priority: 100} },
		},
		"not pods of DaemonSets and static pods": {
			world: world{pods: []*corev1.Pod{
				running("a", 5, controlledBy("DaemonSet", "d"), objects.Always), running("b", 5, controlledBy("Node", "n1"), objects.Always),
			}},
		},
		"not a pod that is being deleted": {
			world: world{pods: []*corev1.Pod{running("a", 5, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })}},
		},
		"not a pod that is about to be evicted": {world: world{pods: []*corev1.Pod{running("a", 5, markedBefore(maxMarked))}}},
		"a pod that was about to be evicted, and was not": {
			world: world{pods: []*corev1.Pod{running("a", 5, markedBefore(maxMarked+time.Second))}}, want: []string{"Pod ns/a p5 a@n1"},
		},
		"a group with a pod that is about to be evicted, as a whole": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g"), markedBefore(0)), running("b", 5, inGroup("g"))}, podGroups: groups("g")},
			want:  []string{"PodGroup ns/g p5 a@n1 b@n1"},
		},
		"of a group, only the pods that are not ending": {
			world: world{
				pods:      []*corev1.Pod{running("a", 5, inGroup("g"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }), running("b", 5, inGroup("g"))},
				podGroups: groups("g"),
			},
			want: []string{"PodGroup ns/g p5 b@n1"},
		},
		"not a pod that has ended":      {world: world{pods: []*corev1.Pod{running("a", 5, objects.InPhase(corev1.PodSucceeded))}}},
		"not a pod without a node":      {world: world{pods: []*corev1.Pod{running("a", 5, objects.OnNode(""))}}},
		"no pod of another scheduler":   {world: world{pods: []*corev1.Pod{running("a", 5, scheduler("other")), running("b", 5, scheduler("other"), bare)}}},
		"pods of a profile of the same": {world: world{pods: []*corev1.Pod{running("a", 5, scheduler("second-profile"))}}, want: []string{"Pod ns/a p5 a@n1"}},
		"bare pods of another scheduler, if they may": {
			world: world{pods: []*corev1.Pod{running("a", 5, scheduler("other")), running("b", 5, scheduler("other"), bare)}},
			query: func(q *Query) { q.Foreign = ForeignBare }, want: []string{"Pod ns/b p5 b@n1 lost"},
		},
		"all pods of another scheduler, if they may": {
			world: world{pods: []*corev1.Pod{running("a", 5, scheduler("other")), running("b", 5, scheduler("other"), bare)}},
			query: func(q *Query) { q.Foreign = ForeignAll }, want: []string{"Pod ns/a p5 a@n1", "Pod ns/b p5 b@n1 lost"},
		},
		"a group without a pod of another scheduler that has its label": {
			world: world{pods: []*corev1.Pod{running("b", 5, inGroup("g")), running("c", 5, inGroup("g"), scheduler("other"), bare), running("a", 5, inGroup("g"))}, podGroups: groups("g")},
			want:  []string{"PodGroup ns/g p5 a@n1 b@n1"},
		},
		"a group, and alone a pod of another scheduler that has its label, if it may": {
			world: world{pods: []*corev1.Pod{running("b", 5, inGroup("g")), running("c", 200, inGroup("g"), scheduler("other")), running("a", 5, inGroup("g"), scheduler("other"))}, podGroups: groups("g")},
			query: func(q *Query) { q.Foreign = ForeignAll }, want: []string{"Pod ns/a p5 a@n1", "PodGroup ns/g p5 b@n1"},
		},
		"a group of another scheduler as a whole, if it may": {
			world: world{pods: []*corev1.Pod{running("b", 5, inGroup("g"), scheduler("other")), running("a", 5, inGroup("g"), scheduler("other"))}, podGroups: groups("g")},
			query: func(q *Query) { q.Foreign = ForeignAll }, want: []string{"PodGroup ns/g p5 a@n1 b@n1"},
		},
		"no part of a group of another scheduler": {
			world: world{pods: []*corev1.Pod{running("b", 5, inGroup("g"), scheduler("other")), running("a", 5, inGroup("g"), scheduler("other"), bare)}, podGroups: groups("g")},
			query: func(q *Query) { q.Foreign = ForeignBare },
		},
		"not in a namespace that is kept": {
			world: world{pods: []*corev1.Pod{running("a", 5), running("b", 5, objects.Elsewhere)}, kept: map[string]bool{objects.Namespace: true}},
			want:  []string{"Pod elsewhere/b p5 b@n1"},
		},
		"not a pod that was bound a moment ago": {
			world: world{pods: []*corev1.Pod{running("a", 5, boundBefore(59*time.Second)), running("b", 5, boundBefore(time.Minute))}},
			query: func(q *Query) { q.MinRuntime = time.Minute }, want: []string{"Pod ns/b p5 b@n1"},
		},
		"not a group that began a moment ago": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g"), boundBefore(59*time.Second)), running("b", 5, inGroup("g"), boundBefore(time.Second))}, podGroups: groups("g")},
			query: func(q *Query) { q.MinRuntime = time.Minute },
		},
		"a group that began long ago, with a pod that was bound a moment ago": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g"), boundBefore(time.Minute)), running("b", 5, inGroup("g"), boundBefore(time.Second))}, podGroups: groups("g")},
			query: func(q *Query) { q.MinRuntime = time.Minute }, want: []string{"PodGroup ns/g p5 a@n1 b@n1"},
		},
		"a pod that was bound in the future, by the clock of another machine": {
			world: world{pods: []*corev1.Pod{running("a", 5, boundBefore(-time.Second))}}, want: []string{"Pod ns/a p5 a@n1"},
		},
		"not a pod on a node that the group may not use": {
			world: world{pods: []*corev1.Pod{running("a", 5, objects.OnNode("unusable"))}},
		},
		"a group with one pod on a node that the group may use": {
			world: world{pods: []*corev1.Pod{running("a", 5, inGroup("g"), objects.OnNode("unusable")), running("b", 5, inGroup("g"))}, podGroups: groups("g")},
			want:  []string{"PodGroup ns/g p5 a@unusable b@n1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.owners = with(tc.owners)
			var edits []func(*Query)
			if tc.query != nil {
				edits = append(edits, tc.query)
			}
			victims, left := tc.candidates(edits...)
			if got := texts(victims); !slices.Equal(got, tc.want) || left != 0 {
				t.Errorf("%d more, and\n%s\nwant\n%s", left, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

func TestOrderOfCandidates(t *testing.T) {
	w := &world{owners: web, podGroups: groups("pair", "trio"), pods: []*corev1.Pod{
		running("pair-0", 5, objects.InGroup("pair")), running("pair-1", 5, objects.InGroup("pair")),
		running("trio-0", 5, objects.InGroup("trio")), running("trio-1", 5, objects.InGroup("trio")), running("trio-2", 5, objects.InGroup("trio")),
		running("old", 5, boundBefore(2*time.Hour)), running("new", 5, boundBefore(time.Minute)), running("low", 4),
		running("bare", 5, controlledBy("", "")), running("slow", 5, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(3600)) }), running("bare-low", 4, controlledBy("", "")), running("high", 6),
	}}
	want := []string{"low", "bare-low", "new", "old", "pair", "trio", "bare", "slow", "high"}
	victims, _ := w.candidates()
	var got []string
	for _, v := range victims {
		got = append(got, v.Name)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the order is %v, want %v", got, want)
	}
	var classes []int32
	units := Units(victims, now)
	for _, u := range units {
		classes = append(classes, u.Class)
	}
	if !slices.Equal(classes, []int32{0, 1, 2, 2, 2, 2, 3, 4, 5}) {
		t.Errorf("the classes are %v", classes)
	}
	if units[2].Cost != 60 || units[3].Cost != 7200 {
		t.Errorf("pods that have run for a minute and for two hours cost %d and %d", units[2].Cost, units[3].Cost)
	}
	few, left := w.candidates(func(q *Query) { q.Max = 3 })
	if len(few) != 3 || few[2].Name != "new" || left != 6 {
		t.Errorf("of at most 3 there are %v, and %d more, want the first 3 and 6 more", texts(few), left)
	}
}

func TestWhoComesBackAndWhoIsSuspended(t *testing.T) {
	under := func(o Owner, api, kind, name string) Owner {
		o.Controller = group.Owner{Group: api, Kind: kind, Name: name, UID: types.UID(name)}
		return o
	}
	of := func(job string) func(*corev1.Pod) { return controlledBy("Job", job) }
	two := func(controller func(*corev1.Pod), more ...func(*corev1.Pod)) []*corev1.Pod {
		return []*corev1.Pod{
			running("a", 5, objects.InGroup("g"), controller, objects.All(more...)), running("b", 5, objects.InGroup("g"), controller, objects.All(more...)),
		}
	}
	const both = "PodGroup ns/g p5 a@n1 b@n1"
	cases := map[string]struct {
		pods   []*corev1.Pod
		owners map[types.UID]Owner
		want   string
	}{
		"a bare pod is lost":                                    {[]*corev1.Pod{running("a", 5, controlledBy("", ""))}, nil, "Pod ns/a p5 a@n1 lost"},
		"a pod of a ReplicaSet comes back":                      {[]*corev1.Pod{running("a", 5)}, nil, "Pod ns/a p5 a@n1"},
		"a whole Job is suspended":                              {two(of("j")), map[types.UID]Owner{"j": {}}, both + " suspend Job/j"},
		"a Job of a CronJob is suspended":                       {two(of("j")), map[types.UID]Owner{"j": under(Owner{}, "batch", "CronJob", "c")}, both + " suspend Job/j"},
		"a JobSet is suspended, and not its Job":                {two(of("j")), map[types.UID]Owner{"j": under(Owner{}, "jobset.x-k8s.io", "JobSet", "s"), "s": {}}, both + " suspend JobSet/s"},
		"a TrainJob is suspended, and not its JobSet":           {two(of("j")), map[types.UID]Owner{"j": under(Owner{}, "jobset.x-k8s.io", "JobSet", "s"), "s": under(Owner{}, "trainer.kubeflow.org", "TrainJob", "t"), "t": {}}, both + " suspend TrainJob/t"},
		"a RayJob is not suspended: its PodGroup would go":      {two(controlledBy("RayCluster", "c")), map[types.UID]Owner{"c": under(Owner{}, "ray.io", "RayJob", "r"), "r": {}}, both},
		"a PyTorchJob is not suspended: nobody would resume it": {two(controlledBy("PyTorchJob", "p")), map[types.UID]Owner{"p": {}}, both},
		"nothing is suspended below an owner that is not known": {two(of("j")), map[types.UID]Owner{"j": under(Owner{}, "jobset.x-k8s.io", "JobSet", "s")}, both + " lost"},
		"nothing is suspended below an owner that cannot be":    {two(of("j")), map[types.UID]Owner{"j": under(Owner{}, "example.com", "Flow", "f"), "f": {}}, both + " lost"},
		"a Job with other pods is not suspended": {
			append(two(of("j")), running("c", 200, of("j"))), map[types.UID]Owner{"j": {}}, both + " lost",
		},
		"a Job whose pods are deleted one by one may be lost": {two(of("j")), map[types.UID]Owner{"j": under(Owner{}, "example.com", "Flow", "f")}, both + " lost"},
		"a Job of which nothing is known may be lost":         {two(of("j")), nil, both + " lost"},
		"what Kueue manages is deleted, and may be lost":      {two(of("j")), map[types.UID]Owner{"j": {Queued: true}}, both + " lost"},
		"so is what is below it":                              {two(of("j")), map[types.UID]Owner{"j": under(Owner{}, "jobset.x-k8s.io", "JobSet", "s"), "s": {Queued: true}}, both + " lost"},
		"so are pods that Kueue manages":                      {two(of("j"), labelled(QueueLabel, "q"), labelled(group.Label, "g")), map[types.UID]Owner{"j": {}}, both + " lost"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := &world{pods: tc.pods, owners: with(tc.owners), podGroups: groups("g")}
			victims, _ := w.candidates()
			if got := texts(victims); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// Pods that were matched together are named by their keys, because other pods may be of the same job.
func TestSlotsOfUnits(t *testing.T) {
	w := &world{owners: web, podGroups: groups("g"), matched: map[types.UID]match.JobID{"a": 7, "b": 7}, pods: []*corev1.Pod{
		running("a", 5, objects.InGroup("g")), running("b", 5, objects.InGroup("g")), running("c", 5, objects.InGroup("g")),
	}}
	victims, _ := w.candidates()
	units := Units(victims, now)
	want := []match.SlotRef{{Job: 7, Keys: []string{"a", "b"}}, {Job: match.NewJobID("pod", "c")}}
	same := func(a, b match.SlotRef) bool { return a.Job == b.Job && slices.Equal(a.Keys, b.Keys) }
	if len(units) != 1 || !slices.EqualFunc(units[0].Slots, want, same) {
		t.Errorf("the units are %+v, want one with %+v", units, want)
	}
	if got := victims[0].Pods[0].Slot.Keys; !slices.Equal(got, []string{"a"}) {
		t.Errorf("the slot of a pod has the keys %v", got)
	}
}

// The group of a pod is found once its owner is seen, and pods that change or go leave nothing behind.
func TestIndexFollowsPods(t *testing.T) {
	w := &world{owners: map[types.UID]Owner{}, podGroups: map[types.NamespacedName]PodGroup{}}
	x := NewIndex(w)
	find := func() []string {
		victims, _ := x.Candidates(Query{
			For: Preemptor{Kind: Group, Priority: 100}, Own: func(string) bool { return true }, Usable: func(string) bool { return true }, Now: now,
		}, w.cluster())
		return texts(victims)
	}
	a, b := running("a", 5, controlledBy("Job", "j")), running("b", 5, controlledBy("Job", "j"))
	x.PutPod(a)
	x.PutPod(b)
	if got := find(); len(got) != 2 {
		t.Fatalf("before the owner is seen there are %v, want each pod alone", got)
	}
	w.owners["j"] = Owner{}
	name := group.Owner{Group: "batch", Kind: "Job", Name: "j", UID: "j"}.PodGroupName()
	w.podGroups[keyOf(name)] = PodGroup{}
	if got, want := find(), []string{"PodGroup ns/" + name + " p5 a@n1 b@n1 suspend Job/j"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	x.PutPod(running("a", 6, controlledBy("Job", "j")))
	if got, want := find(), []string{"PodGroup ns/" + name + " p6 a@n1 b@n1 suspend Job/j"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	ended := b.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	x.PutPod(ended)
	x.RemovePod("a")
	x.RemovePod("a")
	if len(x.pods)+len(x.units)+len(x.controllers)+len(x.unseen) != 0 {
		t.Errorf("left are %d pods, %d units, %d controllers and %d pods with an owner that was not seen", len(x.pods), len(x.units), len(x.controllers), len(x.unseen))
	}
}

func BenchmarkCandidates(b *testing.B) {
	for _, tc := range []struct {
		name    string
		size    int
		budgets int
	}{{"alone", 1, 0}, {"groups of 8", 8, 0}, {"groups of 8, 100 budgets in 10 namespaces", 8, 100}, {"groups of 8, 50,000 budgets in 10 namespaces", 8, 50_000}} {
		b.Run(tc.name, func(b *testing.B) {
			const pods = 50_000
			w := &world{owners: map[types.UID]Owner{}, podGroups: map[types.NamespacedName]PodGroup{}, matched: map[types.UID]match.JobID{}}
			for i := range tc.budgets {
				w.budgets = append(w.budgets, &policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i%10)},
					Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}},
				})
			}
			for i := range pods {
				unit := fmt.Sprint("job-", i/tc.size)
				pod := running(fmt.Sprintf("%s-%d", unit, i), int32(i/tc.size%7), controlledBy("Job", unit), objects.In(fmt.Sprint("ns-", i/tc.size%10)),
					boundBefore(time.Duration(i)*time.Second), objects.OnNode(fmt.Sprint("n", i%5000)), labelled("app", fmt.Sprint(i%100)))
				w.pods = append(w.pods, pod)
				w.owners[types.UID(unit)] = Owner{}
				w.matched[pod.UID] = match.NewJobID("pod", string(pod.UID))
				if tc.size > 1 {
					owner := group.ControllerOf(pod)
					w.podGroups[types.NamespacedName{Namespace: pod.Namespace, Name: owner.PodGroupName()}] = PodGroup{}
					w.matched[pod.UID] = match.JobID(i/tc.size + 1)
				}
			}
			x := NewIndex(w)
			for _, pod := range w.pods {
				x.PutPod(pod)
			}
			q := Query{For: Preemptor{Kind: Group, Priority: 100}, Own: func(string) bool { return true }, Usable: func(string) bool { return true }, Now: now}
			for b.Loop() {
				victims, _ := x.Candidates(q, w.cluster())
				if units := Units(victims, now); len(units) != pods/tc.size {
					b.Fatalf("there are %d units", len(units))
				}
			}
		})
	}
}
