package fluence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// TestBlockerIsNamed: the matcher knows jobs, and messages name groups and pods.
func TestBlockerIsNamed(t *testing.T) {
	lone := func(uid string) match.JobID { return match.NewJobID("pod", uid) }
	cases := map[string]struct {
		job  func(r *rig) match.JobID
		want string // "" if no blocker is named
	}{
		"a group that was matched here":       {job: func(r *rig) match.JobID { return r.matches()[0].ID }, want: "; room for 3 more if group ns/g ends"},
		"a pod of another scheduler":          {job: func(*rig) match.JobID { return lone("foreign") }, want: "; room for 3 more if pod ns/foreign ends"},
		"a pod of a group from before":        {job: func(*rig) match.JobID { return lone("old") }, want: "; room for 3 more if pod ns/old of group ns/before ends"},
		"a pod that has ended":                {job: func(*rig) match.JobID { return lone("ended") }},
		"a pod that is gone":                  {job: func(*rig) match.JobID { return lone("gone") }},
		"a pod that waits":                    {job: func(*rig) match.JobID { return lone("lone") }},
		"a job that nobody has ever heard of": {job: func(*rig) match.JobID { return 77 }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.node("n1", 8)
				r.give("n1", "n1")
				others := func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
				for _, p := range []string{"foreign", "ended", "gone"} {
					r.pod(p, others, objects.OnNode("n1"))
				}
				r.remove("gone")
				ended := objects.Pod("ended", others, objects.OnNode("n1"))
				ended.Status.Phase = corev1.PodSucceeded
				r.must(r.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), ended, ns))
				r.pod("old", objects.InGroup("before"), objects.OnNode("n1"))
				r.preFilter(r.gang(2, 2)[0])
				// The scheduler's watch leaves out pods that have ended. This
				// watch does not, so the scheduler's cache keeps the pod.
				r.pass(maxCacheLag + time.Second)

				waits := r.pod("lone")
				r.matcherFake.Refuse(match.ErrBusy, match.Reason{
					Code: match.TooFew, Level: "cluster", Wanted: 4, Found: 1, Nodes: 1, WaitingHelps: true,
					Blocker: &match.Blocker{Job: tc.job(r), MoreSlots: 3},
				})
				_, _, status := r.preFilter(waits)
				if got := status.Message(); got != "needs 4 pods; room for 1"+tc.want || tc.want != "" && !strings.Contains(got, " ends") {
					t.Errorf("message = %q, want it to name %q", got, tc.want)
				}
			})
		})
	}
}

// Objects of another namespace are counted and not named, unless the administrator allows that.
func TestForeignObjectsAreNotNamed(t *testing.T) {
	for tell, want := range map[string]struct{ ends, reserved string }{
		TellNamesOwn: {"; room for 3 more if a pod of another namespace (priority 7) ends", "2 nodes are reserved for a group of another namespace (priority 0), which has waited 10m"},
		TellNamesAll: {"; room for 3 more if pod ns/foreign ends", "2 nodes are reserved for ns/g, which has waited 10m"},
	} {
		t.Run(tell, func(t *testing.T) {
			elsewhere := objects.Elsewhere
			inRig(t, nil, func(r *rig) {
				r.pl.args.TellNames = tell
				r.node("n1", 8)
				r.pod("foreign", objects.OnNode("n1"), func(p *corev1.Pod) { p.Spec.SchedulerName, p.Spec.Priority = "default-scheduler", new(int32(7)) })
				r.matcherFake.Refuse(match.ErrBusy, match.Reason{
					Code: match.TooFew, Level: "cluster", Wanted: 4, Found: 1, Nodes: 1, WaitingHelps: true,
					Blocker: &match.Blocker{Job: match.NewJobID("pod", "foreign"), MoreSlots: 3},
				})
				_, _, status := r.preFilter(r.pod("asks", elsewhere))
				if got := status.Message(); !strings.HasSuffix(got, want.ends) {
					t.Errorf("told %q, want %q in it", got, want.ends)
				}
			})
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.args.TellNames = tell
				r.largeGroupWaits()
				r.pass(10 * time.Minute)
				late := r.pod("late", elsewhere)
				r.pass(time.Second)
				if got := r.preEnqueueMessage(late); !strings.Contains(got, want.reserved) {
					t.Errorf("told %q, want %q in it", got, want.reserved)
				}
			})
		})
	}
}

