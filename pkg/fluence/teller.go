package fluence

import (
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/flux-k8s/fluence/pkg/report"
)

// A teller tells users what became of groups and pods, and keeps what it has told.
type teller struct {
	*base
	binder    *binder
	figures   *figures
	podGroups *podGroups
	recorder  events.EventRecorder
	reporter  *report.Reporter
	// events are sent after binds.
	events      *report.Events
	podStatuses *report.PodStatuses
	// told is what pods were told last, and logged what was logged of groups.
	told   lastWords[types.UID]
	logged lastWords[types.NamespacedName]
}

// beginTelling builds what the teller writes with.
func (tl *teller) beginTelling(leading func() bool, as Identity) (err error) {
	if tl.events, err = report.NewEvents(tl.handle.KubeConfig(), tl.profile, as.Name); err != nil {
		return err
	}
	tl.recorder = tl.events.Recorder(tl.handle.EventRecorder())
	tl.podStatuses = report.NewPodStatuses(tl.handle.ClientSet(), func() corelisters.PodLister {
		return tl.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	}, func() { tl.counters.failed(writesPod) })
	tl.reporter = report.NewReporter(report.Config{
		Store: tl.podGroups, Recorder: tl.recorder, Leading: leading, Whole: tl.groups.WholeOf, First: tl.binder.binds.whenEmpty,
		Failed: func() { tl.counters.failed(writesPodGroup) },
	})
	tl.events.Always = tl.args.PodEvents == PodEventsAlways
	tl.events.First, tl.events.Busy = tl.binder.binds.whenEmpty, tl.reporter.Busy
	tl.events.Dropped = tl.counters.eventsDropped.Inc
	tl.events.Throttled = tl.counters.throttled.WithLabelValues(writesEvent).Inc
	return nil
}
