package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/queue/model"
	"github.com/flux-k8s/fluence/test/trials"
)

// A class that was refused is not asked for again before something may have changed.
func TestARefusedClassStaysClosed(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("all", 4, time.Hour)
	s.submit("one", 1, 20*time.Minute)
	s.want("all is promised 4 nodes from 10m")
	s.asks = 0
	s.submit("one-more", 1, 20*time.Minute)
	s.submit("longer", 1, 30*time.Minute)
	s.submit("2a/longer", 1, 0)
	s.want("")
	s.wantAsks(0)
	s.wantReason("longer", queue.NoRoom)
	s.submit("shorter", 1, 15*time.Minute)
	s.want("")
	s.wantAsks(1)
	s.open(queue.Room)
	s.want("")
	s.wantAsks(2)
	s.core.Open(queue.Room, "elsewhere")
	s.want("")
	s.wantAsks(0)
}

// One that may ignore a promise that was in the way of others has another question.
func TestARefusalDoesNotHoldForAJobBeforeAPromise(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 2, 10*time.Minute)
	s.submit("all", 4, time.Hour)
	s.submit("long", 2, time.Hour)
	s.want("runs starts, all is promised 4 nodes from 10m")
	s.submit("urgent", 2, time.Hour, priority(1))
	s.want("urgent starts, all is promised 4 nodes from 1h0m by urgent")
}

// One question is enough for a class of which even the shortest job is refused.
func TestOneQuestionIsEnoughForAFullClass(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("all", 4, time.Hour)
	for i := range 20 {
		s.submit(fmt.Sprint(i), 2, time.Duration(60-i)*time.Minute)
	}
	s.want("all is promised 4 nodes from 10m")
	s.wantAsks(4) // runs, all, the first and the shortest of the others
	s.open(queue.Room)
	s.want("")
	s.wantAsks(2)
	s.cluster.Pools["a"].Size = 5 // not enough
	s.open(queue.Nodes)
	s.want("")
	s.wantAsks(2)
	s.submit("shortest", 2, time.Minute)
	s.want("")
	s.wantAsks(1)
	s.cluster.Pools["a"].Size = 6
	s.open(queue.Nodes)
	s.want("0 starts")
}

// The order is kept if a short job of a class may start and a longer one before it may not.
func TestAProbeDoesNotLetAShorterJobPass(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 2, 10*time.Minute)
	s.submit("all", 4, time.Hour)
	s.want("runs starts, all is promised 4 nodes from 10m")
	s.submit("too-long", 2, 20*time.Minute)
	s.submit("first", 2, 9*time.Minute)
	s.submit("short", 2, time.Minute)
	s.want("first starts")
}

// yieldingPass lets a pass ask so many questions.
func (s *stage) yieldingPass(asks int) {
	s.core.Pass(s.cluster.Now, s, func() bool { asks--; return asks >= 0 })
}

func TestAPassGoesOnWhereItStopped(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.cluster.Pools["a"].Size = 30
	for i := range 20 {
		s.submit(fmt.Sprintf("%02d", i), 1, time.Hour)
	}
	for i := range 5 {
		s.yieldingPass(4)
		if want := 4 * (i + 1); len(s.running) != want || s.asks != want {
			t.Fatalf("%d jobs run after %d questions, want %d", len(s.running), s.asks, want)
		}
		if s.core.Pending() != (i < 4) && i < 4 {
			t.Fatalf("pending: %t after pass %d", s.core.Pending(), i)
		}
	}
	s.yieldingPass(0)
	if s.core.Pending() {
		t.Error("a pass is due though all jobs run")
	}
}

// A new job of higher rank asks before what is left of a round.
func TestAnUrgentJobDoesNotWaitForTheRound(t *testing.T) {
	s := newStage(t, queue.Config{})
	for i := range 8 {
		s.submit(fmt.Sprintf("%d", i), 1, time.Hour)
	}
	s.yieldingPass(2)
	s.submit("urgent", 2, time.Hour, priority(1))
	s.yieldingPass(1)
	if !s.running[key("urgent")] {
		t.Errorf("these run: %v", s.running)
	}
}

