package fluence

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// Room that a pod of a job has left is left by others, until the end of the job, if the job may make another pod. A refusal says so.
func TestRoomThatAPodHasJustLeft(t *testing.T) {
	inQueueRig(t, 2, func(r *rig) {
		a := r.submit("a", 2, "1h")
		a.release()
		r.remove("a-0")
		r.pass(0)
		other := objects.Pod("other", objects.CPU("8"))
		said := func(namespace string) string {
			key := types.NamespacedName{Namespace: namespace, Name: "other"}
			refused := &gang.Refusal{Reason: reason.NoRoom}
			plan := gang.Plan{Key: key}
			plan.Required = []*corev1.Pod{other}
			r.pl.tellKept(plan, refused)
			return refused.Message
		}
		end, _ := r.pl.queues.End(a.key())
		left := claimsBefore(&r.pl.groupPlacer, gang.Rank{}).Expected
		if len(left) != 1 || left[0].Node != "n0" || !left[0].R.Expiration.Equal(end) || end.IsZero() {
			t.Errorf("%+v is left, want the room on n0 until %s", left, end)
		}
		if got := leftSlots(r.pl.base, a.key(), time.Now()); len(got) > 0 {
			t.Errorf("the job itself has to leave %+v", got)
		}
		for namespace, want := range map[string]string{
			ns: "; the room that a pod has just left on node n0 is kept a moment for Job ns/a, which may make another pod", "far": "is kept a moment for a job of another namespace",
		} {
			if got := said(namespace); !strings.Contains(got, want) {
				t.Errorf("namespace %s is told %q, want %q", namespace, got, want)
			}
		}
		// The pod had succeeded: the one that is left is the last.
		r.owners.editJob("a", func(job *batchv1.Job) { job.Spec.Completions, job.Status.Succeeded = new(int32(2)), 1 })
		r.pass(0)
		if got := leftSlots(r.pl.base, types.NamespacedName{}, time.Now()); len(got) > 0 || said(ns) != "" {
			t.Errorf("%+v is left although no pod is to come: %q", got, said(ns))
		}
	})
}
