package fluence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/trials"
)

// A streamJob is a gang of a random stream.
type streamJob struct {
	name     string
	pods     int
	priority int32
	// comes is the second in which it comes. lasts is the duration that it says, 0 for none. runs is for how long it
	// runs, in seconds.
	comes, lasts, runs int
	// came and began are when it came and when all its pods had nodes. ended is true when its pods have gone.
	came, began time.Time
	ended       bool
	// due is when it was last promised room, of the promises that stood.
	due time.Time
}

// A stream is jobs that come to a cluster at random times.
type stream struct {
	nodes, depth int
	jobs         []*streamJob
	// orderly is true if all jobs have the same priority and an end that is kept.
	orderly bool
}

// drawStream draws a stream.
func drawStream(seed uint64, orderly bool) stream {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := stream{nodes: 2 + rng.IntN(5), depth: 1 + rng.IntN(3), orderly: orderly}
	at := 0
	for i := range 4 + rng.IntN(9) {
		j := &streamJob{name: fmt.Sprintf("j%02d", i), pods: 1 + rng.IntN(s.nodes), comes: at, lasts: 20 + 10*rng.IntN(18)}
		j.runs = j.lasts - 2 // it is seen to start up to a second late
		if rng.IntN(2) == 0 {
			j.runs = 5 + rng.IntN(j.lasts-5) // it ends early
		}
		if !orderly {
			if rng.IntN(3) == 0 {
				j.priority = int32(rng.IntN(3))
			}
			switch rng.IntN(6) {
			case 0:
				j.lasts = 0
			case 1:
				j.runs = j.lasts + 1 + rng.IntN(60) // nobody ends it
			}
		}
		s.jobs = append(s.jobs, j)
		at += rng.IntN(40)
	}
	return s
}

// running returns how many pods of each gang are on nodes, as the scheduler sees it.
func (r *rig) running() map[string]int {
	r.Helper()
	pods, err := r.pl.pods.List(labels.Everything())
	r.must(err)
	n := map[string]int{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			n[p.Labels[group.Label]]++
		}
	}
	return n
}

// startedBefore reports whether why says that a pod of a job before j has moved j's promise. Such a job starts in promised room if
// it finds no other.
func (s stream) startedBefore(j *streamJob, why string) bool {
	for _, o := range s.jobs {
		if o == j {
			return false
		}
		if strings.HasPrefix(why, fmt.Sprintf("pod %s/%s-", ns, o.name)) && strings.HasSuffix(why, " before it") {
			return true
		}
	}
	return false
}

// maxStream is after how long a stream is over at the latest.
const maxStream = 3 * time.Hour

// play runs a stream and returns what was wrong, as the names of the rules that were broken:
//
//   - Later: a promise moved later without a reason or, in an orderly stream, for another one than that a job before it
//     was promised room there or has started there. The moment in which another job is let before it counts too.
//   - Late: a promised job of an orderly stream has not started two seconds after its time.
//   - Starved: a job has waited for longer than all others could run, or for ever.
func play(r *rig, s stream) (broken []string) {
	blame := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	began := time.Now()
	promises := map[string]time.Time{}
	for time.Since(began) < maxStream {
		now, left, running := time.Now(), 0, r.running()
		for _, j := range s.jobs {
			if j.came.IsZero() && now.Sub(began) >= time.Duration(j.comes)*time.Second {
				duration := ""
				if j.lasts > 0 {
					duration = fmt.Sprintf("%ds", j.lasts)
				}
				r.gangFor(j.name, j.pods, j.priority, duration)
				j.came = now
			}
			if j.began.IsZero() && running[j.name] == j.pods {
				if j.began = now; s.orderly && !j.due.IsZero() && now.Sub(j.due) > 2*time.Second {
					blame("Late: %s began %s after its time", j.name, now.Sub(j.due))
				}
			}
			if !j.began.IsZero() && !j.ended && now.Sub(j.began) >= time.Duration(j.runs)*time.Second {
				r.ends(j.name, j.pods)
				j.ended = true
			}
			if !j.ended {
				left++
			}
			p := r.pl.promises.get(types.NamespacedName{Namespace: ns, Name: j.name})
			if p == nil || !j.began.IsZero() {
				delete(promises, j.name)
				continue
			}
			was, known := promises[j.name]
			if later := p.at().Sub(was); known && later > 0 && later <= sameEnd {
				continue // the pods that it waits for were bound a moment after they had found nodes
			}
			if known && p.at().After(was) && p.why != whyBefore && !s.startedBefore(j, p.why) && (s.orderly || p.why == "" || p.why == whyChanged) {
				blame("Later: the time of %s moved from %s to %s, because %q", j.name, was.Sub(began), p.at().Sub(began), p.why)
			}
			promises[j.name], j.due = p.at(), p.at()
		}
		if left == 0 {
			return broken
		}
		r.pass(time.Second)
	}
	for _, j := range s.jobs {
		if j.began.IsZero() {
			blame("Starved: %s has not started", j.name)
		}
	}
	return broken
}

