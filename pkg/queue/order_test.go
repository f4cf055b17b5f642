package queue_test

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/queue/model"
)

func TestJobsStartInTheirOrder(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.putQueue(queue.Queue{Name: "urgent", Policy: queue.EASY, Priority: 1, Started: true})
	s.submit("young", 1, time.Hour)
	s.submit("2a/namesake", 1, time.Hour, ago(time.Minute))
	s.submit("1a/namesake", 1, time.Hour, ago(time.Minute))
	s.submit("1a/namesake-2", 1, time.Hour, ago(time.Minute))
	s.submit("old", 1, time.Hour, ago(time.Hour))
	s.submit("high", 1, time.Hour, priority(1))
	s.submit("first", 1, time.Hour, inQueue("urgent"), priority(-1))
	s.cluster.Pools["a"].Size = 9
	if got, want := s.pass(), "first starts, high starts, old starts, namesake starts, namesake-2 starts, namesake starts, young starts"; got != want {
		t.Errorf("decided: %s\n   want: %s", got, want)
	}
}

// Equal priorities of queues do not divide their jobs.
func TestQueuesOfOnePriorityTakeTurnsByTheirJobs(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.putQueue(queue.Queue{Name: "other", Policy: queue.FCFS, Started: true})
	s.submit("1", 1, time.Hour)
	s.submit("2", 1, time.Hour, inQueue("other"))
	s.submit("3", 1, time.Hour)
	s.submit("0", 1, time.Hour, inQueue("other"), priority(1))
	s.want("0 starts, 1 starts, 2 starts, 3 starts")
	s.submit("4", 1, time.Hour)
	s.submit("5", 1, time.Hour, inQueue("other"))
	s.edit("other", func(q *queue.Queue) { q.Priority = 2 })
	s.end(key("1"))
	s.want("5 starts, 4 is promised 1 nodes from 1h0m")
}

// QA2: the first job needs all nodes. One that ends before starts, one that does not waits.
func TestJobsPassThePromisedOneIfTheyEndBefore(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 2, 10*time.Minute)
	s.want("runs starts")
	s.submit("all", 4, time.Hour)
	s.submit("long", 1, 11*time.Minute)
	s.submit("short", 1, 10*time.Minute)
	s.submit("endless", 1, 0)
	s.want("all is promised 4 nodes from 10m, short starts")
	if at := s.core.NextAt(); !at.Equal(noon.Add(10 * time.Minute)) {
		t.Errorf("a pass is due at %v", at)
	}
	s.wait(10 * time.Minute)
	s.want("all starts, long is promised 1 nodes from 1h10m")
	s.wait(time.Hour)
	s.want("long starts, endless starts")
}

func TestNobodyPassesInAQueueThatIsServedInOrder(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.edit("batch", func(q *queue.Queue) { q.Policy = queue.FCFS })
	s.putQueue(queue.Queue{Name: "other", Policy: queue.EASY, Started: true})
	s.submit("runs", 2, 10*time.Minute)
	s.submit("all", 4, time.Hour)
	s.submit("short", 1, time.Minute)
	s.submit("elsewhere", 1, 2*time.Minute, inQueue("other"))
	s.want("runs starts, elsewhere starts")
	s.wantReason("all", queue.NoRoom)
	s.wantReason("short", queue.NotItsTurn)
	s.submit("urgent", 1, 2*time.Minute, priority(1))
	s.want("urgent starts")
	s.submit("urgent-too", 3, 2*time.Minute, priority(1))
	s.want("")
	s.drop(key("all"))
	s.want("")
	s.drop(key("urgent-too"))
	s.want("")
	s.wait(2 * time.Minute)
	s.want("short starts")
}

// What cannot start for another reason than room holds nobody back.
func TestSomeJobsHoldNobodyBack(t *testing.T) {
	for _, policy := range []queue.Policy{queue.FCFS, queue.EASY} {
		s := newStage(t, queue.Config{})
		s.edit("batch", func(q *queue.Queue) {
			q.Policy, q.Limits = policy, queue.Limits{NamespaceRunning: 1, Requests: map[string]int64{"cpu": 40}}
		})
		s.cluster.Pools["b"] = &model.Pool{Size: 3, Down: 1, Excluded: 1}
		s.submit("1a/huge", 5, time.Hour)
		s.submit("1b/down", 3, time.Hour)
		s.submit("1b/excluded", 2, time.Hour, func(j *queue.Job) { j.Class += "/x" })
		s.submit("1a/held", 1, time.Hour, held)
		s.submit("1a/unplaceable", 1, time.Hour, func(j *queue.Job) { j.Unplaceable = true })
		s.submit("1a/one", 1, time.Hour)
		s.submit("1a/two", 1, time.Hour)
		s.submit("2a/three", 1, time.Hour)
		s.want("one starts, three starts")
		for name, want := range map[string]queue.Reason{
			"huge": queue.NeverFits, "1b/down": queue.NodesDown, "1b/excluded": queue.NodesExcluded, "held": queue.Held,
			"unplaceable": queue.Unplaceable, "two": queue.LimitReached,
		} {
			s.wantReason(name, want)
		}
		s.asks = 0
		s.open(queue.Room)
		s.want("")
		s.wantAsks(0)
		s.cluster.Pools["a"].Size, s.cluster.Pools["b"].Down, s.cluster.Pools["b"].Excluded = 9, 0, 0
		s.open(queue.Nodes)
		s.end(key("one"))
		if policy == queue.FCFS {
			s.want("huge starts, down starts")
			continue
		}
		s.want("huge starts, down starts")
	}
}

