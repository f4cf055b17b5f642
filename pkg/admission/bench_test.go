package admission

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/sidecar/client"
	"github.com/flux-k8s/fluence/sidecar/server"
)

var (
	benchNodes = flag.Int("bench-nodes", 10_000, "how many nodes there are, of 4 cores each; a job of one pod runs on each of them")
	benchJobs  = flag.Int("bench-jobs", 100_000, "how many jobs wait, of 1,000 classes")
	benchEnds  = flag.Int("bench-ends", 300, "how many jobs end, one after the other")
)

// endsEvery is the time between two ends. It is what 10,000 jobs have that run for 6 hours on average, as these do.
const endsEvery = 2 * time.Second

// overSocket returns an engine behind the service and the client of the sidecar, over a unix socket.
func overSocket(b *testing.B) match.Engine {
	b.Helper()
	var epochs atomic.Uint64
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }})
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	s := server.New(e, server.Options{Log: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := client.Dial("unix://"+path, client.Options{Timeout: time.Minute, LoadTimeout: 5 * time.Minute, Brief: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Close()
		_ = s.Stop(b.Context())
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	return c
}

// A crowd is a rig in which many jobs wait, and one job runs on each node.
type crowd struct {
	*rig
	texts   requests
	asked   *counted
	rng     *rand.Rand
	running []types.NamespacedName
	// waiting is the number of jobs that wait. admitted are the jobs that were given room since admitted was last emptied.
	waiting  int
	admitted []types.NamespacedName
}

// newCrowd returns a crowd whose engine is at the other end of a socket. All jobs have asked.
func newCrowd(b *testing.B) *crowd {
	b.Helper()
	c := &crowd{rig: newRig(b, 0), texts: requests{}, rng: rand.New(rand.NewPCG(1, 1))}
	c.asked = &counted{Engine: overSocket(b)}
	c.engine = c.asked
	c.build()
	c.load(*benchNodes)
	c.putQueue(easy("batch"))
	c.api.lost = func(a *applied) error {
		if a.Status.Allocation != nil && a.Status.Phase == v1alpha1.Ready {
			c.admitted = append(c.admitted, types.NamespacedName{Namespace: a.Metadata.Namespace, Name: a.Metadata.Name})
		}
		return nil
	}
	for i := range *benchNodes {
		fj := c.runs(i)
		c.put(fj)
		c.running = append(c.running, types.NamespacedName{Namespace: ns, Name: fj.Name})
	}
	c.refill()
	return c
}

// object returns a FluxJob that is new.
func (c *crowd) object(pods int32, cores int64, minutes int, priority int32) *v1alpha1.FluxJob {
	c.made++
	fj := many(c.made, c.texts)
	fj.Spec.Jobspec = c.texts.of(translate.Amounts{translate.TypeCore: 1000 * cores, translate.TypePods: 1}, pods)
	fj.Spec.Pods, fj.Spec.Duration, fj.Spec.Priority = pods, strconv.Itoa(minutes)+"m", priority
	return fj
}

// runs returns a FluxJob that takes the whole of a node.
func (c *crowd) runs(node int) *v1alpha1.FluxJob {
	fj := c.object(1, 4, 60+node%600, 9)
	end := metav1.NewTime(begin.Add(time.Duration(60+node%600) * time.Minute))
	fj.Status.Phase = v1alpha1.Running
	fj.Status.Allocation = &v1alpha1.JobAllocation{Attempt: 1, At: metav1.NewMicroTime(begin), End: &end, Seats: []v1alpha1.Seats{{Hosts: fmt.Sprint("n", node+1), Each: 1}}}
	return fj
}

func (c *crowd) put(fj *v1alpha1.FluxJob) { c.must(c.d.jobs.Update(c.api.create(fj))) }

// next returns another job that waits: of one of 1,000 classes.
func (c *crowd) next() *v1alpha1.FluxJob {
	n := c.made % 1000
	return c.object(int32(n/4+1), int64(n%4+1), c.rng.IntN(600)+1, int32(c.rng.IntN(3)))
}

// refill makes jobs until as many wait as are to, and lets them ask.
func (c *crowd) refill() {
	for ; c.waiting < *benchJobs; c.waiting++ {
		c.put(c.next())
	}
	c.settle()
	c.carryOut()
}

// A span is how long something took: by the clock with the pauses between passes, and of processor time without them.
type span struct {
	clock, busy time.Duration
	passes      int
}

func (s span) plus(o span) span { return span{s.clock + o.clock, s.busy + o.busy, s.passes + o.passes} }

// settle lets jobs ask until none has to. It returns after which time, from the first step on, the first one was given room, zero
// if none was, and after which time all had asked. A pass begins passEvery after the one before, or later if that took longer.
func (c *crowd) settle() (first, all span) {
	before, _ := c.d.loop.core.Summary("batch")
	for {
		c.now = c.now.Add(passEvery)
		began, used := time.Now(), processorTime()
		c.d.loop.step(c.now)
		took := span{time.Since(began), processorTime() - used, 1}
		if s, _ := c.d.loop.core.Summary("batch"); first.clock == 0 && s.Running > before.Running {
			first = all.plus(took)
		}
		if !c.d.loop.core.Pending() {
			return first, all.plus(took)
		}
		took.clock = max(took.clock, passEvery)
		all = all.plus(took)
	}
}

// carryOut does what the API server and the controller do after jobs were given room, until nothing more happens. Why the others wait
// is not written.
func (c *crowd) carryOut() {
	for c.writeUrgent() || c.d.loop.core.Pending() {
		c.release(c.admitted...)
		c.running, c.waiting = append(c.running, c.admitted...), c.waiting-len(c.admitted)
		c.admitted = nil
		c.settle()
	}
}

// writeUrgent writes what others wait for. It reports whether there was anything.
func (c *crowd) writeUrgent() (some bool) {
	w := c.d.writer
	for ; w.urgent.Len() > 0; some = true {
		key, _ := w.urgent.Get()
		c.must(w.writeJob(c.Context(), key))
		w.urgent.Done(key)
	}
	for w.later.Len() > 0 {
		key, _ := w.later.Get()
		w.later.Done(key)
	}
	return some
}

// processorTime returns the processor time of the process: of the loop, the client, the server and the engine.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// percentiles reports what half and 99 of 100 of some spans do not exceed: milliseconds, and passes.
func percentiles(b *testing.B, name string, all []span) {
	b.Helper()
	for unit, of := range map[string]func(span) float64{
		"ms":     func(s span) float64 { return float64(s.clock) / 1e6 },
		"cpu-ms": func(s span) float64 { return float64(s.busy) / 1e6 },
		"passes": func(s span) float64 { return float64(s.passes) },
	} {
		sorted := make([]float64, 0, len(all))
		for _, s := range all {
			sorted = append(sorted, of(s))
		}
		slices.Sort(sorted)
		for _, percent := range []int{50, 99} {
			if len(sorted) > 0 {
				b.ReportMetric(sorted[(len(sorted)-1)*percent/100], fmt.Sprintf("%s-p%d-%s", name, percent, unit))
			}
		}
	}
}

// BenchmarkOneJobEndsAmongMany ends one job after the other among 100,000 that wait, on 10,000 nodes, with the engine at the other
// end of a unix socket. It measures from when the end is known until the first job was given room (first), and until all jobs have
// asked (all), with the pauses between passes. The goal is 100 ms for 99 of 100 ends (first-p99-ms). On a machine that does other
// work too, questions take longer by the clock, fewer of them fit into a pass, and there are more pauses. cpu-ms, the processor
// time of the loop, the client, the server and the engine, has little of that. asks is how many questions one end leads to.
// Jobs that start are replaced by others that wait.
func BenchmarkOneJobEndsAmongMany(b *testing.B) {
	c := newCrowd(b)
	var first, all []span
	asks := 0
	for b.Loop() {
		for range *benchEnds {
			at := c.rng.IntN(len(c.running))
			key := c.running[at]
			c.running = slices.Delete(c.running, at, at+1)
			over := c.api.edit(key, func(fj *v1alpha1.FluxJob) { fj.Status.Phase = v1alpha1.Finished })
			c.asked.matches = 0
			c.now = c.now.Add(endsEvery)
			c.must(c.d.jobs.Update(over))
			toFirst, toAll := c.settle()
			asks += c.asked.matches
			if all = append(all, toAll); toFirst.clock > 0 {
				first = append(first, toFirst)
			}
			c.carryOut()
			c.refill()
		}
	}
	b.ReportMetric(0, "ns/op")
	percentiles(b, "first", first)
	percentiles(b, "all", all)
	b.ReportMetric(float64(asks)/float64(len(all)), "asks")
	b.ReportMetric(float64(len(first)), "started")
	b.ReportMetric(float64(len(all)), "ended")
}
