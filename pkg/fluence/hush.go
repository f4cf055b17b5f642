package fluence

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// The failure handler puts a pod that failed into the queue, and has its status be written. A
// whole group may be called back at once: at most maxFailures pods are handled at a time. After
// failureWithin a pod waits for its place no longer.
const (
	maxFailures   = 16
	failureWithin = 2 * time.Second
)

// hush has the pods of Fluence's profile be told only once why they wait: the scheduler
// itself tells them at every attempt, though nothing but a number may be another. The
// API server may have bound the pod already: then it waits for nothing, and is told nothing.
func hush(sched *scheduler.Scheduler, pl *Fluence) {
	told, places := sched.FailureHandler, make(chan struct{}, maxFailures)
	sched.FailureHandler = func(ctx context.Context, f schedulerframework.Framework, pod *schedulerframework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if f.ProfileName() == pl.profile {
			f = hushed{Framework: f, pl: pl, pod: pod.GetPodInfo().GetPod().UID}
			if p := pod.GetPodInfo().GetPod(); p.Spec.NodeName != "" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, failureWithin)
				defer cancel()
				select {
				case places <- struct{}{}:
					defer func() { <-places }()
				case <-ctx.Done():
				}
				shown, err := f.SharedInformerFactory().Core().V1().Pods().Lister().Pods(p.Namespace).Get(p.Name)
				if err == nil && shown.UID == p.UID && shown.Spec.NodeName != "" {
					sched.SchedulingQueue.Done(p.UID)
					return
				}
				// A group that gave its nodes back may ask as soon as its pods are in the
				// queue again.
				defer func() { pl.waker.one(pl.key(p)) }()
			}
		}
		told(ctx, f, pod, status, nominating, start)
	}
}

// hushed is the framework that a failed attempt of one pod is told to.
type hushed struct {
	schedulerframework.Framework
	pl  *Fluence
	pod types.UID
}

// APICacher implements framework.Framework.
func (h hushed) APICacher() fwk.APICacher { return h.pl.podStatuses }

// EventRecorder implements framework.Framework.
func (h hushed) EventRecorder() events.EventRecorderLogger {
	return once{EventRecorderLogger: h.Framework.EventRecorder(), pl: h.pl, pod: h.pod}
}

// once records an event about a pod unless it is the last one again.
type once struct {
	events.EventRecorderLogger
	pl  *Fluence
	pod types.UID
}

// WithLogger implements events.EventRecorderLogger.
func (o once) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	o.EventRecorderLogger = o.EventRecorderLogger.WithLogger(logger)
	return o
}

// Eventf implements events.EventRecorder.
func (o once) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if o.pl.told.isNews(o.pod, reason+"\n"+note) {
		o.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
	if _, there := o.pl.groups.KeyOf(o.pod); !there {
		// It was deleted during its cycle, and is not forgotten later.
		o.pl.told.forget(o.pod)
	}
}

// told is what was said last of something, such as to a pod, by UID. The zero value
// is ready for use.
type told[K comparable] struct {
	mu   sync.Mutex
	last map[K]string
}

// isNews says whether something is said that was not said last.
func (t *told[K]) isNews(of K, text string) bool {
	text = gist(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[of] == text {
		return false
	}
	if t.last == nil {
		t.last = map[K]string{}
	}
	t.last[of] = text
	return true
}

// shortOn are the ways to say that a resource is short.
var shortOn = regexp.MustCompile(` is short on \d+ (of \d+ nodes?|nodes? there)| runs out`)

// gist is what a message says apart from what others change all the time: numbers, and
// whose end would help most.
func gist(text string) string {
	if before, rest, ok := strings.Cut(text, translate.MoreIf); ok {
		if _, after, ok := strings.Cut(rest, translate.Ends); ok {
			text = strings.TrimRight(before, "; 0123456789") + after
		}
	}
	text = shortOn.ReplaceAllString(text, " is short")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// forget drops what was said of something, such as a pod that is gone or has a node.
func (t *told[K]) forget(of K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, of)
}
