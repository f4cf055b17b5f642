package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fsd"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// placeAtOnce is how many changed jobs are looked at with the lock held once.
const placeAtOnce = 1000

// takeJobs tells the core of the jobs that have changed.
func (l *loop) takeJobs(now time.Time) {
	for keys := range slices.Chunk(l.jobs.take(), placeAtOnce) {
		l.jobs.mu.Lock()
		for _, key := range keys {
			l.place(key, now)
		}
		l.jobs.mu.Unlock()
	}
}

// place tells the core whether a job waits, runs, or neither. The caller holds the lock of the jobs.
func (l *loop) place(key types.NamespacedName, now time.Time) {
	if was := l.jobs.gone[key]; was != nil {
		delete(l.jobs.gone, key)
		l.core.Drop(key)
		l.taken.set(was, "")
		l.teller.forget(key)
		l.announced = append(l.announced, key)
	}
	j := l.jobs.byKey[key]
	if j == nil {
		return
	}
	if w := l.taken[j.queue]; w != nil {
		delete(w.out, key) // unless that is the reason still
	}
	if j.isOver() {
		l.core.Drop(key)
		l.taken.set(j, "")
		l.teller.forget(key)
		l.announced = append(l.announced, key)
		return
	}
	if j.room == nil && j.created.IsZero() {
		l.core.Drop(key) // by the time of the object alone, it could come before jobs that were made earlier
		l.taken.set(j, "")
		return
	}
	q := l.asker.queues[j.queue]
	duration, err := durationOf(j, q)
	switch {
	case j.room != nil:
		if j.room.written && !j.room.announced {
			j.room.announced = true
			l.announced = append(l.announced, key)
		}
		l.core.PutRunning(j.core(duration))
		l.taken.set(j, "")
		if _, changes := l.wantedEnd(j); changes || j.delay != "" {
			l.edited = append(l.edited, key)
		}
		l.teller.look(key)
		return
	case q == nil:
		// The core tells that there is no such queue.
		if j.class.err == nil {
			l.core.PutWaiting(j.core(0))
			l.teller.look(key)
			return
		}
	}
	reason, why := l.whyApart(j, q, duration, err, now)
	if reason != "" {
		l.core.Drop(key)
		l.taken.set(j, "")
		j.sayReason, j.sayMessage = reason, l.jobs.texts.shared(why)
		l.teller.look(key)
		return
	}
	l.taken.set(j, j.queue)
	l.core.PutWaiting(j.core(duration))
	l.teller.look(key)
}

// durationOf returns the time limit of a job, 0 if it has none. The error names the field and the value.
func durationOf(j *job, q *jobQueue) (time.Duration, error) {
	if j.duration != "" {
		return fsd.ParseLimit("spec.duration", j.duration)
	}
	if q != nil {
		return q.duration, nil
	}
	return 0, nil
}

// whyApart returns why a job does not wait in its queue for now. It is empty if it does.
func (l *loop) whyApart(j *job, q *jobQueue, duration time.Duration, wrong error, now time.Time) (reason, message string) {
	name := j.queue
	switch {
	case j.leaving:
		return v1alpha1.ReasonPreempted, j.sayMessage
	case now.Before(j.retryAt):
		return v1alpha1.ReasonRequeued, j.sayMessage
	case j.invalidReason != "":
		return j.invalidReason, j.invalid
	case j.class.err != nil:
		return v1alpha1.ReasonInvalidJobspec, translate.Shorten(j.class.err.Error())
	case wrong != nil:
		return v1alpha1.ReasonInvalidDuration, wrong.Error()
	case !l.isAllowed(j.key.Namespace, q):
		return v1alpha1.ReasonNotAllowed, fmt.Sprintf("namespace %s may not use Queue %s: its spec.namespaceSelector does not select it", j.key.Namespace, name)
	}
	if reason, message = q.whyTooMuch(j.duration, duration, j.class.pods, j.class.requests); reason != "" {
		return reason, message
	}
	limits := &q.object.Spec.Limits
	if j.takenIn == name || j.phase == v1alpha1.Waiting {
		return "", ""
	}
	// It is new in the queue.
	if !q.isEnabled() {
		return v1alpha1.ReasonNotAllowed, fmt.Sprintf("Queue %s takes no new jobs: its spec.enabled is false", name)
	}
	if most := limits.Pending; most != nil && l.taken.queue(name).all >= int(*most) {
		l.taken.leaveOut(j)
		return v1alpha1.ReasonLimitReached, fmt.Sprintf("%d jobs wait in Queue %s already, as many as its spec.limits.pending", *most, name)
	}
	if most := limits.PerNamespace.Pending; most != nil && l.taken.queue(name).byNamespace[j.key.Namespace] >= int(*most) {
		l.taken.leaveOut(j)
		return v1alpha1.ReasonLimitReached, fmt.Sprintf("%d jobs of the namespace wait in Queue %s already, as many as its spec.limits.perNamespace.pending", *most, name)
	}
	return "", ""
}

// taken counts the jobs that wait, by queue.
type taken map[string]*waiting

// A waiting is what waits in one queue.
type waiting struct {
	all         int
	byNamespace map[string]int
	// out are the jobs that were left out, because too many waited.
	out map[types.NamespacedName]time.Time
}

func (t taken) queue(name string) *waiting {
	w := t[name]
	if w == nil {
		w = &waiting{byNamespace: map[string]int{}, out: map[types.NamespacedName]time.Time{}}
		t[name] = w
	}
	return w
}

// set records in which queue a job waits, if in any.
func (t taken) set(j *job, queue string) {
	if j.takenIn == queue {
		return
	}
	if w := t[j.takenIn]; w != nil {
		t.remove(w, j.key.Namespace)
	}
	j.takenIn = queue
	if queue != "" {
		w := t.queue(queue)
		w.all++
		w.byNamespace[j.key.Namespace]++
		delete(w.out, j.key)
	}
}

func (t taken) remove(w *waiting, namespace string) {
	w.all--
	if w.byNamespace[namespace]--; w.byNamespace[namespace] == 0 {
		delete(w.byNamespace, namespace)
	}
}

// leaveOut records that too many wait already.
func (t taken) leaveOut(j *job) { t.queue(j.queue).out[j.key] = j.created }

// admit lets the loop look again at as many of the jobs that were left out as a queue has room for, the oldest first.
func (t taken) admit(s *jobs, q *jobQueue) {
	w, limits := t[q.object.Name], &q.object.Spec.Limits
	if w == nil || len(w.out) == 0 {
		return
	}
	free := len(w.out)
	if limits.Pending != nil {
		free = int(*limits.Pending) - w.all
	}
	if free <= 0 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(w.out), func(a, b types.NamespacedName) int {
		return cmp.Or(w.out[a].Compare(w.out[b]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		most := limits.PerNamespace.Pending
		switch j := s.byKey[key]; {
		case j == nil || j.queue != q.object.Name:
			delete(w.out, key)
		case most != nil && w.byNamespace[key.Namespace] >= int(*most):
		case free > 0:
			free--
			s.markChanged(key)
		}
	}
}

// amountOf returns an amount of a resource as messages have it.
func amountOf(resource string, n int64) string { return quantityOf(resource, n) + " of " + resource }

// quantityOf returns an amount of a resource as a manifest has it.
func quantityOf(resource string, n int64) string {
	q := quantitiesOf(map[string]int64{resource: n})[corev1.ResourceName(resource)]
	return q.String()
}
