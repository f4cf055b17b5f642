package fluence

import (
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/report"
)

const (
	// siblingReportEvery is the period at which the siblings of waiting groups
	// are checked. A reason is written only if it was the same one period ago.
	siblingReportEvery = 5 * time.Second
	// siblingReportRate is the largest number of writes a second, because there may be many siblings.
	siblingReportRate = 50
)

// A siblingReason is a reason for which pods of a group wait.
type siblingReason struct {
	group  types.NamespacedName
	reason string
}

// reportSiblings writes the condition PodScheduled=False to the siblings of a
// waiting group, until ctx ends. kube-scheduler writes the condition only to the pod
// that goes through a scheduling cycle, but cluster autoscalers add nodes only for
// pods that have it. A message that differs only in numbers is not written again.
func (tl *groupReporter) reportSiblings(ctx context.Context, leading func() bool) {
	t := time.NewTicker(siblingReportEvery)
	defer t.Stop()
	lasting, pace := map[siblingReason]bool{}, rate.NewLimiter(siblingReportRate, 1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		leads := leading()
		tl.stateCollector.leads.Store(leads)
		if !leads {
			continue
		}
		now, texts := map[siblingReason]bool{}, report.StableTexts{}
		for _, w := range tl.groups.WaitingSiblings(tl.now()) {
			is := siblingReason{w.Key, w.Reason}
			now[is] = true
			if !lasting[is] || len(w.Pods) == 0 {
				continue
			}
			toTell := slices.DeleteFunc(w.Pods, func(pod *corev1.Pod) bool {
				return !report.NeedsWaitingStatus(pod, w.Reason, w.Message, texts)
			})
			if len(toTell) == 0 {
				tl.groups.Told(w)
			}
			for _, pod := range toTell {
				if pace.Wait(ctx) != nil {
					return
				}
				if err := report.WriteWaitingStatus(ctx, tl.handle.ClientSet(), pod, w.Reason, w.Message); err != nil && ctx.Err() == nil {
					tl.counters.countFailedWrite(writesPod)
					klog.FromContext(ctx).Error(err, "Failed to write to a pod why its group waits", "pod", klog.KObj(pod))
				}
			}
		}
		lasting = now
	}
}
