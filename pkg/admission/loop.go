package admission

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/signal"
)

const (
	// passEvery is the shortest time from the begin of one pass to the next.
	passEvery = 100 * time.Millisecond
	// stepEvery is the shortest time from the begin of one step to the next.
	stepEvery = 10 * time.Millisecond
	// maxPass is for how long a pass may take, so that the loop hears of what happens meanwhile.
	maxPass = 80 * time.Millisecond
	// tick is how often the loop looks at what changes with the time.
	tick = time.Second
	// maxRestore is for how long groups in no queue let jobs ask first when a scheduler begins to lead.
	maxRestore = 5 * time.Second
)

// A loop decides: it tells package queue what has changed, lets it ask, and has the results written. One goroutine runs it.
type loop struct {
	cfg      *Config
	jobs     *jobs
	queues   *queueStore
	happened *happened
	teller   *teller
	asker    *asker
	core     *queue.Core
	taken    taken
	ctx      context.Context
	found
	last
	*state
}

// A found is what the loop has found out of jobs while it told the core of them, and has to see to afterwards.
type found struct {
	// edited are jobs that have room and whose time limits may have been edited.
	edited []types.NamespacedName
	// announced are groups of which Status has another answer.
	announced []types.NamespacedName
	// settled are groups that wait until their room is up to date, and for which it is.
	settled []types.NamespacedName
}

// A last is what was when the loop last looked.
type last struct {
	// epoch is that of the last pass, and loadedAt is when it was first seen.
	epoch    match.Epoch
	loadedAt time.Time
	// passedAt is when the last pass began, toldAt when it was last looked at what jobs are to say, and tickedAt when at what
	// changes with the time.
	passedAt, toldAt, tickedAt time.Time
	// mayMatch is what the last pass has left of its time in the engine.
	mayMatch allowance
	// led says whether this scheduler led.
	led bool
}

// state is what others read of the loop.
type state struct {
	// leads says whether this scheduler leads.
	leads atomic.Bool
	// restored says whether the jobs that waited when this scheduler began to lead have asked once.
	restored atomic.Bool
	// first is the rank of the first job that waits for room. It is nil if there is none.
	first atomic.Pointer[gang.Rank]
	// wake wakes the loop.
	wake chan struct{}
}

func newLoop(cfg *Config, j *jobs, q *queueStore, h *happened, w *writer, s *state) *loop {
	l := &loop{cfg: cfg, jobs: j, queues: q, happened: h, state: s, ctx: context.Background(), taken: taken{}}
	l.core = queue.New(queue.Config{MaxBypass: cfg.MaxBypass})
	l.asker = &asker{
		cfg: cfg, jobs: j, queues: map[string]*jobQueue{}, waitHelps: map[setKey]bool{}, numbers: map[types.NamespacedName]numbers{},
		smaller: smaller{said: map[setKey]string{}},
		fleet:   &fleet{nodes: corelisters.NewNodeLister(cfg.Cluster.Nodes.GetIndexer()), sets: map[setKey]*hostSet{}, refused: map[string]map[string]time.Time{}},
	}
	l.teller = newTeller(cfg, j, w, l.core, l.asker)
	return l
}

// run works until ctx ends.
func (l *loop) run(ctx context.Context) {
	l.ctx = ctx
	for signal.Wait(ctx, l.wake, l.nextAt()) {
		began := time.Now()
		l.step(l.cfg.Now())
		// What happens meanwhile is seen to in one step.
		if !signal.Wait(ctx, nil, began.Add(stepEvery)) {
			return
		}
	}
}

// nextAt returns when there is something to do although nothing happens.
func (l *loop) nextAt() time.Time {
	at := l.tickedAt.Add(tick)
	if !l.mayPass() {
		return at
	}
	next, earliest := l.core.NextAt(), l.passedAt.Add(passEvery)
	if l.core.Pending() {
		next = earliest
	}
	if told := l.toldAt.Add(passEvery); l.teller.isBusy() && told.Before(at) {
		at = told
	}
	switch {
	case next.IsZero(), at.Before(next):
		return at
	case next.Before(earliest):
		return earliest
	}
	return next
}

// mayPass reports whether jobs may ask now.
func (l *loop) mayPass() bool { return l.led && l.epoch != 0 }