// Room that comes all the time lets the first of the order ask again and again, and everyone else in their turn.
func TestTheTailHasItsTurn(t *testing.T) {
	s := newStage(t, queue.Config{})
	pools := map[string]*model.Pool{"a": {Size: 400}, "b": {Size: 1}}
	s.cluster.Pools = pools
	s.submit("runs", 300, 0)
	s.want("runs starts")
	for i := range 100 {
		s.submit(fmt.Sprint(i), int64(200+i), time.Hour) // each is a class
	}
	s.submit("1b/tail", 1, time.Hour)
	const budget = 5
	for pass := 1; !s.running[key("1b/tail")]; pass++ {
		if pass > 102/budget+5 {
			t.Fatalf("the tail has not asked after %d passes", pass)
		}
		s.open(queue.Room)
		s.yieldingPass(budget)
	}
	// The first of all asks twice in a round.
	s.asks = 0
	s.open(queue.Room)
	for s.core.Pending() {
		s.yieldingPass(1 << 30)
	}
	if s.asks < 100 || s.asks > 101+100+2 {
		t.Errorf("%d questions were asked", s.asks)
	}
}

// The first job does not wait for the end of a round.
func TestTheFirstJobAsksAgainInTheMidstOfARound(t *testing.T) {
	for _, policy := range []queue.Policy{queue.EASY, queue.FCFS} {
		s := newStage(t, queue.Config{})
		s.edit("batch", func(q *queue.Queue) { q.Policy, q.Priority = policy, 1 })
		s.putQueue(queue.Queue{Name: "other", Policy: queue.EASY, Started: true})
		s.submit("runs", 4, time.Hour)
		s.submit("first", 3, time.Hour)
		s.pass()
		for i := range 40 {
			s.submit(fmt.Sprint(i), int64(2+i%2), time.Duration(100-i)*time.Minute, inQueue("other"))
		}
		s.open(queue.Room)
		s.yieldingPass(3)
		s.end(key("runs"))
		s.yieldingPass(1)
		if !s.running[key("first")] {
			t.Errorf("%s: the first has not started", policy)
		}
	}
}

// A liar promises this and that, and takes it back.
type liar struct {
	*script
	asks  int
	keeps bool
}

func (l *liar) answer() queue.Answer {
	l.asks++
	return queue.Answer{
		Verdict: []queue.Verdict{queue.Reserved, queue.Reserved, queue.Busy}[l.rng.IntN(3)], From: l.cluster.Now.Add(time.Duration(l.rng.IntN(100)-10) * time.Second), Nodes: l.rng.IntN(3),
	}
}

// Allocate implements queue.Matcher.
func (l *liar) Allocate(queue.Ask) queue.Answer { return l.answer() }

// Promise implements queue.Matcher.
func (l *liar) Promise(queue.Ask) queue.Answer { return l.answer() }

// Probe implements queue.Matcher.
func (l *liar) Probe(queue.Ask, time.Duration, bool) queue.Answer { return l.answer() }

// Restore implements queue.Matcher.
func (l *liar) Restore(*queue.Job, queue.Promise) bool { return l.keeps && l.rng.IntN(2) == 0 }

// A matcher that contradicts itself does not make a pass endless.
func TestAPassComesToAnEndWhateverTheMatcherSays(t *testing.T) {
	most := 0
	for seed := range trials.Seeds(300) {
		l := &liar{script: newScript(seed, faults{}), keeps: seed%2 == 0}
		for range 60 {
			l.step()
			l.asks = 0
			l.core.Pass(l.cluster.Now, l, nil)
			most = max(most, l.asks)
		}
	}
	t.Logf("at most %d questions in a pass", most)
	if most > 50_000 {
		t.Errorf("%d questions in one pass over 60 jobs", most)
	}
}

// Two promises that each move because the other has moved do so for a part of a pass.
func TestPromisesDoNotMoveEachOtherForEver(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.putQueue(queue.Queue{Name: "other", Policy: queue.EASY, Started: true})
	s.submit("1", 4, time.Hour)
	s.submit("2", 4, time.Hour, inQueue("other"))
	s.want("1 is promised 4 nodes from 10m, 2 is promised 4 nodes from 1h10m")
	moves := 0
	s.faults.answer = func(_ queue.Ask, a *queue.Answer) {
		moves++
		*a = queue.Answer{Verdict: queue.Reserved, From: noon.Add(time.Duration(moves) * time.Minute), Nodes: 4}
	}
	s.faults.restore = func(bool) bool { return false }
	s.open(queue.Room)
	s.core.Pass(noon, s, nil)
	if moves < 100 || moves > 250 {
		t.Errorf("the promises move %d times", moves)
	}
	if !s.core.Pending() {
		t.Error("nobody asks in the next round")
	}
	s.faults = faults{}
	s.pass()
}
