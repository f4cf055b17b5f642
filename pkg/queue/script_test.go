package queue_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/queue/model"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// faults are what a test plants, so that it can be seen that it is found.
type faults struct {
	// queue, job and class change what the core is given. Nil functions change nothing.
	queue func(*queue.Queue)
	job   func(*queue.Job)
	// ask and answer change what the core asks, and what it is answered.
	ask    func(*queue.Ask, *world)
	answer func(queue.Ask, *queue.Answer)
	// deaf is set if the core does not get to know that room or nodes came.
	deaf bool
	// keeps is set if each promise of before is restored, whether or not there is room.
	keeps bool
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
	// promises are what the decisions say.
	promises map[types.NamespacedName]queue.Promise
	// wrong is what does not hold.
	wrong []string
	asks  int
}

func newWorld(config queue.Config, cluster *model.Cluster, f faults) *world {
	return &world{
		core: queue.New(config), cluster: cluster, faults: f, queues: map[string]queue.Queue{},
		jobs: map[types.NamespacedName]queue.Job{}, running: map[types.NamespacedName]bool{}, promises: map[types.NamespacedName]queue.Promise{},
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

func (w *world) open(what queue.What, partitions ...string) {
	if !w.faults.deaf {
		w.core.Open(what, partitions...)
	}
}

// pass makes one pass, and checks that the decisions are what the core says of itself.
func (w *world) pass(more func() bool) {
	for _, d := range w.core.Pass(w.cluster.Now, w, more) {
		switch d.Change {
		case queue.Started:
			w.running[d.Key] = true
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
	return w.cluster.Probe(a, shorter, later)
}

// Restore implements queue.Matcher.
func (w *world) Restore(j *queue.Job, p queue.Promise) bool {
	return w.cluster.Restore(j, p) || w.faults.keeps
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

// keptBefore returns the promises before a job that can be kept now, if those after it do not count.
func (w *world) keptBefore(j queue.Job) []types.NamespacedName {
	var kept []types.NamespacedName
	for key, s := range w.cluster.Promised {
		if o, ok := w.jobs[key]; ok && w.before(o, j) && w.cluster.Fits(key, s, w.promisedAfter(j)) {
			kept = append(kept, key)
		}
	}
	return kept
}

func (w *world) promisedAfter(j queue.Job) []types.NamespacedName {
	return slices.DeleteFunc(slices.Collect(maps.Keys(w.cluster.Promised)), func(k types.NamespacedName) bool { return !w.before(j, w.jobs[k]) })
}

// checkStart checks that a job may start, and that no promise before it moves by that.
func (w *world) checkStart(j queue.Job, kept []types.NamespacedName) {
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
		if s, ok := w.cluster.Promised[key]; !ok || !w.cluster.Fits(key, s, w.promisedAfter(j)) {
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

// A script is a history of queues, jobs and nodes, drawn from a seed.
type script struct {
	*world
	model *model.Model
	// twin is the cluster of the model.
	twin *model.Cluster
	rng  *rand.Rand
	made int
	// late are jobs that run longer than they may.
	late map[types.NamespacedName]bool
	// yields is set if passes end early.
	yields bool
	log    []string
}

func (s *script) note(format string, args ...any) {
	s.log = append(s.log, s.cluster.Now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func newScript(seed uint64, f faults) *script {
	rng := rand.New(rand.NewPCG(seed, 24))
	config := queue.Config{Retry: 10 * time.Second}
	if rng.IntN(2) == 0 {
		config.MaxBypass = time.Duration(1+rng.IntN(5)) * time.Minute
	}
	pools := func() map[string]*model.Pool {
		return map[string]*model.Pool{"a": {Size: 6}, "b": {Size: 3}, "c": {Size: 2}}
	}
	s := &script{
		world: newWorld(config, model.NewCluster(noon, pools()), f), model: model.New(config), twin: model.NewCluster(noon, pools()),
		rng: rng, late: map[types.NamespacedName]bool{}, yields: rng.IntN(3) == 0,
	}
	for i := range 1 + rng.IntN(3) {
		s.changeQueue(queue.Queue{Name: fmt.Sprintf("q%d", i), Policy: s.policy(), Priority: int32(rng.IntN(2)), Started: true, Partition: "p"})
	}
	if rng.IntN(4) == 0 {
		s.changeQueue(queue.Queue{Name: "other", Policy: s.policy(), Started: true, Partition: "other"})
	}
	return s
}

func (s *script) policy() queue.Policy {
	if s.rng.IntN(4) == 0 {
		return queue.FCFS
	}
	return queue.EASY
}

func (s *script) changeQueue(q queue.Queue) {
	s.note("queue %+v", q)
	s.putQueue(q)
	s.model.PutQueue(q)
}

// pick returns one of the keys that hold, or false.
func pick[V any](s *script, of map[types.NamespacedName]V, holds func(types.NamespacedName) bool) (types.NamespacedName, bool) {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(of)), func(k types.NamespacedName) bool { return !holds(k) })
	if len(keys) == 0 {
		return types.NamespacedName{}, false
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return keys[s.rng.IntN(len(keys))], true
}

func (s *script) waits(k types.NamespacedName) bool { return !s.running[k] }
func (s *script) runs(k types.NamespacedName) bool  { return s.running[k] }

// draw returns a new job.
func (s *script) draw() queue.Job {
	names := slices.Sorted(maps.Keys(s.queues))
	j := queue.Job{Queue: names[s.rng.IntN(len(names))], Created: s.cluster.Now}
	if s.rng.IntN(30) == 0 {
		j.Queue = "none"
	}
	j.Key = types.NamespacedName{Namespace: []string{"1a", "2a", "1b"}[s.rng.IntN(3)], Name: fmt.Sprintf("j%03d", s.made)}
	s.made++
	if j.Queue == "other" {
		j.Key.Namespace = "1c" // another partition, with nodes of its own
	}
	if s.rng.IntN(4) == 0 {
		j.Priority = int32(s.rng.IntN(3))
	}
	if s.rng.IntN(6) == 0 {
		j.Created = j.Created.Add(-time.Duration(s.rng.IntN(100)) * time.Second)
	}
	j.Pods = int64(1 + s.rng.IntN(4))
	if s.rng.IntN(10) == 0 {
		j.Pods += 4
	}
	if s.rng.IntN(8) > 0 {
		j.Duration = time.Duration(1+s.rng.IntN(12)) * 10 * time.Second
	}
	j.Class = model.Class(j.Key.Namespace[1:], j.Pods, s.rng.IntN(5) == 0)
	j.Requests = map[string]int64{"cpu": j.Pods}
	if j.Pods > 2 {
		j.Requests["gpu"] = 1
	}
	j.Held = s.rng.IntN(15) == 0
	return j
}

func (s *script) submit(j queue.Job) {
	s.note("waits %+v", j)
	s.putWaiting(j)
	s.model.PutWaiting(j)
}

// free opens what may have changed, for both.
func (s *script) free(what queue.What) { s.open(what) }

// end ends a running job, or one that waits.
func (s *script) end(k types.NamespacedName) {
	s.note("gone %s", k)
	s.cluster.Release(k)
	s.twin.Release(k)
	s.drop(k)
	s.model.Drop(k)
	delete(s.late, k)
	s.free(queue.Room)
}

// pass lets time go by, up to what is due next, and ends what ends by then.
func (s *script) goOn() {
	to := s.cluster.Now.Add(time.Duration(1+s.rng.IntN(40)) * time.Second)
	if at := s.core.NextAt(); !at.IsZero() && at.Before(to) {
		to = at
	}
	for k, h := range s.cluster.Held {
		if !h.End.IsZero() && h.End.After(s.cluster.Now) && h.End.Before(to) && !s.late[k] {
			to = h.End
		}
	}
	s.cluster.Now, s.twin.Now = to, to
	s.note("time")
	for _, k := range slices.SortedFunc(maps.Keys(s.cluster.Held), func(a, b types.NamespacedName) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	}) {
		h := s.cluster.Held[k]
		switch {
		case h.End.IsZero() || h.End.After(to):
		case h.End.Equal(to) && s.rng.IntN(6) == 0:
			s.late[k] = true
			s.note("late %s", k)
			s.free(queue.Room)
		case !s.late[k] || s.rng.IntN(3) == 0:
			s.end(k)
		}
	}
}

// step lets something happen.
func (s *script) step() {
	switch n := s.rng.IntN(40); {
	case n < 14:
		s.submit(s.draw())
	case n < 24:
		s.goOn()
	case n < 27:
		if k, ok := pick(s, s.jobs, s.runs); ok {
			s.end(k)
		}
	case n < 28:
		if k, ok := pick(s, s.jobs, s.waits); ok {
			s.end(k)
		}
	case n < 31:
		s.edit()
	case n < 32:
		if k, ok := pick(s, s.jobs, s.runs); ok { // requeued
			s.cluster.Release(k)
			s.twin.Release(k)
			delete(s.late, k)
			s.submit(s.jobs[k])
			s.free(queue.Room)
		}
	case n < 34:
		s.editQueue()
	case n < 36:
		s.changeNodes()
	case n < 37:
		k := types.NamespacedName{Namespace: "foreign", Name: fmt.Sprint(s.made)}
		s.made++
		span := model.Span{Pool: "a", N: 1, From: s.cluster.Now, End: s.cluster.Now.Add(time.Duration(1+s.rng.IntN(60)) * time.Second)}
		s.note("%s holds %+v", k, span)
		s.cluster.Held[k], s.twin.Held[k] = span, span
		s.free(queue.Room)
	case n < 38:
		if k, ok := pick(s, s.promises, func(types.NamespacedName) bool { return true }); ok {
			s.note("lost %s", k)
			s.core.Lost(k)
			s.model.Lost(k)
		}
	case n < 39:
		s.cluster.Short = !s.cluster.Short
		s.twin.Short = s.cluster.Short
		s.note("short %t", s.cluster.Short)
		s.free(queue.Room)
	default:
		s.cluster.Away = !s.cluster.Away
		s.twin.Away = s.cluster.Away
		s.note("away %t", s.cluster.Away)
		s.free(queue.Room)
	}
}

// edit changes a job that waits.
func (s *script) edit() {
	k, ok := pick(s, s.jobs, s.waits)
	if !ok {
		return
	}
	j := s.jobs[k]
	switch s.rng.IntN(5) {
	case 0:
		j.Held = !j.Held
	case 1:
		j.Priority = int32(s.rng.IntN(4))
	case 2:
		j.Duration = time.Duration(s.rng.IntN(10)) * 10 * time.Second
	case 3:
		j.Unplaceable = !j.Unplaceable
	case 4:
		if k, ok := pick(s, s.jobs, s.waits); ok && !s.cluster.Away { // admitted by an earlier process
			r := s.jobs[k]
			s.note("runs %s", k)
			span := model.SpanOf(&r, s.cluster.Now)
			s.cluster.Held[k], s.twin.Held[k] = span, span
			s.running[k] = true
			s.cluster.Cancel(k)
			s.twin.Cancel(k)
			s.core.PutRunning(r)
			s.model.PutRunning(r)
			s.free(queue.Room)
			return
		}
	}
	s.submit(j)
}

// editQueue changes a queue.
func (s *script) editQueue() {
	names := slices.Sorted(maps.Keys(s.queues))
	q := s.queues[names[s.rng.IntN(len(names))]]
	switch s.rng.IntN(8) {
	case 0:
		q.Started = !q.Started
	case 1:
		q.Priority = int32(s.rng.IntN(3))
	case 2:
		q.Policy = s.policy()
	case 3:
		q.Limits.Running = s.rng.IntN(5)
	case 4:
		q.Limits.NamespaceRunning = s.rng.IntN(4)
	case 5:
		q.Limits.Requests = map[string]int64{"cpu": int64(s.rng.IntN(8)), "gpu": int64(s.rng.IntN(3))}
	case 6:
		q.Limits = queue.Limits{}
	case 7:
		if q.Partition == "p" {
			return
		}
		s.note("no queue %s", q.Name)
		delete(s.queues, q.Name)
		s.core.DropQueue(q.Name)
		s.model.DropQueue(q.Name)
		if s.rng.IntN(2) == 0 {
			return
		}
	}
	s.changeQueue(q)
}

// changeNodes changes a pool.
func (s *script) changeNodes() {
	name := []string{"a", "b", "c"}[s.rng.IntN(3)]
	p := *s.cluster.Pools[name]
	switch s.rng.IntN(3) {
	case 0:
		p.Size = max(1, p.Size+int64(s.rng.IntN(3))-1)
		p.Down = min(p.Down, p.Size)
	case 1:
		p.Down = min(p.Size, int64(s.rng.IntN(3)))
	case 2:
		p.Excluded = int64(s.rng.IntN(3))
	}
	s.note("pool %s %+v", name, p)
	twin := p
	s.cluster.Pools[name], s.twin.Pools[name] = &p, &twin
	s.free(queue.Nodes)
}

// settle lets the core and the model make passes until nothing changes.
func (s *script) settle() {
	for range 200 {
		var more func() bool
		if s.yields {
			left := s.rng.IntN(4)
			more = func() bool { left--; return left >= 0 }
		}
		if s.pass(more); !s.core.Pending() {
			break
		}
	}
	if s.core.Pending() {
		s.blame("Endless: the passes come to no end")
	}
	for range 200 {
		if !s.model.Pass(s.cluster.Now, s.twin) {
			return
		}
	}
	s.blame("Endless: the passes of the model come to no end")
}

// compare compares the core with the model.
func (s *script) compare() {
	if !maps.Equal(s.cluster.Held, s.twin.Held) {
		s.blame("Model: these run: %v, and in the model %v", s.cluster.Held, s.twin.Held)
	}
	if !maps.Equal(s.cluster.Promised, s.twin.Promised) {
		s.blame("Model: promised is %v, and in the model %v", s.cluster.Promised, s.twin.Promised)
	}
}

// play plays a script of some steps, and returns what was wrong.
func (s *script) play(steps int) []string {
	for range steps {
		s.step()
		s.settle()
		s.compare()
		if len(s.wrong) > 0 {
			break
		}
	}
	return s.wrong
}
