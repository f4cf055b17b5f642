package queue_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/queue"
)

// fullStage returns a stage on which a job has all of pool a for ten minutes.
func fullStage(t *testing.T, config queue.Config) *stage {
	s := newStage(t, config)
	s.submit("runs", 4, 10*time.Minute)
	s.want("runs starts")
	return s
}

func TestOneJobOfEachQueueIsPromisedRoom(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.putQueue(queue.Queue{Name: "other", Policy: queue.EASY, Started: true})
	s.putQueue(queue.Queue{Name: "in-order", Policy: queue.FCFS, Started: true})
	s.submit("1", 4, time.Hour)
	s.submit("2", 4, time.Hour)
	s.submit("3", 4, time.Hour, inQueue("other"))
	s.submit("4", 4, time.Hour, inQueue("other"))
	s.submit("5", 4, time.Hour, inQueue("in-order"))
	s.want("1 is promised 4 nodes from 10m, 3 is promised 4 nodes from 1h10m")
	s.wantReason("1", queue.HasPromise)
	s.wantReason("2", queue.NoRoom)
	s.wait(10 * time.Minute)
	s.want("1 starts, 2 is promised 4 nodes from 2h10m")
}

func TestAPromiseMovesToAnEarlierTime(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("next", 4, time.Hour)
	s.want("next is promised 4 nodes from 10m")
	span := s.cluster.Held[key("runs")]
	span.End = noon.Add(4 * time.Minute)
	s.cluster.Held[key("runs")] = span
	s.open(queue.Room)
	s.want("next is promised 4 nodes from 4m")
}

// One of higher rank that comes later goes before the promised one, which is promised room after it or none.
func TestAJobOfHigherRankTakesWhatWasPromised(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("next", 4, time.Hour)
	s.want("next is promised 4 nodes from 10m")
	s.submit("urgent", 4, time.Hour, priority(1))
	s.want("next is no longer promised from 10m by urgent, urgent is promised 4 nodes from 10m")
	s.drop(key("urgent"))
	s.want("next is promised 4 nodes from 10m")
}

func TestAJobOfAHigherQueueTakesWhatWasPromised(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.putQueue(queue.Queue{Name: "urgent", Policy: queue.EASY, Priority: 1, Started: true})
	s.putQueue(queue.Queue{Name: "in-order", Policy: queue.FCFS, Priority: 1, Started: true})
	s.submit("next", 4, time.Hour)
	s.want("next is promised 4 nodes from 10m")
	s.submit("urgent", 2, 30*time.Minute, inQueue("urgent"))
	s.want("urgent is promised 2 nodes from 10m, next is promised 4 nodes from 40m by urgent")
	s.cluster.Pools["a"].Size = 5
	s.open(queue.Nodes)
	s.want("")
	s.submit("short", 1, 25*time.Minute, inQueue("in-order"))
	s.want("short starts")
	s.cluster.Pools["a"].Size = 6
	s.open(queue.Nodes)
	s.want("next is promised 4 nodes from 25m")
	s.submit("long", 1, 50*time.Minute, inQueue("in-order"))
	s.want("long starts, next is promised 4 nodes from 40m by long")
	s.submit("endless", 1, 0, inQueue("in-order"))
	s.want("")
}

// A job that has a promise gains nothing at the cost of others.
func TestAPromisedJobDoesNotIgnoreOthers(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.putQueue(queue.Queue{Name: "other", Policy: queue.EASY, Priority: -1, Started: true})
	s.submit("first", 4, time.Hour)
	s.submit("second", 2, 10*time.Minute, inQueue("other"))
	s.want("first is promised 4 nodes from 10m, second is promised 2 nodes from 1h10m")
	var ignored []types.NamespacedName
	s.faults.ask = func(a *queue.Ask, _ *world) { ignored = append(ignored, a.Ignore...) }
	s.open(queue.Room)
	s.want("")
	if len(ignored) > 0 {
		t.Errorf("promises of %v were ignored", ignored)
	}
	s.submit("third", 4, time.Minute, priority(1))
	s.want("first is no longer promised from 10m by third, third is promised 4 nodes from 10m, second is promised 2 nodes from 11m")
	if want := []types.NamespacedName{key("first"), key("second")}; !slices.Equal(ignored, want) {
		t.Errorf("promises of %v were ignored, want %v", ignored, want)
	}
}

