package fluence

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// waitingToBind returns the number of pods whose goroutines wait in the bind queue.
func (r *rig) waitingToBind() int {
	r.pl.bindQueue.mu.Lock()
	defer r.pl.bindQueue.mu.Unlock()
	return len(r.pl.bindQueue.waiting)
}

// A pod that another plugin holds out of the queue takes no admission from others.
func TestHeldPodsTakeNoAdmission(t *testing.T) {
	unclaimed := func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: new("missing")}}
	}
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(1, 0)
		r.node("n1", 100)
		r.schedule()
		for i := range 60 {
			r.pod(fmt.Sprintf("c%02d", i), unclaimed)
		}
		r.createGang("a", 9, unclaimed)
		r.pass(time.Second / 10)
		r.pod("lone")
		r.createGang("z", 20)
		r.pass(time.Second)
		if got := len(r.assigned()); got != 21 {
			t.Errorf("%d of 21 pods are bound; at the gate: %+v", got, r.pl.bindQueue.Snapshot())
		}
	})
}

// A group that was admitted and not activated is activated again.
func TestAdmittedGroupIsActivatedAgain(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(1, 100*time.Millisecond)
		r.node("n1", 100)
		lost, wake := 0, r.pl.activator.activate
		r.pl.activator.activate = func(ctx context.Context, w activationRequests) time.Time {
			if lost == 0 && len(w.admitted) > 0 {
				lost++
				return time.Time{}
			}
			return wake(ctx, w)
		}
		r.schedule()
		for i := range 4 {
			r.createGang(fmt.Sprintf("g%d", i), 8)
		}
		r.pass(10 * time.Second)
		if got := len(r.assigned()); got != 32 || lost != 1 {
			t.Errorf("%d of 32 pods are bound, and %d turns were lost", got, lost)
		}
	})
}

// holdingPlugin is a plugin that holds pods out of the queue until a ResourceClaim comes.
type holdingPlugin struct{ hold atomic.Bool }

func (*holdingPlugin) Name() string { return "Holder" }

func (h *holdingPlugin) PreEnqueue(context.Context, *corev1.Pod) *fwk.Status {
	if h.hold.Load() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held")
	}
	return nil
}

func (h *holdingPlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add}}}, nil
}

// A pod that another plugin holds enters the queue by an event of that plugin.
func TestHeldPodEntersQueueByEventOfTheHoldingPlugin(t *testing.T) {
	h := &holdingPlugin{}
	inRig(t, realEngine(t), func(r *rig) {
		h.hold.Store(true)
		r.node("n1", 100)
		r.schedule()
		r.createGang("g", 3)
		r.pod("lone")
		r.pass(20 * time.Second)
		if got := r.assigned(); len(got) > 0 {
			t.Fatalf("bound while they are held: %v", got)
		}
		h.hold.Store(false)
		r.add(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "c"}})
		r.pass(3 * time.Second)
		if got := r.assigned(); len(got) != 4 {
			t.Errorf("bound when they are held no more: %v, want 4 pods", got)
		}
	}, h)
}

// The scheduling queue runs plugins in any order, first the one that held a pod last, and
// none after one that holds the pod. A pod that another plugin holds is not ready, so that
// no namespace in debt waits for it. The test has enough pods for both orders to occur.
func TestHeldPodsAreNotReady(t *testing.T) {
	h := &holdingPlugin{}
	const n = 30
	namespace := func(i int) string { return fmt.Sprintf("of-%d", i) }
	inRig(t, realEngine(t), func(r *rig) {
		wantDue := func(when string, want int) {
			t.Helper()
			due := len(r.pl.groups.ReadyNamespaces(r.pl.now()))
			if due != want {
				t.Errorf("%s: %d groups are due, want %d", when, due, want)
			}
		}
		claims := 0
		release := func() {
			h.hold.Store(false)
			claims++
			r.add(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("c", claims)}})
		}
		r.node("n1", 1)
		r.pod("full", objects.OnNode("n1"))
		h.hold.Store(true)
		for i := range n {
			r.pod(fmt.Sprint("p", i), objects.In(namespace(i)))
		}
		wantDue("held from the start", 0)
		release()
		r.pass(time.Second)
		wantDue("held no more", n)
		r.schedule()
		r.pass(10 * time.Second)
		wantDue("refused", 0)
		h.hold.Store(true)
		r.remove("full")
		r.pass(time.Minute)
		wantDue("held when they may ask again", 0)
		release()
		r.pass(time.Minute)
		if got := len(r.assigned()); got != 1 {
			t.Errorf("%d pods are bound when they are held no more, want 1", got)
		}
	}, h)
}

