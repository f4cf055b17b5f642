package fluence

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
)

// PreBindPreFlight returns an empty result: PreBind is not
// skipped, and does not run in parallel with other plugins.
func (pl *Fluence) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return &fwk.PreBindPreFlightResult{}, nil
}

// PreBind blocks until the pod may be bound or its
// bind is cancelled. The pod waits in the bind queue.
func (pl *Fluence) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if why := pl.recordSeats(ctx, pod.UID); why != "" {
		return bindCanceled(pod, node, why)
	}
	why, err := pl.waitToBind(ctx, pod.UID, func(p bindqueue.Pod, now time.Time) bool {
		pl.bindQueue.Arrive(p, now)
		return true
	})
	switch {
	case err != nil:
		return fwk.AsStatus(err)
	case why != "":
		return bindCanceled(pod, node, why)
	}
	return nil
}
