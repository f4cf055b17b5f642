package fluence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/objects"
)

// failures comes before the scheduler's own failure handler, which calls the API server.
// It takes a while for each pod that had a node, unless its context ends before.
type failures struct {
	mu        sync.Mutex
	takes     time.Duration
	now, most int
}

func (f *failures) wrap(sched *scheduler.Scheduler) {
	own := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, fw schedulerframework.Framework, pod *schedulerframework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if pod.Pod.Spec.NodeName != "" && ctx.Err() == nil {
			wait := f.begin()
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			f.end()
		}
		own(ctx, fw, pod, status, nominating, start)
	}
}

func (f *failures) begin() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now++
	f.most = max(f.most, f.now)
	return f.takes
}

func (f *failures) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
}

// A pod returns to the queue when the failure handler is done with it. That takes a limited time,
// however many pods fail at once, and the pod's group is placed as soon as the handler is done.
func TestRevokedGroupIsActivatedAfterItsPodsAreRequeued(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		const pods = 40
		r.failures.takes = time.Hour
		r.node("n1", pods)
		r.throttleBindsOf("g-")
		r.createGang("g", pods)
		r.schedule()
		r.pass(time.Second)
		r.node("n2", pods)
		r.updateNode("n1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		var back time.Time
		for len(r.matches()) < 2 {
			if back.IsZero() && len(r.matcherFake.Calls(matchtest.Release)) > 0 {
				back = time.Now()
			}
			if r.pass(10 * time.Millisecond); !back.IsZero() && time.Since(back) > time.Minute {
				t.Fatal("the group does not ask again")
			}
		}
		if took, most := time.Since(back), failureTimeout+100*time.Millisecond; took > most {
			t.Errorf("the group asked again after %v, want at most %v", took, most)
		}
		if r.failures.most != maxConcurrentFailures {
			t.Errorf("%d pods were told at the same time, want %d", r.failures.most, maxConcurrentFailures)
		}
		r.binds.set(0, nil)
		r.pass(time.Minute)
		for name, node := range r.assigned() {
			if node != "n2" {
				t.Errorf("pod %s is on %s, want n2", name, node)
			}
		}
		if got := len(r.assigned()); got != pods {
			t.Errorf("%d pods are bound, want %d", got, pods)
		}
		if strings.Contains(r.logged(0), "UnhandledError") {
			t.Errorf("errors are logged: %s", r.logged(0))
		}
	})
}

// A pod that is refused again and again for the same reason gets one event. Its
// condition has the newest numbers (Flow 16 of the lessons of earlier systems).
func TestRepeatedRefusalSendsOneEvent(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		asked := 0
		r.matcherFake.OnMatch(func(match.Request) (*match.Allocation, error) {
			asked++
			return nil, &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooFew, Level: "node", Wanted: 100, Found: int64(asked), Nodes: 1}}
		})
		r.node("n", 1)
		r.schedule()
		r.pod("waits", objects.CPU("8"))
		for i := range 5 {
			r.updateNode("n", func(n *corev1.Node) { n.Labels["round"] = fmt.Sprint(i) })
			r.pass(10 * time.Second)
		}
		if asked < 3 {
			t.Fatalf("the pod was asked for %d times, too few to tell it anything again", asked)
		}
		if got := r.refusals(); got != 1 {
			t.Errorf("%d events that say why the pod waits, want one; it was asked for %d times", got, asked)
		}
		// Another reason is reported too.
		r.matcherFake.OnMatch(func(match.Request) (*match.Allocation, error) { return nil, errors.New("out of order") })
		r.updateNode("n", func(n *corev1.Node) { n.Labels["round"] = "other" })
		r.pass(10 * time.Second)
		if got := r.refusals(); got != 2 {
			t.Errorf("%d events after the reason became another, want two", got)
		}
		r.remove("waits")
		r.pass(time.Second)
		if n := len(r.pl.reported.last); n != 0 {
			t.Errorf("what %d pods were told is kept, though they are gone", n)
		}
	})
}

// The scheduler also reports a pod that was deleted during its cycle.
func TestLastMessagesAreForgottenWithTheirPods(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		const pods = 10
		r.node("n", 1)
		asked := 0
		r.matcherFake.OnMatch(func(match.Request) (*match.Allocation, error) {
			r.must(r.client.CoreV1().Pods(ns).Delete(r.ctx, fmt.Sprintf("w-%d", asked), metav1.DeleteOptions{}))
			asked++
			time.Sleep(10 * time.Millisecond) // in the time of the bubble: the deletion is seen
			return nil, &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooFew, Level: "node", Wanted: 100, Nodes: 1}}
		})
		r.schedule()
		for i := range pods {
			r.pod(fmt.Sprintf("w-%d", i))
			r.pass(time.Second)
		}
		if asked != pods {
			t.Fatalf("%d pods were asked for, want %d", asked, pods)
		}
		if n := len(r.pl.reported.last); n != 0 {
			t.Errorf("what %d pods were told is kept, though they are gone", n)
		}
	})
}

func TestLastMessagesIgnoreNumbers(t *testing.T) {
	var all lastMessages[types.UID]
	steps := []struct {
		pod  types.UID
		text string
		want bool
	}{
		{"a", "room for 1", true},
		{"a", "room for 2", false},
		{"b", "room for 2", true},
		{"a", "no answer", true},
		{"a", "room for 1", true},
	}
	for i, s := range steps {
		if got := all.update(s.pod, s.text); got != s.want {
			t.Errorf("step %d: %q to pod %s is news: %v, want %v", i, s.text, s.pod, got, s.want)
		}
	}
}