// isGreedy reports whether a request overlooks promises to groups after its own although there is room beside them. The names of
// groups are in their order.
func (r *rig) isGreedy(engine match.Engine, q match.Request) bool {
	_, own, _ := strings.Cut(q.Holder, "/")
	spared := r.pl.promises.jobsOf(func(of types.NamespacedName, p *promise) bool { return of.Name > own && !p.leaves })
	ignored := len(q.Ignore)
	q.Ignore = slices.DeleteFunc(slices.Clone(q.Ignore), func(id match.JobID) bool { return slices.Contains(spared, id) })
	if q.Op != match.Allocate || len(q.Ignore) == ignored {
		return false
	}
	q.Op = match.WithoutAllocating
	_, err := engine.Match(r.ctx, q)
	return err == nil
}

// inStream plays a stream, and returns what play does and, as Greedy, each job of an orderly stream that took room which is
// promised to one after it, and had other room. edit changes a request before the matcher gets it, or answers it with an error; nil
// changes none.
func inStream(t *testing.T, s stream, edit func(r *rig, q *match.Request) error) (broken []string) {
	t.Helper()
	engine := realEngine(t)
	inRig(t, engine, func(r *rig) {
		r.quiet()
		r.pl.args.Promises = Promises{Depth: s.depth, Horizon: metav1.Duration{Duration: time.Hour}}
		r.pl.args.MaxBypass = metav1.Duration{Duration: 5 * time.Minute}
		r.pl.walltimes.enforced = true
		r.matcherFake.OnMatch(func(q match.Request) (*match.Allocation, error) {
			if edit != nil {
				if err := edit(r, &q); err != nil {
					return nil, err
				}
			}
			if s.orderly && r.isGreedy(engine, q) {
				broken = append(broken, "Greedy: "+q.Holder+" overlooked later promises, and needed not to")
			}
			return engine.Match(r.ctx, q)
		})
		for i := range s.nodes {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		broken = append(broken, play(r, s)...)
	})
	return broken
}

// streamTrials is how many streams of a kind are played. A short run is under the race detector, where each takes long.
func streamTrials() int {
	if testing.Short() {
		return 8 // of which Seeds leaves a quarter
	}
	return 100
}

// No promise moves later in a stream of jobs of one priority that all end in time, also when others are let before it. Each
// job starts when it was promised.
func TestPromisesAreKeptInOrderlyStreams(t *testing.T) {
	for seed := range trials.Seeds(streamTrials()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			for _, b := range inStream(t, drawStream(seed, true), nil) {
				t.Error(b)
			}
		})
	}
}

// With priorities, jobs without an end and jobs that go on for too long, a promise moves later for a named reason only,
// and every job starts.
func TestPromisesMoveForAReason(t *testing.T) {
	for seed := range trials.Seeds(streamTrials()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			for _, b := range inStream(t, drawStream(seed, false), nil) {
				t.Error(b)
			}
		})
	}
}

// Each rule of the streams finds a fault that was made on purpose.
func TestTheStreamsFindFaults(t *testing.T) {
	faults := map[string]struct {
		rule string
		edit func(*rig, *match.Request) error
	}{
		"a match overlooks all promises": {"Later", func(r *rig, q *match.Request) error {
			for _, j := range r.pl.promises.Jobs() {
				if q.Op == match.Allocate && !slices.Contains(q.Ignore, j.ID) {
					q.Ignore = append(slices.Clone(q.Ignore), j.ID)
				}
			}
			return nil
		}},
		"a match spares no promises to others after its group": {"Greedy", func(r *rig, q *match.Request) error {
			for _, id := range r.pl.promises.jobsOf(func(of types.NamespacedName, _ *promise) bool { return "ns/"+of.Name > q.Holder }) {
				if q.Op == match.Allocate && !slices.Contains(q.Ignore, id) {
					q.Ignore = append(slices.Clone(q.Ignore), id)
				}
			}
			return nil
		}},
		"a match says a shorter time than the job runs": {"Later", func(_ *rig, q *match.Request) error {
			if q.Op == match.Allocate {
				q.Duration = time.Second
			}
			return nil
		}},
		"a group does not overlook its own promise": {"Late", func(_ *rig, q *match.Request) error {
			if q.Op == match.Allocate {
				q.Ignore = nil
			}
			return nil
		}},
		"a group finds no room": {"Starved", func(_ *rig, q *match.Request) error {
			if q.Op == match.Allocate && q.Holder == "ns/j02" {
				return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooFew, Wanted: 1, Nodes: 1, WaitingHelps: true}}
			}
			return nil
		}},
	}
	for name, tc := range faults {
		t.Run(name, func(t *testing.T) {
			var all []string
			for seed := range uint64(6) {
				broken := inStream(t, drawStream(seed, true), tc.edit)
				if slices.ContainsFunc(broken, func(b string) bool { return strings.HasPrefix(b, tc.rule+":") }) {
					return
				}
				all = append(all, broken...)
			}
			t.Errorf("broken: %q, want one of %s", all, tc.rule)
		})
	}
}
