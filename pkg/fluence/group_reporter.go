package fluence

import (
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/flux-k8s/fluence/pkg/report"
)

// A teller tells users what became of groups and pods, and keeps what it has told.
type groupReporter struct {
	*base
	binder    *binder
	status    *status
	podGroups *podGroups
	recorder  events.EventRecorder
	reporter  *report.Reporter
	// events are sent after binds.
	events      *report.EventWriter
	podStatuses *report.PodStatusWriter
	// reported is what pods were told last, and logged what was logged of groups.
	reported lastMessages[types.UID]
	logged   lastMessages[types.NamespacedName]
}

// initReporting builds what the teller writes with.
func (tl *groupReporter) initReporting(leading func() bool, identity Identity) (err error) {
	if tl.events, err = report.NewEventWriter(tl.handle.KubeConfig(), tl.profile, identity.Name); err != nil {
		return err
	}
	tl.recorder = tl.events.Recorder(tl.handle.EventRecorder())
	tl.podStatuses = report.NewPodStatusWriter(tl.handle.ClientSet(), func() corelisters.PodLister {
		return tl.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	}, func() { tl.counters.countFailedWrite(writesPod) })
	tl.reporter = report.NewReporter(report.Config{
		Store: tl.podGroups, Recorder: tl.recorder, Leading: leading, Exclusive: tl.groups.ExclusivityOf, BindsIdle: tl.binder.bindQueue.whenIdle,
		Failed: func() { tl.counters.countFailedWrite(writesPodGroup) },
	})
	tl.events.SendInline = tl.args.PodEvents == PodEventsAlways
	tl.events.BindsIdle, tl.events.HasPendingConditions = tl.binder.bindQueue.whenIdle, tl.reporter.IsBusy
	tl.events.Dropped = tl.counters.eventsDropped.Inc
	tl.events.Throttled = tl.counters.writesThrottled.WithLabelValues(writesEvent).Inc
	return nil
}
