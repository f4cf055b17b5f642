package fluence

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// traceJobs is the number of jobs of TestBackfillUsesMore. Only a long trace shows by how much.
var traceJobs = flag.Int("trace.jobs", 60, "how many jobs the trace has that shows what backfill gains")

const (
	// traceNodes is the size of the cluster, and of the largest job.
	traceNodes = 16
	// traceLoad is what the jobs of a trace ask for, as a part of what the nodes could do in the time of the trace.
	traceLoad = 0.9
	// longestTrace is the longest runtime of the model, as the logarithm of seconds: about two days.
	longestTrace = 12
	// traceScale divides the runtimes of the model. They are of machines of the nineties.
	traceScale = 40
	// longTrace is the number of jobs from which on the gain is compared.
	longTrace = 1000
)

// A traceJob is a job of a trace.
type traceJob struct {
	streamJob
	at time.Duration
	// takes is how long it runs. It says up to five times as much.
	takes time.Duration
	began time.Duration
	// promised is when it was first promised room.
	promised time.Duration
}

// drawTrace draws jobs in the style of the model of Lublin and Feitelson (2003): a quarter of the jobs have one node, and the
// sizes of the others are uniform in two ranges of their logarithm, mostly powers of two. The logarithm of the runtime
// is of one of two gamma distributions, the longer one the more often the larger the job, and at most longestTrace. Unlike in
// the model, jobs come at the same rate all day.
func drawTrace(n int, seed uint64) []*traceJob {
	rng := rand.New(rand.NewPCG(seed, 2))
	var jobs []*traceJob
	work := 0.0
	for i := range n {
		size := 1
		if rng.Float64() > 0.244 {
			low, middle, high := 0.8, math.Log2(traceNodes)-2.5, math.Log2(traceNodes)
			log := low + rng.Float64()*(middle-low)
			if rng.Float64() > 0.86 {
				log = middle + rng.Float64()*(high-middle)
			}
			if rng.Float64() < 0.576 {
				log = math.Round(log)
			}
			size = min(traceNodes, max(1, int(math.Round(math.Exp2(log)))))
		}
		shape, scale := 312.0, 0.03
		if rng.Float64() < max(0, 0.78-0.0054*float64(size)) {
			shape, scale = 4.2, 0.94
		}
		log := gamma(rng, shape, scale)
		for log > longestTrace {
			log = gamma(rng, shape, scale) // few jobs would be most of the work
		}
		takes := time.Duration(max(5, math.Exp(log)/traceScale)) * time.Second
		says := time.Duration(float64(takes) * (1 + 4*rng.Float64())).Round(time.Second)
		j := &traceJob{takes: takes}
		j.name, j.pods, j.lasts = fmt.Sprintf("j%04d", i), size, int(says/time.Second)+2
		jobs = append(jobs, j)
		work += takes.Seconds() * float64(size)
	}
	mean := work / traceLoad / traceNodes / float64(n)
	at := 0.0
	for _, j := range jobs {
		j.at = time.Duration(at * float64(time.Second)).Truncate(time.Second)
		at += rng.ExpFloat64() * mean
	}
	return jobs
}

// gamma draws from a gamma distribution, by the method of Marsaglia and Tsang for shapes of at least 1.
func gamma(rng *rand.Rand, shape, scale float64) float64 {
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := rng.Float64(); math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v * scale
		}
	}
}

// A traceResult is how a trace went.
type traceResult struct {
	// utilisation is the part of the nodes that was in use from when a tenth of the jobs had come until the last came. Before,
	// the cluster fills, and afterwards it empties.
	utilisation float64
	// passed is how many jobs began before one that came earlier.
	passed int
	// slowdown is the mean bounded slowdown: the time from coming to end by the runtime, which counts as 10 seconds if it is
	// shorter.
	slowdown float64
	// off is the median of the differences between the times at which groups were first promised room and began.
	off time.Duration
}

// inStrictOrder computes when the jobs of a trace begin if each begins as soon as it has its nodes and the one before it has
// begun: first come, first served.
func inStrictOrder(jobs []*traceJob) traceResult {
	ends := slices.Repeat([]time.Duration{0}, traceNodes) // of the nodes
	before := time.Duration(0)
	for _, j := range jobs {
		slices.Sort(ends)
		j.began = max(j.at, before, ends[j.pods-1])
		for i := range j.pods {
			ends[i] = j.began + j.takes
		}
		before = j.began
	}
	return resultOf(jobs)
}

