package fluence

import (
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/flux-k8s/fluence/pkg/report"
)

// groupReporter reports to users what becomes of groups and pods. It remembers its last messages.
type groupReporter struct {
	*base
	binder         *binder
	stateCollector *stateCollector
	podGroups      bothPodGroups
	recorder       events.EventRecorder
	reporter       *report.Reporter
	// events is the queue of events, which are sent after binds.
	events *report.EventWriter
	// podStatuses writes conditions of pods outside the scheduling loop.
	podStatuses *report.PodStatusWriter
	// reported has the last event of each pod, to suppress repetitions.
	reported lastMessages[types.UID]
	// logged has the last logged refusal of each group.
	logged lastMessages[types.NamespacedName]
}

// initReporting builds the event recorder, the reporter and the writer of pod statuses.
func (tl *groupReporter) initReporting(leading func() bool, identity ProcessIdentity) (err error) {
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
