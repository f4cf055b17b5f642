package e2e

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/test/cluster/process"
)

// loadJobs is the number of Jobs that are bound at once.
var loadJobs = flag.Int("load.jobs", 80, "how many Jobs of 8 pods are bound at once, in the tests of many binds")

const (
	// loadSize is the number of pods of each Job.
	loadSize = 8
	// loadWriters is the number of concurrent writes of objects.
	loadWriters = 16
	// loadPerJob is added to patience for each Job.
	loadPerJob = time.Second
)

// A load is many Jobs at once, with a node of loadSize CPUs for each.
type load struct {
	*story
	jobs  int
	start time.Time
	all   cache.Store // the pods of the story
	// guarded are processes that must not end.
	guarded []*process.Process

	mu          sync.Mutex
	made, bound sets.Set[types.UID]
	changed     chan struct{} // closed at the next change
}

// load creates the nodes for the Jobs, and more of
// them, and begins to watch. It submits nothing yet.
func (s *story) load(jobs, more int) *load {
	s.Helper()
	s.nodes("n", jobs+more, fmt.Sprint(loadSize))
	pods := informers.NewSharedInformerFactoryWithOptions(s.Client(), 0, informers.WithNamespace(s.ns)).Core().V1().Pods().Informer()
	l := &load{
		story: s, jobs: jobs, start: time.Now(), all: pods.GetStore(),
		made: sets.New[types.UID](), bound: sets.New[types.UID](), changed: make(chan struct{}),
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.see(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { l.see(obj.(*corev1.Pod)) },
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	s.Cleanup(cancel)
	go pods.RunWithContext(ctx)
	s.Cleanup(l.remove)
	return l
}

// see records a pod of a Job.
func (l *load) see(pod *corev1.Pod) {
	if pod.Labels[batchv1.JobNameLabel] == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made.Insert(pod.UID)
	if pod.Spec.NodeName != "" {
		l.bound.Insert(pod.UID)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// onNode returns how many pods of the Jobs were seen bound.
func (l *load) onNode() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bound.Len()
}

// size returns the number of pods of all Jobs.
func (l *load) size() int { return l.jobs * loadSize }

// patience returns the time limit of a wait for all pods.
func (l *load) patience() time.Duration { return patience + time.Duration(l.jobs)*loadPerJob }

// guard makes each wait for pods end the test when
// one of these processes, as they run now, has ended.
func (l *load) guard(names ...string) {
	l.guarded = nil
	for _, name := range names {
		l.guarded = append(l.guarded, l.Process(name))
	}
}

// seen waits until the given numbers of the Jobs' pods were seen created and bound.
func (l *load) seen(made, bound int) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), l.patience())
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		l.mu.Lock()
		m, b, changed := l.made.Len(), l.bound.Len(), l.changed
		l.mu.Unlock()
		if m >= made && b >= bound {
			return
		}
		l.unended()
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			l.Fatalf("waited %s in vain for %d pods, %d of them bound; there are %d and %d", l.patience(), made, bound, m, b)
		}
	}
}

// unended fails if a guarded process has ended.
func (l *load) unended() {
	l.Helper()
	for _, p := range l.guarded {
		if p.State() != nil {
			l.Fatalf("%s ended with %d of %d pods bound:\n%s", p.Name(), l.onNode(), l.size(), p.Tail(1))
		}
	}
}

// allPlaced waits until all pods are on nodes and every
// PodGroup reports it. It fails if a guarded process has ended.
func (l *load) allPlaced() {
	l.Helper()
	l.seen(l.size(), l.size())
	l.within(l.patience(), "every PodGroup placed", 500*time.Millisecond, func(ctx context.Context) (bool, string) {
		groups, err := l.PodGroups(ctx, l.ns)
		var others []string
		for _, g := range groups {
			c := meta.FindStatusCondition(g.Status.Conditions, "Scheduled")
			if c == nil || c.Status != metav1.ConditionTrue || c.Reason != "Placed" {
				others = append(others, fmt.Sprintf("%s, %s: %+v", g.Name, g.Status.Phase, c))
			}
		}
		return err == nil && len(groups) == l.jobs && len(others) == 0,
			fmt.Sprintf("%d of %d are not, such as %q; error %v", len(others), len(groups), others[:min(3, len(others))], err)
	})
	l.unended()
}

// nothingDoubled fails if a pod was bound twice, or if two pods were given
// the same room. It waits until the matcher has exactly the pods on nodes.
func (l *load) nothingDoubled() {
	l.Helper()
	l.noneRejected()
	l.boundOnce()
	l.allBooked()
}

// leader waits until a scheduler leads, and returns its name.
func (l *load) leader() (name string) {
	l.Helper()
	l.soon("a scheduler leads", 50*time.Millisecond, func(ctx context.Context) (bool, string) {
		var err error
		name, err = l.Leader(ctx)
		return name != "", fmt.Sprint(err)
	})
	return name
}
