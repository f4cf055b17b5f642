package queue_test

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/queue"
)

func limits(l queue.Limits) func(*queue.Queue) { return func(q *queue.Queue) { q.Limits = l } }

func (s *stage) wantLimit(name string, want queue.LimitState) {
	s.t.Helper()
	if got, ok := s.core.State(key(name)); !ok || got.Limit != want {
		s.t.Errorf("the limit of %s: %t, %+v, want %+v", name, ok, got.Limit, want)
	}
}

func TestALimitIsReportedWithItsNumbers(t *testing.T) {
	cases := map[string]struct {
		limits queue.Limits
		want   queue.LimitState
	}{
		"jobs":                        {queue.Limits{Running: 1}, queue.LimitState{Name: "running", Max: 1, Used: 1, Wanted: 1}},
		"jobs of a namespace":         {queue.Limits{NamespaceRunning: 1}, queue.LimitState{Name: "perNamespace.running", Max: 1, Used: 1, Wanted: 1}},
		"a resource":                  {queue.Limits{Requests: map[string]int64{"cpu": 3}}, queue.LimitState{Name: "requests", Resource: "cpu", Max: 3, Used: 2, Wanted: 2}},
		"the first of several":        {queue.Limits{Requests: map[string]int64{"memory": 9, "cpu": 3, "gpu": 0}}, queue.LimitState{Name: "requests", Resource: "cpu", Max: 3, Used: 2, Wanted: 2}},
		"a resource that is not used": {queue.Limits{Requests: map[string]int64{"gpu": 0}}, queue.LimitState{}},
		"none":                        {queue.Limits{}, queue.LimitState{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, queue.Config{})
			s.edit("batch", limits(tc.limits))
			s.submit("one", 2, time.Hour)
			s.submit("two", 2, time.Hour)
			if tc.want == (queue.LimitState{}) {
				s.want("one starts, two starts")
				return
			}
			s.want("one starts")
			s.wantReason("two", queue.LimitReached)
			s.wantLimit("two", tc.want)
			s.wait(time.Hour)
			s.want("two starts")
		})
	}
}

// A job that alone is more than a limit allows waits for the limit, and holds nobody back.
func TestALimitMayBeRaised(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.edit("batch", limits(queue.Limits{Requests: map[string]int64{"cpu": 2}}))
	s.submit("large", 3, time.Hour)
	s.submit("small", 1, time.Hour)
	s.want("small starts")
	s.edit("batch", limits(queue.Limits{Requests: map[string]int64{"cpu": 3}}))
	s.want("")
	s.edit("batch", limits(queue.Limits{Requests: map[string]int64{"cpu": 4}}))
	s.want("large starts")
}

// What runs goes on when a limit is lowered.
func TestALimitMayBeLowered(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("a", 1, time.Minute)
	s.submit("b", 1, time.Hour)
	s.want("a starts, b starts")
	s.edit("batch", limits(queue.Limits{Running: 1}))
	s.submit("c", 1, time.Hour)
	s.want("")
	s.wantLimit("c", queue.LimitState{Name: "running", Max: 1, Used: 2, Wanted: 1})
	s.wait(time.Minute)
	s.want("")
	s.wait(time.Hour)
	s.want("c starts")
}

// A job that would still run when the promised one starts leaves it what it needs of the limits.
func TestLimitsAreKeptForThePromisedJob(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.edit("batch", limits(queue.Limits{Running: 2, Requests: map[string]int64{"cpu": 5}}))
	s.submit("runs", 3, 10*time.Minute)
	s.submit("2a/next", 2, time.Hour)
	s.submit("1b/long", 1, 11*time.Minute)
	s.submit("1b/short", 1, 9*time.Minute)
	s.want("runs starts, next is promised 2 nodes from 10m, short starts")
	s.wantLimit("1b/long", queue.LimitState{Name: "running", Max: 2, Used: 2, Promised: 1, Wanted: 1})
	s.wait(9 * time.Minute)
	s.want("")
	s.wantLimit("1b/long", queue.LimitState{Name: "running", Max: 2, Used: 1, Promised: 1, Wanted: 1})
	s.submit("3b/urgent", 1, time.Hour, priority(1))
	s.want("urgent starts, next is no longer promised from 10m by urgent")
	s.wait(time.Minute)
	s.want("next starts")
}

// A promised job that a limit keeps from starting holds others back no longer than a moment after its time.
func TestAPromiseEndsWhenALimitKeepsItsJobFromStarting(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 3, 10*time.Minute)
	s.submit("next", 2, time.Hour)
	s.want("runs starts, next is promised 2 nodes from 10m")
	s.edit("batch", limits(queue.Limits{Requests: map[string]int64{"cpu": 4}}))
	s.want("")
	s.wantReason("next", queue.HasPromise)
	s.wantLimit("next", queue.LimitState{Name: "requests", Resource: "cpu", Max: 4, Used: 3, Wanted: 2})
	s.edit("batch", limits(queue.Limits{Requests: map[string]int64{"cpu": 1}}))
	s.wait(10 * time.Minute)
	s.want("")
	s.cluster.Now = s.core.NextAt()
	s.want("next is no longer promised from 10m")
	s.wantReason("next", queue.LimitReached)
	if got := s.cluster.Now.Sub(noon); got != 10*time.Minute+10*time.Second {
		t.Errorf("the promise ends after %v", got)
	}
}

// A limit that is reached keeps the jobs of its namespace from being looked at, and nobody else.
func TestALimitOfANamespaceIsItsOwn(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.edit("batch", limits(queue.Limits{NamespaceRunning: 1}))
	s.submit("1a/1", 1, time.Minute)
	s.submit("1a/2", 1, time.Minute)
	s.submit("1a/3", 1, time.Minute)
	s.submit("2a/1", 1, time.Minute)
	s.submit("2a/2", 1, time.Minute)
	s.want("1 starts, 1 starts")
	s.wantAsks(2)
	s.wait(time.Minute)
	s.want("2 starts, 2 starts")
	s.wait(time.Minute)
	s.want("3 starts")
}

// When a limit is no longer reached, a job may ask whose class was refused to others in the meantime, if it may ignore the promise that
// was in the way.
func TestAJobThatALimitHeldBackHasAnotherQuestion(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("2a/runs", 3, 10*time.Minute)
	s.submit("1a/one", 1, 10*time.Minute)
	s.want("runs starts, one starts")
	s.edit("batch", limits(queue.Limits{NamespaceRunning: 1}))
	s.submit("3a/all", 4, time.Hour)
	s.submit("4a/long", 1, time.Hour)
	s.submit("1a/urgent", 1, time.Hour, priority(1))
	s.want("all is promised 4 nodes from 10m")
	s.cluster.Release(key("1a/one"))
	s.open(queue.Room)
	s.want("")
	s.wantReason("1a/urgent", queue.LimitReached)
	s.drop(key("1a/one")) // some time after its pods have ended
	s.want("urgent starts, all is promised 4 nodes from 1h0m by urgent")
}
