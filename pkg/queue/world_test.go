package queue_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/queue/model"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// faults are what a test plants, to see that it is found. Nil functions change nothing.
type faults struct {
	// queue and job change what the core is given.
	queue func(*queue.Queue)
	job   func(*queue.Job)
	// ask and answer change what the core asks, and what it is answered.
	ask    func(*queue.Ask, *world)
	answer func(queue.Ask, *queue.Answer)
	// probe changes what a probe answers.
	probe func(*queue.Answer)
	// restore changes whether a promise is kept.
	restore func(can bool) bool
	// deaf is set if nobody says that there may be room.
	deaf bool
}

// A world is a core and a cluster that it asks, with what must hold.
type world struct {
	core    *queue.Core
	cluster *model.Cluster
	faults  faults
	queues  map[string]queue.Queue
	// jobs are all jobs, and running those that were started.
	jobs    map[types.NamespacedName]queue.Job
	running map[types.NamespacedName]bool
	// promises are what the decisions say. kept are those that could be kept, as Restore was asked about them in this pass.
	promises map[types.NamespacedName]queue.Promise
	kept     map[types.NamespacedName]bool
	// wrong is what does not hold.
	wrong []string
	asks  int
}

func newWorld(config queue.Config, cluster *model.Cluster, f faults) *world {
	return &world{
		core: queue.New(config), cluster: cluster, faults: f, queues: map[string]queue.Queue{},
		jobs: map[types.NamespacedName]queue.Job{}, running: map[types.NamespacedName]bool{}, promises: map[types.NamespacedName]queue.Promise{}, kept: map[types.NamespacedName]bool{},
	}
}

func (w *world) blame(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *world) putQueue(q queue.Queue) {
	w.queues[q.Name] = q
	if w.faults.queue != nil {
		w.faults.queue(&q)
	}
	w.core.PutQueue(q)
}

func (w *world) putWaiting(j queue.Job) {
	w.jobs[j.Key] = j
	delete(w.running, j.Key)
	if w.faults.job != nil {
		w.faults.job(&j)
	}
	w.core.PutWaiting(j)
}

func (w *world) drop(key types.NamespacedName) {
	delete(w.jobs, key)
	delete(w.running, key)
	w.core.Drop(key)
}

func (w *world) open(what queue.What) {
	if !w.faults.deaf {
		w.core.Open(what)
	}
}

// pass makes one pass, and checks that the decisions are what the core says of itself.
func (w *world) pass(more func() bool) {
	w.kept = map[types.NamespacedName]bool{}
	for _, d := range w.core.Pass(w.cluster.Now, w, more) {
		later := d.Change == queue.Promised && d.Promise.From.After(d.Before.From) && !d.Before.From.IsZero()
		if (later || d.Change == queue.Unpromised) && d.By == (types.NamespacedName{}) && w.kept[d.Key] {
			w.blame("Moved: %s loses its promise of %v without a reason", d.Key, d.Before.From)
		}
		switch d.Change {
		case queue.Started:
			delete(w.promises, d.Key)
		case queue.Promised:
			w.promises[d.Key] = d.Promise
		case queue.Unpromised:
			delete(w.promises, d.Key)
		}
	}
	for key, p := range w.promises {
		if s, ok := w.core.State(key); !ok || s.Promise != p {
			if !ok || w.core.Pending() {
				delete(w.promises, key) // it was dropped, or the next pass reports its end
				continue
			}
			w.blame("Decisions: %s is promised %v by the decisions, and %v by its state", key, p, s.Promise)
		}
	}
}

// Allocate implements queue.Matcher.
func (w *world) Allocate(a queue.Ask) queue.Answer { return w.answer(a, w.cluster.Allocate) }

// Promise implements queue.Matcher.
func (w *world) Promise(a queue.Ask) queue.Answer { return w.answer(a, w.cluster.Promise) }

// Probe implements queue.Matcher.
func (w *world) Probe(a queue.Ask, shorter time.Duration, later bool) queue.Answer {
	w.asks++
	got := w.cluster.Probe(a, shorter, later)
	if w.faults.probe != nil {
		w.faults.probe(&got)
	}
	return got
}

// Restore implements queue.Matcher.
func (w *world) Restore(j *queue.Job, p queue.Promise) bool {
	can := w.cluster.Restore(j, p)
	w.kept[j.Key] = can
	if w.faults.restore == nil {
		return can
	}
	kept := w.faults.restore(can)
	switch {
	case can && !kept:
		w.cluster.Cancel(j.Key)
	case kept && !can:
		w.cluster.Promised[j.Key] = model.SpanOf(j, p.From)
	}
	return kept
}

// Cancel implements queue.Matcher.
func (w *world) Cancel(key types.NamespacedName) { w.cluster.Cancel(key) }

// answer asks the cluster, and checks what must hold when a job starts.
func (w *world) answer(a queue.Ask, ask func(queue.Ask) queue.Answer) queue.Answer {
	w.asks++
	j := w.jobs[a.Job.Key]
	kept := w.keptBefore(j)
	if w.faults.ask != nil {
		w.faults.ask(&a, w)
	}
	got := ask(a)
	if w.faults.answer != nil {
		w.faults.answer(a, &got)
	}
	if got.Verdict == queue.Granted {
		w.checkStart(j, kept)
	}
	return got
}

