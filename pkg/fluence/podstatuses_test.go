package fluence

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/test/objects"
)

// unscheduledCondition returns a condition with a message.
func unscheduledCondition(message string) []*corev1.PodCondition {
	return []*corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}
}

// podMessage returns the message of the pod's condition.
func (r *rig) podMessage(name string) string {
	r.Helper()
	for _, c := range r.shown(name).Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

func (r *rig) shown(name string) *corev1.Pod {
	r.Helper()
	obj, err := r.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), ns, name)
	r.must(err)
	return obj.(*corev1.Pod)
}

// However long the API server takes, nothing waits for the write
// of a pod's status. Of several statuses only the last is written.
func TestStatusesOfPodsAreNotWrittenByTheSchedulingLoop(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		var writes atomic.Int32
		r.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			writes.Add(1)
			time.Sleep(time.Second)
			return false, nil, nil
		})
		pod := r.pod("p")
		r.pass(time.Second)
		began := time.Now()
		for i := range 50 {
			if _, err := r.pl.podStatuses.PatchPodStatus(pod, unscheduledCondition(fmt.Sprint("words ", i)), nil); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the loop waits for %s", took)
		}
		r.pass(5 * time.Second)
		if got, n := r.podMessage("p"), writes.Load(); got != "words 49" || n > 2 {
			t.Errorf("the pod is told %q by %d writes, want the last words by two at the most", got, n)
		}
		// The same status is not written again.
		if _, err := r.pl.podStatuses.PatchPodStatus(pod, unscheduledCondition("words 49"), nil); err != nil {
			t.Fatal(err)
		}
		r.pass(5 * time.Second)
		if n := writes.Load(); n > 2 {
			t.Errorf("%d writes, though nothing has changed", n)
		}
	})
}

func TestPodStatuses(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", fmt.Errorf("changed"))
	cases := map[string]struct {
		edit       func(*corev1.Pod)
		fails      int
		with       error
		nominating *fwk.NominatingInfo
		told       string
		nominated  string
		writes     int
	}{
		"why it waits":             {told: "why", writes: 1},
		"one that has a node":      {edit: objects.OnNode("n1")},
		"after a conflict":         {fails: 1, with: conflict, told: "why", writes: 2},
		"after an API server's no": {fails: 2, with: apierrors.NewInternalError(fmt.Errorf("no")), told: "why", writes: 3},
		"where it never says yes":  {fails: 99, with: apierrors.NewInternalError(fmt.Errorf("no")), writes: 10},
		"a nomination that is over": {
			edit: func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }, told: "why", writes: 1,
			nominating: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride},
		},
		"a nomination that stays": {
			edit: func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }, told: "why", writes: 1, nominated: "n1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				var writes atomic.Int32
				r.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					n := int(writes.Add(1))
					return n <= tc.fails, nil, tc.with
				})
				var edits []func(*corev1.Pod)
				if tc.edit != nil {
					edits = append(edits, tc.edit)
				}
				pod := r.pod("p", edits...)
				r.pass(time.Second)
				if _, err := r.pl.podStatuses.PatchPodStatus(pod, unscheduledCondition("why"), tc.nominating); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Minute)
				if got := r.podMessage("p"); strings.TrimSpace(got) != tc.told || r.shown("p").Status.NominatedNodeName != tc.nominated {
					t.Errorf("it is told %q and nominated for %q, want %q and %q", got, r.shown("p").Status.NominatedNodeName, tc.told, tc.nominated)
				}
				if n := int(writes.Load()); n != tc.writes {
					t.Errorf("%d writes, want %d", n, tc.writes)
				}
			})
		})
	}
}
