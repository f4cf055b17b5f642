package queue_test

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/queue"
)

func TestAJobKnowsWhyItWaits(t *testing.T) {
	s := fullStage(t, queue.Config{})
	s.submit("first", 3, time.Hour)
	s.submit("second", 2, time.Hour)
	s.want("first is promised 3 nodes from 10m")
	for name, want := range map[string]queue.State{
		"first":  {Reason: queue.HasPromise, Promise: queue.Promise{From: noon.Add(10 * time.Minute), Nodes: 3}, Message: "promised"},
		"second": {Reason: queue.NoRoom, Message: "no room"},
	} {
		if got, ok := s.core.State(key(name)); !ok || got != want {
			t.Errorf("State() of %s = %+v, %t, want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"runs", "nobody"} {
		if got, ok := s.core.State(key(name)); ok {
			t.Errorf("State() of %s, which does not wait, = %+v", name, got)
		}
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