// A job that is held starts in its turn when it is released.
func TestAReleasedJobHasItsOldPlace(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 4, time.Minute)
	s.want("runs starts")
	s.submit("held", 3, time.Minute, held)
	s.submit("next", 3, time.Minute)
	s.want("next is promised 3 nodes from 1m")
	j := s.jobs[key("held")]
	j.Held = false
	s.putWaiting(j)
	s.want("next is no longer promised from 1m by held, held is promised 3 nodes from 1m")
	j.Held = true
	s.putWaiting(j)
	s.want("held is no longer promised from 1m, next is promised 3 nodes from 1m")
}

func TestAStoppedQueueStartsNothing(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 4, time.Minute)
	s.submit("next", 3, time.Minute)
	s.want("runs starts, next is promised 3 nodes from 1m")
	s.edit("batch", func(q *queue.Queue) { q.Started = false })
	s.want("next is no longer promised from 1m")
	s.wantReason("next", queue.QueueStopped)
	s.wait(time.Minute)
	s.want("")
	s.edit("batch", func(q *queue.Queue) { q.Started = true })
	s.want("next starts")
}

func TestJobsOfAQueueThatIsNotThereWait(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("early", 1, time.Minute, inQueue("later"))
	s.want("")
	s.wantReason("early", queue.NoQueue)
	s.putQueue(queue.Queue{Name: "later", Policy: queue.EASY, Started: true})
	s.want("early starts")
	s.core.DropQueue("later")
	s.submit("late", 1, time.Minute, inQueue("later"))
	s.want("")
	s.putQueue(queue.Queue{Name: "later", Policy: queue.EASY, Started: true, Limits: queue.Limits{Running: 1}})
	s.want("")
	if sum, ok := s.core.Summary("later"); !ok || sum.Running != 1 || sum.Waiting != 1 {
		t.Errorf("the queue has %+v, want the job of before", sum)
	}
	s.wantReason("late", queue.LimitReached)
}

// A queue may get other nodes.
func TestAQueueMovesToAnotherPartition(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 4, time.Minute)
	s.submit("next", 3, time.Minute)
	s.want("runs starts, next is promised 3 nodes from 1m")
	s.asks = 0
	s.core.Open(queue.Nodes, "elsewhere")
	s.want("")
	s.edit("batch", func(q *queue.Queue) { q.Partition = "elsewhere" })
	s.want("next is no longer promised from 1m, next is promised 3 nodes from 1m")
	s.core.Open(queue.Nodes, "")
	s.want("")
	s.wantAsks(1)
	s.core.Open(queue.Room, "elsewhere")
	s.want("")
	s.wantAsks(1)
}

func TestAnEqualJobChangesNothing(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.submit("runs", 4, time.Minute)
	s.submit("next", 3, time.Minute)
	s.want("runs starts, next is promised 3 nodes from 1m")
	s.asks = 0
	j := s.jobs[key("next")]
	j.Requests = map[string]int64{"cpu": 3}
	s.putWaiting(j)
	s.core.PutRunning(s.jobs[key("runs")])
	s.core.PutQueue(s.queues["batch"])
	if s.core.Pending() {
		t.Error("a pass is due")
	}
	j.Duration = 2 * time.Minute
	s.putWaiting(j)
	s.want("next is no longer promised from 1m, next is promised 3 nodes from 1m")
	s.wantAsks(1)
}

// A job that was admitted goes back, for instance since its admission could not be written.
func TestAJobGoesBack(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.edit("batch", func(q *queue.Queue) { q.Limits.Running = 1 })
	s.submit("a", 1, time.Minute)
	s.submit("b", 1, time.Minute)
	s.want("a starts")
	s.wantReason("b", queue.LimitReached)
	s.cluster.Release(key("a"))
	s.putWaiting(s.jobs[key("a")])
	s.want("a starts")
	s.end(key("a"))
	s.want("b starts")
}

// A job that an earlier process has admitted counts.
func TestRunningJobsCountAfterARestart(t *testing.T) {
	s := newStage(t, queue.Config{})
	s.edit("batch", func(q *queue.Queue) { q.Limits.Requests = map[string]int64{"cpu": 3} })
	s.core.PutRunning(s.job("runs", 2, time.Minute))
	s.submit("two", 2, time.Minute)
	s.submit("one", 1, time.Minute)
	s.want("one starts")
	s.core.Drop(key("runs"))
	s.want("two starts")
}