// step does what there is to do at a time.
func (l *loop) step(now time.Time) {
	defer l.tellFreed()
	defer l.letOthersAsk()
	if leads := l.leads.Load(); leads != l.led {
		l.led = leads
		l.restored.Store(false)
		l.lookAtAll(func(*job) bool { return true })
	}
	l.observe(l.happened.take(), now)
	due := now.Sub(l.tickedAt) >= tick
	if due {
		l.tickedAt = now
		l.onTick(now)
	}
	l.takeJobs(now)
	if len(l.announced) > 0 {
		l.cfg.Groups.Changed(l.announced...)
		l.announced = nil
	}
	if l.led {
		l.changeEnds()
	}
	l.edited = nil
	epoch := l.cfg.Epoch()
	if epoch != l.epoch {
		l.epoch, l.loadedAt = epoch, now
	}
	l.asker.begin(l.ctx, epoch, now)
	if l.settle(epoch) {
		l.core.Open(queue.Room)
	}
	if due && l.led {
		l.teller.tick(now)
	}
	if !l.mayPass() {
		return
	}
	next := l.core.NextAt()
	mayAsk := l.core.Pending() || !next.IsZero() && !now.Before(next)
	switch {
	case mayAsk && now.Sub(l.passedAt) >= passEvery:
		l.pass(now)
	case mayAsk:
		return // a job that is about to ask says so afterwards
	case !due && (!l.teller.isBusy() || now.Sub(l.toldAt) < passEvery):
		return
	}
	l.restoredBy(now)
	l.toldAt = now
	l.teller.tell(now)
}

// tellFreed tells groups in no queue that room was freed.
func (l *loop) tellFreed() {
	if l.asker.freed {
		l.asker.freed = false
		l.cfg.Groups.RoomFreed()
	}
}

// pass lets jobs ask, for as long as they may.
func (l *loop) pass(now time.Time) {
	l.mayMatch.grow(now.Sub(l.passedAt))
	l.passedAt, l.asker.spent = now, 0
	start := time.Now()
	decisions := l.core.Pass(now, l.asker, func() bool {
		// What asks nothing of the engine takes time too.
		return l.asker.spent < time.Duration(l.mayMatch) && time.Since(start) < maxPass && l.ctx.Err() == nil
	})
	l.mayMatch.use(l.asker.spent)
	l.teller.decided(decisions, !l.restored.Load(), now)
	l.teller.metrics.pass(time.Since(start))
	if len(decisions) > 0 {
		klog.FromContext(l.ctx).V(4).Info("Jobs of queues have asked for room", "decisions", len(decisions), "matching", l.asker.spent)
	}
}

// restoredBy records once that all jobs that wait have asked, or have had the time for it.
func (l *loop) restoredBy(now time.Time) {
	if !l.restored.Load() && (!l.core.Pending() && !l.passedAt.IsZero() || now.Sub(l.loadedAt) >= maxRestore) {
		l.restored.Store(true)
		l.cfg.Groups.Changed()
	}
}

// observe tells the core what has happened.
func (l *loop) observe(e news, now time.Time) {
	f := l.asker.fleet
	if len(e.nodes) > 0 {
		f.changed(names(e.nodes)...)
	}
	for _, r := range e.refusals {
		f.refuse(r.class, r.nodes, now)
	}
	if len(e.nodes)+len(e.refusals) > 0 || e.grown || e.loaded {
		clear(l.asker.waitHelps)
		l.asker.smaller.forgetNodes()
	}
	if e.loaded {
		l.jobs.doubtAll()
		l.asker.cannotReserve = false // it may be another engine
	}
	for key, why := range e.overlapped {
		l.teller.overlapped[key] = overlap{why: why}
		l.core.Lost(key)
	}
	if e.queues && l.readQueues() || len(e.namespaces) > 0 {
		checkDefaults(l.asker.queues, l.cfg.Cluster.Namespaces.GetIndexer())
	}
	if e.queues || len(e.nodes) > 0 {
		for _, name := range checkPartitions(l.asker.queues, f) {
			l.core.PutQueue(l.asker.queues[name].core())
			l.teller.queueChanged(name)
		}
	}
	if len(e.namespaces) > 0 {
		l.lookAtAll(func(j *job) bool {
			_, is := e.namespaces[j.key.Namespace]
			if is && j.class != nil && j.class.err != nil {
				// What it asks for may be allowed now. That is not remembered.
				j.readAgain = true
				l.teller.writer.add(j.key, false)
			}
			return is
		})
	}
	switch {
	case len(e.nodes) > 0 || e.grown || e.loaded:
		l.core.Open(queue.Nodes)
	case e.anywhere:
		l.core.Open(queue.Room)
	case len(e.freed) > 0:
		l.core.Open(queue.Room, l.partitionsOf(e.freed)...)
	}
}