// The API shows a waiting pod on a node: an earlier bind was made
// although no answer came, or another client has bound the pod.
func TestPodInBindQueueIsAlreadyBound(t *testing.T) {
	for _, node := range []string{"n1", "n2"} {
		t.Run(node, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.node("n1", 2)
				r.node("n2", 1)
				r.throttleBindsOf("g-")
				r.createGang("g", 2)
				r.schedule()
				r.pass(1200 * time.Millisecond)
				pods := corev1.SchemeGroupVersion.WithResource("pods")
				obj, err := r.client.Tracker().Get(pods, ns, "g-0")
				if err != nil {
					t.Fatal(err)
				}
				pod := obj.(*corev1.Pod).DeepCopy()
				pod.Spec.NodeName = node
				if err := r.client.Tracker().Update(pods, pod, ns); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
				if n := r.waitingToBind(); n > 1 {
					t.Errorf("%d pods wait to be bound, want that g-0 does not", n)
				}
				for _, e := range r.recorder.of("Pod") {
					if e.name == "g-0" && e.reason == "FailedScheduling" {
						t.Errorf("it is told that it failed: %+v", e)
					}
				}
				r.binds.set(0, nil)
				r.pass(time.Minute)
				if got := r.assigned(); got["g-0"] != node || got["g-1"] == "" || r.waitingToBind() > 0 {
					t.Errorf("pods are on %v, %d wait", got, r.waitingToBind())
				}
			})
		})
	}
}

// A late member does not change that its group is placed.
func TestLateMemberInBindQueueKeepsGroupPlaced(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 10)
		r.createGang("g", 2)
		r.schedule()
		r.pass(5 * time.Second)
		r.throttleBindsOf("g-9")
		r.pod("g-9", objects.InGroup("g"))
		r.pass(30 * time.Second)
		if c := r.scheduledCondition(); c.Reason != reason.Placed {
			t.Errorf("while a late member waits to be bound: %+v", c)
		}
		r.remove("g-9")
		r.binds.set(0, nil)
		r.pass(time.Minute)
		if c := r.scheduledCondition(); c.Reason != reason.Placed {
			t.Errorf("when it is gone: %+v", c)
		}
	})
}

// Neither does a late member that waits for admission.
func TestLateMemberWaitingForAdmissionKeepsGroupPlaced(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 100)
		r.createGang("g", 2)
		r.schedule()
		r.pass(5 * time.Second)
		r.limitBinds(1, 3*time.Second)
		for i := range 4 {
			r.createGang(fmt.Sprintf("a%d", i), 8, func(p *corev1.Pod) { p.Spec.Priority = new(int32(1000)) })
		}
		r.pod("g-9", objects.InGroup("g"))
		r.pass(15 * time.Second)
		if !r.pl.bindQueue.IsWaiting(g) {
			t.Fatal("the late member does not wait for its turn")
		}
		if c := r.scheduledCondition(); c.Reason != reason.Placed {
			t.Errorf("while a late member waits for its turn: %+v", c)
		}
		// The late member goes, and its group no longer waits for admission.
		r.remove("g-9")
		r.pass(2 * time.Second)
		if c := r.scheduledCondition(); c.Reason != reason.Placed || r.pl.bindQueue.IsWaiting(g) {
			t.Errorf("when it is gone: %+v, waits for its turn: %t", c, r.pl.bindQueue.IsWaiting(g))
		}
		r.binds.set(0, nil)
		r.pass(time.Minute)
	})
}

// A server may be too busy for one pod only, for instance
// because of a webhook. Only that pod is held up.
func TestPodThatIsAlwaysThrottledDoesNotBlockOthers(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 100)
		r.schedule()
		r.throttleBindsOf("g-0")
		r.createGang("g", 2)
		r.pass(10 * time.Second)
		for i := range 20 {
			r.pod(fmt.Sprintf("c%02d", i))
		}
		r.pass(10 * time.Second)
		if got := len(r.assigned()); got != 21 {
			t.Errorf("%d of 21 pods are bound; at the gate: %+v", got, r.pl.bindQueue.Snapshot())
		}
		if c := r.scheduledCondition(); c.Reason != reason.Binding || !strings.Contains(c.Message, "its last refusal: bind pod to node n1: ") {
			t.Errorf("condition = %+v, want what the API server said", c)
		}
	})
}
