package fluence

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/report"
)

const (
	// siblingReportEvery is how often the pods are looked through that wait beside the one
	// that asks: what they are told has lasted for as long.
	siblingReportEvery = 5 * time.Second
	// siblingReportPause is the least time between two writes, for there may be many.
	siblingReportPause = 20 * time.Millisecond
)

// reportSiblings has all pods of a group that finds no room say so, not only the one that
// asks, until ctx ends. The scheduler itself writes nothing on pods that PreEnqueue
// holds, and autoscalers make room for those pods only that have a condition
// PodScheduled=False. Numbers alone are not written again.
func (tl *groupReporter) reportSiblings(ctx context.Context, leading func() bool) {
	t := time.NewTicker(siblingReportEvery)
	defer t.Stop()
	lasting := map[types.NamespacedName]string{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		leads := leading()
		tl.status.leads.Store(leads)
		if !leads {
			continue
		}
		now := map[types.NamespacedName]string{}
		for _, b := range tl.groups.WaitingSiblings(tl.now()) {
			now[b.Key] = b.Reason
			if lasting[b.Key] != b.Reason || !report.NeedsWaitingStatus(b.Pod, b.Reason, b.Message) {
				continue
			}
			if err := report.WriteWaitingStatus(ctx, tl.handle.ClientSet(), b.Pod, b.Message); err != nil && ctx.Err() == nil {
				tl.counters.countFailedWrite(writesPod)
				klog.FromContext(ctx).Error(err, "Tell a pod why its group waits", "pod", klog.KObj(b.Pod))
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(siblingReportPause):
			}
		}
		lasting = now
	}
}
