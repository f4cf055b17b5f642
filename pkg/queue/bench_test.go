package queue_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/queue"
)

// A counter is a matcher that takes no time: it counts free nodes. One that does not fit is promised room in an hour.
type counter struct {
	now  time.Time
	free int64
	asks int
}

// Allocate implements queue.Matcher.
func (c *counter) Allocate(a queue.Ask) queue.Answer {
	if c.asks++; a.Job.Pods > c.free {
		return queue.Answer{Verdict: queue.Busy, Message: "room for fewer"}
	}
	c.free -= a.Job.Pods
	return queue.Answer{Verdict: queue.Granted}
}

// Promise implements queue.Matcher.
func (c *counter) Promise(a queue.Ask) queue.Answer {
	if got := c.Allocate(a); got.Verdict == queue.Granted {
		return got
	}
	return queue.Answer{Verdict: queue.Reserved, From: noon.Add(24 * time.Hour), Nodes: int(a.Job.Pods)}
}

// Probe implements queue.Matcher.
func (c *counter) Probe(a queue.Ask, _ time.Duration, _ bool) queue.Answer {
	if c.asks++; a.Job.Pods > c.free {
		return queue.Answer{Verdict: queue.Busy, Message: "room for fewer"}
	}
	return queue.Answer{Verdict: queue.Granted}
}

// Restore implements queue.Matcher.
func (c *counter) Restore(*queue.Job, queue.Promise) bool { return true }

// Cancel implements queue.Matcher.
func (c *counter) Cancel(types.NamespacedName) {}

// A backlog is many jobs that wait in one queue, while few run.
type backlog struct {
	core    *queue.Core
	counter counter
	rng     *rand.Rand
	classes int
	made    int
	running []queue.Job
	// promised has the pods of the first job, which does not fit for long.
	waiting map[types.NamespacedName]queue.Job
}

func (b *backlog) job() queue.Job {
	b.made++
	n := b.rng.IntN(b.classes)
	return queue.Job{
		Key:   types.NamespacedName{Namespace: fmt.Sprintf("team-%d", n%20), Name: fmt.Sprintf("job-%07d", b.made)},
		Queue: "batch", Class: fmt.Sprintf("%064x", n), Pods: int64(2 + n%7), Requests: map[string]int64{"cpu": int64(2 + n%7)},
		Created: noon.Add(time.Duration(b.made) * time.Millisecond), Priority: int32(b.rng.IntN(3)),
		Duration: time.Duration(1+b.rng.IntN(240)) * time.Minute,
	}
}

// newBacklog puts some jobs into a queue. A job that needs all nodes is before them.
func newBacklog(jobs, classes int, limits queue.Limits) *backlog {
	b := &backlog{core: queue.New(queue.Config{}), rng: rand.New(rand.NewPCG(1, 1)), classes: classes, waiting: map[types.NamespacedName]queue.Job{}}
	b.core.PutQueue(queue.Queue{Name: "batch", Policy: queue.EASY, Started: true, Limits: limits})
	first := b.job()
	first.Class, first.Pods, first.Priority = "all", 1<<40, 9
	b.core.PutWaiting(first)
	for range jobs - 1 {
		j := b.job()
		b.core.PutWaiting(j)
		b.waiting[j.Key] = j
	}
	b.counter.free = 1000
	b.pass()
	return b
}

// pass makes a pass, and puts a new job for each that starts.
func (b *backlog) pass() {
	b.counter.now = b.counter.now.Add(time.Second)
	for _, d := range b.core.Pass(noon, &b.counter, nil) {
		if d.Change == queue.Started {
			b.running = append(b.running, b.waiting[d.Key])
			delete(b.waiting, d.Key)
		}
	}
}

// BenchmarkPass measures what the core takes from the end of a job to the end of the pass that follows, in which it considers
// all jobs. The matcher takes no time.
func BenchmarkPass(b *testing.B) {
	for _, bc := range []struct {
		name          string
		jobs, classes int
		limits        queue.Limits
	}{
		{"jobs=100000/classes=1000", 100_000, 1000, queue.Limits{}},
		{"jobs=100000/classes=1000/limits", 100_000, 1000, queue.Limits{Running: 10_000, NamespaceRunning: 20, Requests: map[string]int64{"cpu": 1000}}},
		{"jobs=100000/classes=100000", 100_000, 100_000, queue.Limits{}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			l := newBacklog(bc.jobs, bc.classes, bc.limits)
			l.counter.asks = 0
			var took []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				at := l.rng.IntN(len(l.running))
				ended := l.running[at]
				l.running = slices.Delete(l.running, at, at+1)
				for len(l.waiting) < bc.jobs-1 {
					j := l.job()
					l.core.PutWaiting(j)
					l.waiting[j.Key] = j
				}
				b.StartTimer()
				begin := time.Now()
				l.core.Drop(ended.Key)
				l.counter.free += ended.Pods
				l.core.Open(queue.Room)
				l.pass()
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
			b.ReportMetric(float64(l.counter.asks)/float64(len(took)), "asks/op")
		})
	}
}

// BenchmarkColdPass measures the first pass over many jobs of which all start.
func BenchmarkColdPass(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l := newBacklog(100_000, 1000, queue.Limits{})
		l.counter.free = 1 << 30
		l.core.Open(queue.Room)
		b.StartTimer()
		l.core.Pass(noon, &l.counter, nil)
	}
}

// BenchmarkPut measures what it costs to put a job among many.
func BenchmarkPut(b *testing.B) {
	l := newBacklog(100_000, 1000, queue.Limits{})
	for b.Loop() {
		j := l.job()
		l.core.PutWaiting(j)
		l.core.Drop(j.Key)
	}
}

// BenchmarkState measures what it costs to tell where a job stands.
func BenchmarkState(b *testing.B) {
	l := newBacklog(100_000, 1000, queue.Limits{})
	var keys []types.NamespacedName
	for k := range l.waiting {
		keys = append(keys, k)
	}
	for i := 0; b.Loop(); i++ {
		if s, ok := l.core.State(keys[i%len(keys)]); !ok {
			b.Fatal(s, ok)
		}
	}
}

// live returns the bytes in use.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A job that waits takes at most a kilobyte, also if each has a class of its own.
func TestAJobTakesAtMostAKilobyte(t *testing.T) {
	for _, classes := range []int{1000, 100_000} {
		const jobs = 100_000
		var given []queue.Job
		l := newBacklog(1, classes, queue.Limits{})
		for range jobs {
			given = append(given, l.job())
		}
		for i := range given {
			given[i].Requests = nil // the caller's own
		}
		before := live()
		core := queue.New(queue.Config{})
		core.PutQueue(queue.Queue{Name: "batch", Policy: queue.EASY, Started: true})
		for i := range given {
			j := given[i]
			j.Requests = map[string]int64{"cpu": j.Pods}
			core.PutWaiting(j)
		}
		each := float64(live()-before) / jobs
		t.Logf("%d classes: %.0f bytes for each job", classes, each)
		if each > 1024 {
			t.Errorf("%d classes: %.0f bytes for each job, want 1024 at most", classes, each)
		}
		runtime.KeepAlive(core)
		runtime.KeepAlive(given)
	}
}