// A matcher that finds a later time has not proven that the earlier one cannot be kept.
func TestALaterPromiseIsNotTaken(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("next", 4, time.Hour)
	s.want("next is promised 4 nodes from 10m")
	later := func(_ queue.Ask, a *queue.Answer) {
		if a.Verdict == queue.Reserved {
			a.From = a.From.Add(time.Minute)
		}
	}
	s.faults.answer = later
	s.open(queue.Room)
	s.want("")
	s.faults.answer = func(_ queue.Ask, a *queue.Answer) { a.Verdict = queue.Busy }
	s.open(queue.Room)
	s.want("")
	s.faults.answer, s.faults.restore = later, func(bool) bool { return false }
	s.open(queue.Room)
	s.want("next is promised 4 nodes from 11m")
	s.faults.answer = func(_ queue.Ask, a *queue.Answer) { a.Verdict = queue.Busy }
	s.open(queue.Room)
	s.want("next is no longer promised from 11m")
}

// A job that runs too long moves the promise when its time has come. The promised job asks at intervals.
func TestAPromiseWhoseTimeIsOverMoves(t *testing.T) {
	s := newStage(t, queue.Config{Retry: 20 * time.Second})
	s.submit("late", 2, 10*time.Minute)
	s.submit("runs", 2, 12*time.Minute)
	s.submit("next", 2, time.Hour)
	s.want("late starts, runs starts, next is promised 2 nodes from 10m")
	s.cluster.Now = noon.Add(10 * time.Minute)
	s.want("next is promised 2 nodes from 12m")
	s.cluster.Now = noon.Add(12 * time.Minute)
	s.want("next is no longer promised from 12m")
	s.faults.restore = func(bool) bool { return true }
	s.end(key("late"))
	s.want("next starts")
}

func TestAPromisedJobAsksAgainAtIntervals(t *testing.T) {
	s := fullStage(t, queue.Config{Retry: 20 * time.Second})
	s.submit("next", 4, time.Hour)
	s.want("next is promised 4 nodes from 10m")
	s.faults.restore = func(bool) bool { return true } // the matcher waits for the job to end, a moment too late
	for _, want := range []time.Duration{10 * time.Minute, 620 * time.Second, 640 * time.Second} {
		if at := s.core.NextAt(); !at.Equal(noon.Add(want)) {
			t.Errorf("a pass is due after %v, want %v", at.Sub(noon), want)
		}
		s.cluster.Now = noon.Add(want)
		s.asks = 0
		s.want("")
		s.wantAsks(1)
	}
	s.end(key("runs"))
	s.want("next starts")
}

// Without a known time there is no promise, and the next one may have it.
func TestAJobWithoutAKnownTimeLeavesThePromiseToOthers(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("endless", 2, 0)
	s.submit("runs", 2, 10*time.Minute)
	s.submit("all", 4, time.Hour)
	s.submit("half", 2, time.Hour)
	s.want("endless starts, runs starts, half is promised 2 nodes from 10m")
	if sum, _ := s.core.Summary("batch"); sum.First != key("all") || sum.Promise != (queue.Promise{}) {
		t.Errorf("the first is %s, promised %v", sum.First, sum.Promise)
	}
	s.end(key("endless"))
	s.want("half is no longer promised from 10m by all, all is promised 4 nodes from 10m")
}

// Nobody passes for ever: after MaxBypass those after it leave the nodes that it could use.
func TestAnOverdueJobIsNotPassed(t *testing.T) {
	for _, policy := range []queue.Policy{queue.EASY, queue.FCFS} {
		s := newStage(t, queue.Config{MaxBypass: 5 * time.Minute})
		s.edit("batch", func(q *queue.Queue) { q.Policy = policy })
		s.putQueue(queue.Queue{Name: "other", Policy: queue.EASY, Started: true})
		s.putQueue(queue.Queue{Name: "elsewhere", Policy: queue.EASY, Started: true, Partition: "elsewhere"})
		s.submit("endless", 3, 0)
		s.submit("all", 4, time.Hour)
		s.submit("runs", 1, 10*time.Minute, inQueue("other"))
		s.want("endless starts, runs starts")
		s.submit("next", 1, time.Minute, inQueue("other"))
		s.want("next is promised 1 nodes from 10m")
		if at := s.core.NextAt(); !at.Equal(noon.Add(5 * time.Minute)) {
			t.Errorf("a pass is due at %v, want after 5m", at)
		}
		s.cluster.Now = noon.Add(5 * time.Minute)
		s.want("next is no longer promised from 10m by all")
		if got := s.core.Overdue(); !slices.Equal(got, []types.NamespacedName{key("all")}) {
			t.Errorf("overdue are %v", got)
		}
		s.wait(5 * time.Minute)
		s.want("")
		s.submit("1b/other-nodes", 1, time.Minute, inQueue("other"))
		s.submit("urgent", 1, time.Minute, inQueue("other"), priority(1))
		s.want("urgent starts, other-nodes starts")
		s.wait(time.Minute)
		s.want("")
		s.end(key("endless"))
		s.want("all starts, next is promised 1 nodes from 1h11m")
		if got := s.core.Overdue(); len(got) > 0 {
			t.Errorf("overdue are %v", got)
		}
	}
}

