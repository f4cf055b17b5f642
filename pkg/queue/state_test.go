package queue_test

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/queue"
)

func TestAJobKnowsItsPosition(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.putQueue(queue.Queue{Name: "other", Policy: queue.EASY, Started: true})
	s.submit("elsewhere", 1, time.Hour, inQueue("other"))
	s.submit("second", 2, time.Hour)
	s.submit("held", 1, time.Hour, held)
	s.submit("huge", 9, time.Hour)
	s.submit("third", 2, time.Hour)
	s.submit("first", 4, time.Hour, priority(1))
	s.want("first is promised 4 nodes from 10m, elsewhere is promised 1 nodes from 1h10m")
	positions := func(names ...string) {
		t.Helper()
		for i, name := range names {
			if got, _ := s.core.State(key(name)); got.Position != i+1 || got.Of != len(names) {
				t.Errorf("%s is %d of %d, want %d of %d", name, got.Position, got.Of, i+1, len(names))
			}
		}
	}
	positions("first", "second", "third")
	s.end(key("runs"))
	s.want("first starts, elsewhere is promised 1 nodes from 1h0m, second is promised 2 nodes from 1h0m")
	positions("second", "third")
	for _, name := range []string{"held", "huge"} {
		if got, ok := s.core.State(key(name)); !ok || got.Position != 0 {
			t.Errorf("%s is %d of %d, %t", name, got.Position, got.Of, ok)
		}
	}
	s.cluster.Pools["a"].Size = 12
	s.open(queue.Nodes)
	s.want("elsewhere starts, second starts, huge is promised 9 nodes from 1h0m, third starts")
	positions("huge")
	if _, ok := s.core.State(key("first")); ok {
		t.Error("a job that runs waits")
	}
	if _, ok := s.core.State(key("nobody")); ok {
		t.Error("a job that is not there waits")
	}
}

func TestAJobKnowsWhoIsFirst(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("first", 3, time.Hour)
	s.submit("second", 2, time.Hour)
	s.want("first is promised 3 nodes from 10m")
	got, ok := s.core.State(key("second"))
	want := queue.State{
		Reason: queue.NoRoom, Position: 2, Of: 2, First: key("first"), FirstPromise: queue.Promise{From: noon.Add(10 * time.Minute), Nodes: 3}, Message: "no room",
	}
	if !ok || got != want {
		t.Errorf("State() = %+v, %t, want %+v", got, ok, want)
	}
}

func TestAQueueInNumbers(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("young", 2, time.Hour, priority(1))
	s.submit("old", 2, time.Hour, ago(time.Hour))
	s.submit("held", 2, time.Hour, held)
	s.want("young is promised 2 nodes from 10m")
	got, ok := s.core.Summary("batch")
	if !ok || got.Waiting != 3 || got.Running != 1 || got.Used["cpu"] != 4 || !got.Oldest.Equal(noon.Add(-time.Hour)) || got.First != key("young") || got.Promise.Nodes != 2 {
		t.Errorf("Summary() = %+v, %t", got, ok)
	}
	if got, ok := s.core.Summary("none"); ok {
		t.Errorf("Summary() = %+v, %t of a queue that is not there", got, ok)
	}
	s.core.DropQueue("none")
	s.core.DropQueue("batch")
	s.want("young is no longer promised from 10m")
	s.wantReason("young", queue.NoQueue)
	if _, ok := s.core.Summary("batch"); ok {
		t.Error("a queue that was dropped is there")
	}
}