// TestNeverFitsCountsDaemonSetPods: the reason NeverFits
// counts the pods of DaemonSets, and ends when they go.
func TestNeverFitsCountsDaemonSetPods(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pod("agent", objects.CPU("100m"), objects.OnNode("n1"), func(p *corev1.Pod) {
			p.Spec.SchedulerName = "default-scheduler"
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
		})
		r.pass(time.Second)
		r.schedule()
		r.gang(1, 1, objects.CPU("4"))
		r.pass(time.Minute)
		c := r.podGroupAPI.get(g).Status.Conditions
		if len(c) != 1 || c[0].Reason != reason.NeverFits || c[0].Message != "no node is large enough: cpu 4 wanted, largest node has 3900m" {
			t.Errorf("conditions = %+v, want that it never fits", c)
		}
		if head := r.pl.groups.Starving(time.Now(), 0); len(head) > 0 {
			t.Errorf("nodes are reserved for %v, which never fits", head)
		}
		r.remove("agent")
		r.pass(2 * time.Second)
		r.wantAssigned(map[string]string{"g-0": "n1"})
	})
}

// Blockers are each pod of other namespaces and each node with
// own pods, without pods that run on every node or have ended.
func TestBlockersOnNodes(t *testing.T) {
	in := func(namespace, node string, edit ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Namespace, p.Spec.NodeName = namespace, node
			for _, e := range edit {
				e(p)
			}
		}
	}
	daemon := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	}
	ended := objects.InPhase(corev1.PodSucceeded)
	var r occupants
	steps := []struct {
		what    string
		do      func()
		load    int
		foreign bool
	}{
		{"nothing", func() {}, 0, false},
		{"an own pod", func() { r.update(objects.Pod("own-1", in(ns, "n1"))) }, 1, false},
		{"another one there", func() { r.update(objects.Pod("own-2", in(ns, "n1"))) }, 1, false},
		{"a DaemonSet's", func() { r.update(objects.Pod("d", in("elsewhere", "n1", daemon))) }, 1, false},
		{"one of another namespace", func() { r.update(objects.Pod("o-1", in("elsewhere", "n1"))) }, 2, true},
		{"another of it", func() { r.update(objects.Pod("o-2", in("elsewhere", "n1"))) }, 3, true},
		{"the same again", func() { r.update(objects.Pod("o-2", in("elsewhere", "n1"))) }, 3, true},
		{"an own one elsewhere", func() { r.update(objects.Pod("own-3", in(ns, "n2"))) }, 4, true},
		{"on a node that is not asked for", func() { r.update(objects.Pod("o-3", in("elsewhere", "n3"))) }, 4, true},
		{"one that waits", func() { r.update(objects.Pod("o-4", in("elsewhere", ""))) }, 4, true},
		{"an own one ends", func() { r.update(objects.Pod("own-1", in(ns, "n1", ended))) }, 4, true},
		{"one of the others ends", func() { r.update(objects.Pod("o-1", in("elsewhere", "n1", ended))) }, 3, true},
		{"the other is gone", func() { r.remove(objects.Pod("o-2", in("elsewhere", "n1"))) }, 2, false},
		{"the last of its own there is gone", func() { r.remove(objects.Pod("own-2", in(ns, "n1"))) }, 1, false},
		{"all are gone", func() {
			r.remove(objects.Pod("own-3", in(ns, "n2")))
			r.remove(objects.Pod("o-3", in("elsewhere", "n3")))
		}, 0, false},
	}
	for _, s := range steps {
		s.do()
		if got := r.blockers([]string{"n1", "n2"}, ns); got.foreign+got.ownNodes != s.load {
			t.Errorf("%s: the load is %+v, want %d", s.what, got, s.load)
		}
		if got := r.hasForeign("n1", ns); got != s.foreign {
			t.Errorf("%s: others are there: %t, want %t", s.what, got, s.foreign)
		}
	}
	if len(r.byNode) != 0 {
		t.Errorf("nodes are remembered on which nobody is: %v", r.byNode)
	}
}