// Others let a job pass no longer once it is held, or a limit keeps it from starting.
func TestAnOverdueJobThatMayNotStartKeepsNothing(t *testing.T) {
	for name, change := range map[string]func(*stage){
		"held": func(s *stage) {
			j := s.jobs[key("all")]
			j.Held = true
			s.putWaiting(j)
		},
		"limit": func(s *stage) {
			s.edit("batch", func(q *queue.Queue) { q.Limits.Requests = map[string]int64{"cpu": 6} })
		},
		"gone":    func(s *stage) { s.drop(key("all")) },
		"stopped": func(s *stage) { s.edit("batch", func(q *queue.Queue) { q.Started = false }) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, queue.Config{MaxBypass: 5 * time.Minute})
			s.putQueue(queue.Queue{Name: "other", Policy: queue.EASY, Started: true})
			s.submit("endless", 3, 0)
			s.submit("all", 4, time.Hour)
			s.want("endless starts")
			s.cluster.Now = noon.Add(5 * time.Minute)
			s.submit("next", 1, time.Minute, inQueue("other"))
			s.want("")
			change(s)
			s.want("next starts")
		})
	}
}

// Another may take what was promised without the core: the job asks anew, and may be promised a later time.
func TestALostPromiseMayBeLater(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("next", 4, time.Hour)
	s.want("next is promised 4 nodes from 10m")
	s.faults.answer = func(_ queue.Ask, a *queue.Answer) { a.From = a.From.Add(time.Minute) }
	s.core.Lost(key("next"))
	s.want("next is promised 4 nodes from 11m")
	s.core.Lost(key("runs"))
	s.core.Lost(key("nobody"))
	if s.core.Pending() {
		t.Error("a pass is due")
	}
}

// What was promised to a job that leaves is free for others.
func TestAPromiseEndsWithItsJob(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 2, 10*time.Minute)
	s.submit("all", 4, time.Hour)
	s.submit("long", 2, time.Hour)
	s.want("runs starts, all is promised 4 nodes from 10m")
	s.drop(key("all"))
	s.want("long starts")
	if len(s.cluster.Promised) > 0 {
		t.Errorf("these are promised something: %v", s.cluster.Promised)
	}
}

// A job that others have admitted, such as an earlier process, needs no promise.
func TestAPromiseEndsWhenItsJobRuns(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 2, 10*time.Minute)
	s.submit("all", 4, time.Hour)
	s.submit("long", 2, time.Hour)
	s.want("runs starts, all is promised 4 nodes from 10m")
	delete(s.cluster.Promised, key("all"))
	s.core.PutRunning(s.jobs[key("all")])
	s.want("long starts")
}

// Without an answer nothing changes but that the job asks again later.
func TestWithoutAnAnswerJobsAskAgainLater(t *testing.T) {
	s := fullStage(t, queue.Config{Retry: 20 * time.Second})
	s.putQueue(queue.Queue{Name: "in-order", Policy: queue.FCFS, Started: true})
	s.submit("next", 4, time.Hour)
	s.want("next is promised 4 nodes from 10m")
	s.cluster.Away = true
	s.submit("1b/new", 1, time.Hour)
	s.submit("1b/first", 2, time.Hour, inQueue("in-order"))
	s.submit("1b/second", 1, time.Hour, inQueue("in-order"))
	s.open(queue.Room)
	s.asks = 0
	s.want("")
	s.wantAsks(3)
	s.wantReason("next", queue.HasPromise)
	s.wantReason("1b/new", queue.NoAnswer)
	s.wantReason("1b/first", queue.NoAnswer)
	s.wantReason("1b/second", queue.NotItsTurn)
	if at := s.core.NextAt(); !at.Equal(noon.Add(20 * time.Second)) {
		t.Errorf("a pass is due after %v, want 20s", at.Sub(noon))
	}
	s.cluster.Away = false
	s.want("")
	s.cluster.Now = noon.Add(20 * time.Second)
	s.want("new starts")
	s.wantReason("1b/first", queue.NoRoom)
}
