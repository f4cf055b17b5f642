package fluence

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// A group with a promise spares the nodes that a later one is promised, if it finds others. If it does not, it starts there.
func TestAGroupWithAPromiseSparesLaterOnes(t *testing.T) {
	for _, nodes := range [][]string{{"n0", "n1"}, {"n1", "n0"}} {
		free, others := nodes[0], nodes[1]
		for name, tc := range map[string]struct{ ends, on string }{
			"both nodes are free":          {"both", free},
			"the other one's node is free": {"later", others},
		} {
			t.Run(name+": "+others, func(t *testing.T) {
				engine := realEngine(t)
				inRig(t, engine, func(r *rig) {
					r.pl.args.Promises = Promises{Depth: 2, Horizon: metav1.Duration{Duration: time.Hour}}
					r.pl.walltimes.enforced = true
					var closed atomic.Bool // the matcher finds no room now
					r.matcherFake.OnMatch(func(q match.Request) (*match.Allocation, error) {
						if closed.Load() && q.Op == match.Allocate {
							return nil, &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooFew, Wanted: 1, WaitingHelps: true}}
						}
						return engine.Match(r.ctx, q)
					})
					r.node("n0", 8)
					r.node("n1", 8)
					r.pass(settleTime)
					r.schedule()
					lone := func(name, node string, seconds int64) {
						r.pod(name, objects.CPU("8"), withoutGrace, func(p *corev1.Pod) {
							p.Spec.ActiveDeadlineSeconds = &seconds
							if node != "" {
								p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
							}
						})
						r.pass(2 * time.Second)
					}
					lone("sooner", free, 600)
					lone("later", others, 1200)
					lone("first", "", 1800)
					lone("second", others, 600)
					closed.Store(true)
					if r.remove("later"); tc.ends == "both" {
						r.remove("sooner")
					}
					r.pass(time.Second)
					closed.Store(false)
					r.pass(askPromisedEvery + 2*time.Second)
					if got := r.assigned()["first"]; got != tc.on {
						t.Errorf("it is on %q, want %q; these run: %v", got, tc.on, r.assigned())
					}
				})
			})
		}
	}
}

// A group without a promise spares the nodes that one after it is promised, too, if it finds others. If it does not, it starts
// there, and the message of the other one names it.
func TestAGroupWithoutAPromiseSparesLaterOnes(t *testing.T) {
	for name, tc := range map[string]struct{ taken, on, why string }{
		"there is another node": {on: "n2"},
		"there is none":         {taken: "n2", on: "n0", why: "pod ns/urgent was placed on node n0 before it"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.args.Promises = Promises{Depth: 1, Horizon: metav1.Duration{Duration: time.Hour}}
				r.pl.walltimes.enforced = true
				r.node("n0", 8)
				r.node("n1", 8)
				r.node("n2", 4) // too small for the group with the promise
				r.pass(settleTime)
				r.schedule()
				lone := func(name, cpu, node string, seconds int64, edit ...func(*corev1.Pod)) {
					r.pod(name, append(edit, objects.CPU(cpu), withoutGrace, func(p *corev1.Pod) {
						p.Spec.ActiveDeadlineSeconds = &seconds
						if node != "" {
							p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
						}
					})...)
					r.pass(2 * time.Second)
				}
				lone("busy", "8", "n1", 600)
				if tc.taken != "" {
					lone("small", "4", tc.taken, 1200)
				}
				r.gangFor("promised", 2, 0, "10m")
				r.pass(2 * time.Second)
				lone("urgent", "4", "", 1200, atPriority(1))
				if got := r.assigned()["urgent"]; got != tc.on {
					t.Errorf("it is on %q, want %q; these run: %v", got, tc.on, r.assigned())
				}
				p := r.pl.promises.get(types.NamespacedName{Namespace: ns, Name: "promised"})
				if p == nil || p.why != tc.why {
					t.Errorf("the promise is %+v, want one that moved because of %q", p, tc.why)
				}
			})
		})
	}
}

// waitsInPermit makes the pods of a gang wait before they are bound.
type waitsInPermit struct{ gang string }

// Name implements fwk.Plugin.
func (*waitsInPermit) Name() string { return "Patience" }

// Permit implements fwk.PermitPlugin.
func (p *waitsInPermit) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	if pod.Labels[group.Label] != p.gang {
		return nil, 0
	}
	return fwk.NewStatus(fwk.Wait), time.Minute
}

// A group that has found nodes leaves the room that it is promised elsewhere. If it takes nodes of the next one, that is
// promised this room at once, before any other.
func TestAGroupThatHasFoundNodesLeavesItsPromise(t *testing.T) {
	waits := &waitsInPermit{"first"}
	inRig(t, realEngine(t), func(r *rig) {
		promiseOf := func(name string) *promise {
			p := r.pl.promises.get(types.NamespacedName{Namespace: ns, Name: name})
			if p == nil {
				t.Fatalf("%s is promised nothing; it waits with %q", name, r.why(name))
			}
			return p
		}
		r.pl.args.Promises = Promises{Depth: 2, Horizon: metav1.Duration{Duration: time.Hour}}
		r.pl.walltimes.enforced = true
		for i := range 5 {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		for _, g := range []struct {
			name     string
			pods     int
			duration string
		}{{"running", 4, "10m"}, {"first", 2, "10m"}, {"second", 3, "10m"}, {"third", 1, "20m"}} {
			r.gangFor(g.name, g.pods, 0, g.duration)
			r.pass(2 * time.Second)
		}
		freed, at := "", promiseOf("second").at()
		for pod, node := range r.assigned() {
			if freed == "" && promiseOf("second").nodes.Has(node) {
				freed = node
				r.remove(pod)
			}
		}
		r.pass(2 * time.Second)
		if p := promiseOf("second"); !p.at().Equal(at) || p.nodes.Has(freed) {
			t.Errorf("it is promised nodes %v from %s, want it promised others than %s from %s", p.nodes.UnsortedList(), p.at(), freed, at)
		}
		r.fwk.IterateOverWaitingPods(func(p fwk.WaitingPod) { p.Allow(waits.Name()) })
		r.pass(2 * time.Second)
		if !r.starts("first", 2) {
			t.Errorf("these run: %v", r.assigned())
		}
		if p := promiseOf("third"); !p.at().After(at) || meet(p.nodes, promiseOf("second").nodes) {
			t.Errorf("the third one is promised nodes %v from %s", p.nodes.UnsortedList(), p.at())
		}
	}, waits)
}

// A group whose rank has become earlier since its promise does not spare its own room.
func TestAGroupDoesNotSpareItsOwnPromise(t *testing.T) {
	named := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: ns, Name: name} }
	rank := func(name string, priority int32) gang.Rank { return gang.Rank{Key: named(name), Priority: priority} }
	s := &promises{groups: map[types.NamespacedName]*promise{
		named("own"):    {rank: rank("own", 1), job: match.Job{ID: 1}},
		named("later"):  {rank: rank("later", 0), job: match.Job{ID: 2}},
		named("leaves"): {rank: rank("leaves", 0), job: match.Job{ID: 3}, leaves: true},
		named("before"): {rank: rank("before", 3), job: match.Job{ID: 4}},
	}}
	if got := s.sparedBy(named("own"), rank("own", 2)); !slices.Equal(got, []match.JobID{2}) {
		t.Errorf("it spares the reservations %v, want that of the later group alone", got)
	}
}