// partitionsOf returns the partitions that have one of these nodes.
func (l *loop) partitionsOf(nodes map[string]struct{}) []string {
	var all []string
	seen := map[string]bool{}
	for _, q := range l.asker.queues {
		if seen[q.partition.name] {
			continue
		}
		seen[q.partition.name] = true
		verdicts := l.asker.fleet.set(&q.partition, &anyNode).verdicts
		for node := range nodes {
			if v, is := verdicts[node]; is && v != never {
				all = append(all, q.partition.name)
				break
			}
		}
	}
	if len(all) == 0 {
		all = append(all, "no partition") // none named would be all
	}
	return all
}

// readQueues tells the core which queues there are. It reports whether another one came, changed or went.
func (l *loop) readQueues() bool {
	objects, changed := l.queues.list(), map[string]bool{}
	for name := range l.asker.queues {
		if objects[name] == nil {
			delete(l.asker.queues, name)
			l.core.DropQueue(name)
			l.teller.queueGone(name)
			changed[name] = true
		}
	}
	for name, object := range objects {
		before := l.asker.queues[name]
		if before != nil && before.object.UID == object.UID && before.object.Generation == object.Generation {
			before.object = object // another status
			continue
		}
		q := readQueue(object)
		l.asker.queues[name] = q
		l.core.PutQueue(q.core())
		l.teller.queueChanged(name)
		changed[name] = true
	}
	if len(changed) > 0 {
		l.lookAtAll(func(j *job) bool { return changed[j.queue] })
	}
	return len(changed) > 0
}

// lookAtAll makes the loop look at all jobs of a kind.
func (l *loop) lookAtAll(which func(*job) bool) {
	l.jobs.mu.Lock()
	defer l.jobs.mu.Unlock()
	for key, j := range l.jobs.byKey {
		if which(j) {
			l.jobs.markChanged(key)
		}
	}
}

// onTick does what is due from time to time.
func (l *loop) onTick(now time.Time) {
	if l.asker.fleet.expire(now) {
		clear(l.asker.waitHelps)
		l.asker.smaller.forgetNodes()
		l.core.Open(queue.Nodes)
	}
	l.jobs.mu.Lock()
	var leaving []types.NamespacedName
	for key := range l.jobs.apart {
		switch j := l.jobs.byKey[key]; {
		case j == nil:
			delete(l.jobs.apart, key)
		case j.leaving:
			leaving = append(leaving, key)
		case !now.Before(j.retryAt):
			j.retryAt = time.Time{}
			delete(l.jobs.apart, key)
			l.jobs.markChanged(key)
		}
	}
	l.jobs.mu.Unlock()
	for _, key := range leaving {
		if len(l.cfg.Groups.Placed(key)) > 0 {
			continue
		}
		l.jobs.mu.Lock()
		if j := l.jobs.byKey[key]; j != nil {
			j.leaving = false
			l.jobs.markChanged(key)
		}
		l.jobs.mu.Unlock()
	}
	for _, q := range l.asker.queues {
		l.taken.admit(l.jobs, q)
	}
	if l.led {
		l.takeOverdueBack(now)
	}
}

// isAllowed reports whether the jobs of a namespace may use a queue.
func (l *loop) isAllowed(namespace string, q *jobQueue) bool {
	ns, err := corelisters.NewNamespaceLister(l.cfg.Cluster.Namespaces.GetIndexer()).Get(namespace)
	return err == nil && q.namespaces.Matches(labels.Set(ns.Labels))
}

// pollLease keeps leads up to date until ctx ends.
func (s *state) pollLease(ctx context.Context, leading func() bool) {
	for ctx.Err() == nil {
		if s.leads.Swap(leading()) != s.leads.Load() {
			signal.Send(s.wake)
		}
		timer := time.NewTimer(report.LeadingCheckInterval)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}
