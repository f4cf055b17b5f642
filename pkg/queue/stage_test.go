package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/queue/model"
)

// A stage is a world for a story: pool a has four nodes and pool b two, and one queue, batch, lets jobs pass.
type stage struct {
	*world
	t *testing.T
}

func newStage(t *testing.T, config queue.Config) *stage {
	s := &stage{world: newWorld(config, model.NewCluster(noon, map[string]*model.Pool{"a": {Size: 4}, "b": {Size: 2}}), faults{}), t: t}
	s.putQueue(queue.Queue{Name: "batch", Policy: queue.EASY, Started: true})
	t.Cleanup(func() {
		for _, w := range s.wrong {
			t.Error(w)
		}
	})
	return s
}

// key reads a key: 1a/big, or big, which is in 1a.
func key(name string) types.NamespacedName {
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Namespace: "1a", Name: name}
}

// job returns a job of the queue batch. It is younger than those before it. The last letter of its namespace is its pool.
func (s *stage) job(name string, nodes int64, lasts time.Duration, edits ...func(*queue.Job)) queue.Job {
	j := queue.Job{Key: key(name), Queue: "batch", Pods: nodes, Duration: lasts, Requests: map[string]int64{"cpu": nodes}}
	j.Created = noon.Add(time.Duration(len(s.jobs)) * time.Millisecond)
	j.Class = model.Class(j.Key.Namespace[1:], nodes, false)
	for _, edit := range edits {
		edit(&j)
	}
	return j
}

func (s *stage) submit(name string, nodes int64, lasts time.Duration, edits ...func(*queue.Job)) {
	s.putWaiting(s.job(name, nodes, lasts, edits...))
}

func priority(n int32) func(*queue.Job) { return func(j *queue.Job) { j.Priority = n } }
func inQueue(n string) func(*queue.Job) { return func(j *queue.Job) { j.Queue = n } }
func held(j *queue.Job)                 { j.Held = true }
func ago(d time.Duration) func(*queue.Job) {
	return func(j *queue.Job) { j.Created = noon.Add(-d) }
}

// edit changes a queue.
func (s *stage) edit(name string, change func(*queue.Queue)) {
	q := s.queues[name]
	q.Name = name
	change(&q)
	s.putQueue(q)
}

// pass makes passes until there is nothing to ask, and returns what they have decided, in words.
func (s *stage) pass() string {
	s.t.Helper()
	var words []string
	for range 100 {
		s.kept = map[types.NamespacedName]bool{}
		for _, d := range s.core.Pass(s.cluster.Now, s, nil) {
			words = append(words, s.words(d))
		}
		if !s.core.Pending() {
			s.checkIdle()
			return strings.Join(words, ", ")
		}
	}
	s.t.Fatalf("the passes come to no end: %v", words)
	return ""
}

func (s *stage) words(d queue.Decision) string {
	var w string
	switch d.Change {
	case queue.Started:
		w = d.Key.Name + " starts"
	case queue.Promised:
		w = fmt.Sprintf("%s is promised %d nodes from %s", d.Key.Name, d.Promise.Nodes, s.after(d.Promise.From))
	case queue.Unpromised:
		w = fmt.Sprintf("%s is no longer promised from %s", d.Key.Name, s.after(d.Before.From))
	}
	if d.By != (types.NamespacedName{}) {
		w += " by " + d.By.Name
	}
	return w
}

func (s *stage) after(at time.Time) string { return strings.TrimSuffix(at.Sub(noon).String(), "0s") }

// wait lets time go by, and what runs ends at its end.
func (s *stage) wait(d time.Duration) {
	s.cluster.Now = s.cluster.Now.Add(d)
	for k, h := range s.cluster.Held {
		if !h.End.IsZero() && !h.End.After(s.cluster.Now) {
			s.end(k)
		}
	}
}

func (s *stage) end(k types.NamespacedName) {
	s.cluster.Release(k)
	s.drop(k)
	s.open(queue.Room)
}

// want fails the test unless the passes decide this.
func (s *stage) want(want string) {
	s.t.Helper()
	if got := s.pass(); got != want {
		s.t.Errorf("decided: %s\n   want: %s", got, want)
	}
}

// wantReason fails the test unless a job waits for this reason.
func (s *stage) wantReason(name string, want queue.Reason) {
	s.t.Helper()
	if got, ok := s.core.State(key(name)); !ok || got.Reason != want {
		s.t.Errorf("%s waits: %t, %q, want %q", name, ok, got.Reason, want)
	}
}

// wantAsks fails the test unless so many questions were asked since it was called last.
func (s *stage) wantAsks(want int) {
	s.t.Helper()
	if s.asks != want {
		s.t.Errorf("%d questions were asked, want %d", s.asks, want)
	}
	s.asks = 0
}