// playTrace runs the jobs of a trace with one promise.
func playTrace(t *testing.T, jobs []*traceJob) (result traceResult) {
	t.Helper()
	inRig(t, realEngine(t), func(r *rig) {
		r.quiet()
		// Even with -v, which shows the result: what a long trace logs takes more memory than the machine has.
		r.must(r.logging.Verbosity().Set("0"))
		r.pl.args.Promises = Promises{Depth: 1, Horizon: metav1.Duration{Duration: time.Hour}}
		r.pl.walltimes.enforced = true
		for i := range traceNodes {
			r.node(fmt.Sprintf("n%02d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		begin, next := time.Now(), 0
		waits, runs := []*traceJob{}, []*traceJob{}
		for len(waits)+len(runs) > 0 || next < len(jobs) {
			now := time.Since(begin)
			for ; next < len(jobs) && jobs[next].at <= now; next++ {
				j := jobs[next]
				r.gangFor(j.name, j.pods, 0, fmt.Sprintf("%ds", j.lasts))
				waits = append(waits, j)
			}
			running := r.running()
			waits = slices.DeleteFunc(waits, func(j *traceJob) bool {
				if p := r.pl.promises.get(types.NamespacedName{Namespace: ns, Name: j.name}); p != nil && j.promised == 0 {
					j.promised = p.at().Sub(begin)
				}
				if running[j.name] < j.pods {
					return false
				}
				j.began = now
				runs = append(runs, j)
				return true
			})
			runs = slices.DeleteFunc(runs, func(j *traceJob) bool {
				if now-j.began < j.takes {
					return false
				}
				r.ends(j.name, j.pods)
				// Otherwise the group would wait for pods for ever, and be reported.
				r.podGroupAPI.drop(types.NamespacedName{Namespace: ns, Name: j.name})
				return true
			})
			r.pass(time.Second)
			r.forget()
		}
		result = resultOf(jobs)
	})
	return result
}

// resultOf returns how a trace went, when all jobs have run.
func resultOf(jobs []*traceJob) (result traceResult) {
	first, last := jobs[len(jobs)/10].at, jobs[len(jobs)-1].at
	within := func(at time.Duration) time.Duration { return min(last, max(first, at)) }
	var off []time.Duration
	latest := time.Duration(0)
	for _, j := range jobs {
		used := within(j.began+j.takes) - within(j.began)
		result.utilisation += float64(j.pods) * used.Seconds() / (last - first).Seconds() / traceNodes
		if j.began < latest {
			result.passed++
		}
		latest = max(latest, j.began)
		wait := (j.began - j.at).Seconds()
		result.slowdown += max(1, (wait+j.takes.Seconds())/max(10, j.takes.Seconds())) / float64(len(jobs))
		if j.promised > 0 {
			off = append(off, (j.began - j.promised).Abs())
		}
	}
	if slices.Sort(off); len(off) > 0 {
		result.off = off[len(off)/2]
	}
	return result
}

// With promises for the first job that waits, short ones run in the gaps: more of the nodes is in use than if all kept
// to the order, and jobs wait for less.
func TestBackfillUsesMore(t *testing.T) {
	strict, easy := inStrictOrder(drawTrace(*traceJobs, 1)), playTrace(t, drawTrace(*traceJobs, 1))
	for name, r := range map[string]traceResult{"strict order": strict, "one promise": easy} {
		t.Logf("%s, %d jobs: %.1f %% of the nodes in use, mean bounded slowdown %.1f, %d jobs passed others, median from the first promised time to the start %s", name, *traceJobs, 100*r.utilisation, r.slowdown, r.passed, r.off)
	}
	if easy.passed == 0 {
		t.Error("no job has passed another")
	}
	gain := easy.utilisation - strict.utilisation
	if *traceJobs >= longTrace && gain < 0.1 {
		t.Errorf("with promises %.1f points more of the nodes are in use", 100*gain)
	}
	if easy.slowdown > strict.slowdown {
		t.Errorf("the mean bounded slowdown is %.1f with promises, and %.1f in strict order", easy.slowdown, strict.slowdown)
	}
}
