package fluence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/test/objects"
)

// bindByOther lets another scheduler bind a pod.
func (r *rig) bindByOther(name, node string) {
	r.Helper()
	pods := r.client.CoreV1().Pods(ns)
	pod, err := pods.Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	_, err = pods.Update(r.ctx, pod, metav1.UpdateOptions{})
	r.must(err)
	r.pass(0)
}

// While a scheduler stands by, the pods in its queue keep the place that they had when they came.
func TestReplacementQueuedByAStandbyGoesFirst(t *testing.T) {
	priority := int32(1000)
	preferred := func(p *corev1.Pod) { p.Spec.Priority = &priority }
	cases := map[string]struct {
		// bound are the members that another scheduler has bound.
		bound []string
	}{
		"the member that asks is one of several that wait": {bound: []string{"g-1"}},
		"the member that asks is the only one that waits":  {bound: []string{"g-1", "g-2"}},
		"the member that asks is bound":                    {bound: []string{"g-0"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n", 3)
				r.gang(3, 3)
				r.pod("rival", preferred)
				for _, member := range tc.bound {
					r.bindByOther(member, "n")
				}
				r.pass(time.Second)
				r.schedule()
				r.pass(time.Second)
				got := r.assigned()
				for _, member := range []string{"g-0", "g-1", "g-2"} {
					if got[member] != "n" {
						t.Errorf("member %s is on %q, want it on the node before the rival: %v", member, got[member], got)
					}
				}
				if got["rival"] != "" {
					t.Errorf("the rival is on %q, where there was no room left", got["rival"])
				}
			})
		})
	}
}

// hung is an engine that does not answer requests.
type hung struct{ match.Engine }

func (h hung) Match(ctx context.Context, _ match.Request) (*match.Allocation, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", match.ErrUnavailable, ctx.Err())
}

// A cycle that places another group first does not wait a second time
// for a matcher that does not answer, even if the matcher answers a ping
// before the cycle goes on (Flow 18 of the lessons of earlier systems).
func TestACycleWaitsOnceForTheMatcher(t *testing.T) {
	for name, pinged := range map[string]bool{"as it comes": false, "a ping is answered meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			priority := int32(1000)
			inRig(t, hung{realEngine(t)}, func(r *rig) {
				r.node("n", 3)
				r.gang(3, 3)
				rival := r.pod("rival", func(p *corev1.Pod) { p.Spec.Priority = &priority })
				r.bindByOther("g-1", "n")
				r.pass(time.Second)
				if pinged {
					r.delayRefusalUntilPinged()
				}
				start := time.Now()
				_, _, status := r.preFilter(rival)
				r.wantStatus(status, fwk.Unschedulable, placement.WhyUnavailable)
				if took, n := time.Since(start), len(r.matches()); n != 1 || took > r.pl.args.MatchTimeout.Duration {
					t.Errorf("the cycle took %v and made %d matches, want one that takes %v", took, n, r.pl.args.MatchTimeout.Duration)
				}
			})
		})
	}
}

// delayRefusalUntilPinged delays the report of the next refusal until the breaker has closed.
func (r *rig) delayRefusalUntilPinged() {
	closed := r.pl.breaker.onClose
	pinged := make(chan struct{})
	r.pl.breaker.onClose = sync.OnceFunc(func() {
		close(pinged)
		closed()
	})
	r.beforeReport.Store(new(func() { <-pinged }))
}

// A replacement of a lost member is refused just before there is room, and another pod is placed
// just after. The pause between two refusals is no reason to let that other pod go first.
func TestReplacementGoesFirstDuringItsPause(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n", 1)
		lacking := r.gang(2, 2)[0]
		rival := r.pod("rival")
		r.bindByOther("g-1", "n")
		r.pass(time.Second)
		const full = "needs 1 pod with cpu 1; room for 0: cpu is short on 1 of 1 node (0 free)"
		// Each refusal makes the pause longer.
		for range 4 {
			r.preEnqueueMessage(lacking)
			_, _, status := r.preFilter(lacking)
			r.wantStatus(status, fwk.Unschedulable, full)
			r.updateNode("n", func(n *corev1.Node) { n.Labels = map[string]string{"at": time.Now().Format(time.RFC3339)} })
			r.pass(time.Second)
		}
		r.preEnqueueMessage(lacking)
		_, _, status := r.preFilter(lacking)
		r.wantStatus(status, fwk.Unschedulable, full)
		r.node("late", 1)
		r.pass(10 * time.Millisecond)
		_, _, status = r.preFilter(rival)
		r.wantStatus(status, fwk.Unschedulable, "needs 1 pod with cpu 1; room for 0: none of the 2 nodes has free cpu; room for 1 more if pod ns/g-1 of group ns/g ends")
		_, result, status := r.preFilter(lacking)
		r.wantStatus(status, fwk.Success, "")
		if !result.NodeNames.Has("late") {
			t.Errorf("what the group lacks is to go to %v, want late", result.NodeNames)
		}
	})
}

// A pod that is first in the queue places all that comes before
// it: the oldest incomplete group first, and not only one.
func TestAllReplacementsGoFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		cores int64
		want  []string
	}{
		"there is room for one of them": {1, []string{"old-1"}},
		"there is room for both":        {2, []string{"old-1", "young-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("started", 2)
				for _, g := range []string{"old", "young"} {
					r.podGroupAPI.put(aPodGroup(g, 2, types.UID("pg-"+g)))
					r.pod(g+"-0", objects.InGroup(g))
					r.pod(g+"-1", objects.InGroup(g))
					r.bindByOther(g+"-0", "started")
					r.pass(time.Second)
				}
				rival := r.pod("rival")
				r.node("n", tc.cores)
				_, _, status := r.preFilter(rival)
				if status.IsSuccess() {
					t.Error("the rival goes before what groups lack")
				}
				r.schedule()
				r.pass(time.Minute)
				got := r.assigned()
				delete(got, "old-0")
				delete(got, "young-0")
				if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, tc.want) {
					t.Errorf("%v got the room, want %v", names, tc.want)
				}
			})
		})
	}
}

// A refusal without an event that ends it can only be retried by guessing.
// Such a group is not placed again and again on behalf of others.
func TestBackoffOfReplacementIsNotEndedByOtherCycles(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n", 2)
		lacking := r.gang(2, 2)[0]
		r.bindByOther("g-1", "n")
		r.pass(time.Second)
		r.matcherFake.FailNext(matchtest.Match, errors.New("a fault of its own"))
		_, _, status := r.preFilter(lacking)
		if status.IsSuccess() {
			t.Fatal("a matcher with a fault placed a pod")
		}
		r.updateNode("n", func(n *corev1.Node) { n.Labels = map[string]string{"at": "now"} })
		before := len(r.matches())
		rival := r.pod("rival")
		r.preFilter(rival)
		if asked := r.matches()[before:]; len(asked) != 1 {
			t.Errorf("%d matches in the cycle of another pod, want that for the pod alone", len(asked))
		}
	})
}