// keptBefore returns the promises that can be kept now and that a job may not ignore.
func (w *world) keptBefore(j queue.Job) []types.NamespacedName {
	var kept []types.NamespacedName
	for key, s := range w.cluster.Promised {
		if o, ok := w.jobs[key]; ok && o.Key != j.Key && !w.outranks(j, o) && w.cluster.Fits(key, s, w.outranked(j)) {
			kept = append(kept, key)
		}
	}
	return kept
}

// outranked returns the jobs whose promises another one may ignore.
func (w *world) outranked(j queue.Job) []types.NamespacedName {
	return slices.DeleteFunc(slices.Collect(maps.Keys(w.cluster.Promised)), func(k types.NamespacedName) bool { return !w.outranks(j, w.jobs[k]) })
}

// outranks is the order of promises as users know it.
func (w *world) outranks(a, b queue.Job) bool {
	if a.Queue == b.Queue {
		return w.before(a, b)
	}
	p, q := w.queues[a.Queue].Priority, w.queues[b.Queue].Priority
	return p > q || p == q && a.Priority > b.Priority
}

// checkStart checks that a job may start, and that no promise before it moves by that.
func (w *world) checkStart(j queue.Job, kept []types.NamespacedName) {
	w.cluster.Held[j.Key] = model.SpanOf(&j, w.cluster.Now) // whatever the core has asked for
	q := w.queues[j.Queue]
	switch {
	case w.running[j.Key]:
		w.blame("Twice: %s starts twice", j.Key)
	case j.Held, j.Unplaceable:
		w.blame("Held: %s starts", j.Key)
	case !q.Started:
		w.blame("Stopped: %s starts in queue %s", j.Key, q.Name)
	}
	for _, key := range kept {
		if s, ok := w.cluster.Promised[key]; !ok || !w.cluster.Fits(key, s, w.outranked(j)) {
			w.blame("Later: what %s is promised from %v is gone by the start of %s", key, s.From, j.Key)
		}
	}
	running, same, used := 1, 1, maps.Clone(j.Requests)
	for key := range w.running {
		if o := w.jobs[key]; o.Queue == j.Queue {
			running++
			if key.Namespace == j.Key.Namespace {
				same++
			}
			for resource := range used {
				used[resource] += o.Requests[resource]
			}
		}
	}
	if m := q.Limits.Running; m > 0 && running > m {
		w.blame("Limit: %d jobs run in queue %s, the limit is %d", running, q.Name, m)
	}
	if m := q.Limits.NamespaceRunning; m > 0 && same > m {
		w.blame("Limit: %d jobs of namespace %s run in queue %s, the limit is %d", same, j.Key.Namespace, q.Name, m)
	}
	for resource, m := range q.Limits.Requests {
		if j.Requests[resource] > 0 && used[resource] > m {
			w.blame("Limit: %d of %s are used in queue %s, the limit is %d", used[resource], resource, q.Name, m)
		}
	}
	if q.Policy == queue.FCFS {
		w.checkFirst(j)
	}
	w.running[j.Key] = true
}

// checkFirst checks that nobody before a job in its queue could start, who waits.
func (w *world) checkFirst(j queue.Job) {
	for key, o := range w.jobs {
		if o.Queue != j.Queue || w.running[key] || o.Held || o.Unplaceable || !w.before(o, j) {
			continue
		}
		switch s, _ := w.core.State(key); s.Reason {
		case queue.NoRoom, queue.NotItsTurn, queue.HasPromise:
			w.blame("Passed: %s starts before %s (%s) in queue %s", j.Key, key, s.Reason, j.Queue)
		default: // its own fault
		}
	}
}

// before is the order of jobs as users know it.
func (w *world) before(a, b queue.Job) bool {
	p, q := w.queues[a.Queue].Priority, w.queues[b.Queue].Priority
	switch {
	case p != q:
		return p > q
	case a.Priority != b.Priority:
		return a.Priority > b.Priority
	case !a.Created.Equal(b.Created):
		return a.Created.Before(b.Created)
	}
	return a.Key.String() < b.Key.String()
}

// checkIdle checks that no job waits that may start: everyone has asked who has to.
func (w *world) checkIdle() {
	if w.cluster.Away {
		return
	}
	overdue := w.core.Overdue()
	for key, j := range w.jobs {
		s, ok := w.core.State(key)
		if !ok || s.Reason != queue.NoRoom && s.Reason != queue.NotItsTurn && s.Reason != queue.HasPromise {
			continue
		}
		if sum, _ := w.core.Summary(j.Queue); w.queues[j.Queue].Policy == queue.FCFS && sum.First != key {
			continue
		}
		a := queue.Ask{Job: &j}
		if s.Reason != queue.HasPromise {
			a.Ignore = w.outranked(j)
		}
		a.Avoid = slices.DeleteFunc(slices.Clone(overdue), func(k types.NamespacedName) bool { return k == key || !w.before(w.jobs[k], j) })
		if w.cluster.Probe(a, j.Duration, false).Verdict == queue.Granted && !w.limitedByPromise(s) {
			w.blame("Idle: %s waits (%s), and there is room", key, s.Reason)
		}
	}
}

// limitedByPromise reports whether a job with a promise waits for a limit.
func (w *world) limitedByPromise(s queue.State) bool {
	return s.Reason == queue.HasPromise && s.Limit.Name != ""
}
