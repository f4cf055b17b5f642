package fluence

import (
	"context"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	informersv1 "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
)

const (
	// stepTime is the time of one step by the clock of
	// steps: about the real time on a usual machine.
	stepTime = time.Microsecond
	// stepsPerLook is the number of steps for the engine's work between
	// two checks of the context, which are 1<<14 steps of the engine.
	stepsPerLook = 128
	// stepsPerFilter is the number of steps for the filters of one pod on one node.
	stepsPerFilter = 16
	// mostLooks is the number of times that a match checks its context before
	// it has done all that it may: 1<<22 steps of the engine while it holds
	// the graph, and 1<<25 beside it, each at the end of a match in parts.
	mostLooks = (1<<22+1<<25)>>14 + 64
)

// steps counts the work of a placement attempt from outside: reads of a node, runs of a
// filter, comparisons of pods with a term, and checks of the context by the engine. Its clock
// advances with them, so that a limit of time is a limit of steps, the same on every machine.
type steps struct {
	// taken is the number of all steps. stepsOverLimit is the number of the plugin's
	// steps beyond the limit, and matchesAfterLimit the number of matches that began then.
	taken, limit, stepsOverLimit, matchesAfterLimit atomic.Int64
	// maxChecksPerMatch is the largest number of checks that one match has made.
	maxChecksPerMatch atomic.Int64
}

// begin starts the clock, and counts from 0.
func (s *steps) begin(allowed time.Duration) {
	s.limit.Store(s.taken.Load() + int64(allowed/stepTime))
	s.stepsOverLimit.Store(0)
	s.matchesAfterLimit.Store(0)
	s.maxChecksPerMatch.Store(0)
}

func (s *steps) take(n int) {
	if over := s.taken.Add(int64(n)) - s.limit.Load(); over > 0 {
		s.stepsOverLimit.Add(min(over, int64(n)))
	}
}

// now is the clock. Reading it is a step too.
func (s *steps) now() time.Time {
	s.take(1)
	return time.Now().Add(time.Duration(s.taken.Load()) * stepTime)
}

// countSteps makes a rig's plugin count steps.
func (r *rig) countSteps(s *steps) {
	r.pl.now = s.now
	r.pl.handle = countedHandle{r.pl.handle, s}
	r.pl.placer.Handle = r.pl.handle
	r.pl.placer.PreFilters = countedPreFilters{r.pl.placer.PreFilters, s, func() int { n, _ := r.snapshot.NodeInfos().List(); return len(n) }}
}

// countedHandle counts runs of filters, and comparisons of terms
// with a pod: each reads the labels of the pod's namespace.
type countedHandle struct {
	fwk.Handle
	*steps
}

func (h countedHandle) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	h.take(stepsPerFilter)
	if n, ok := node.(countedNode); ok {
		// The plugins decide how often they read the labels for the terms of one pod.
		node = n.NodeInfo
	}
	return h.Handle.RunFilterPlugins(ctx, state, pod, node)
}

func (h countedHandle) RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, more fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	h.take(1)
	return h.Handle.RunPreFilterExtensionAddPod(ctx, state, pod, more, node)
}

func (h countedHandle) SharedInformerFactory() informers.SharedInformerFactory {
	return countedInformers{h.Handle.SharedInformerFactory(), h.steps}
}

type countedInformers struct {
	informers.SharedInformerFactory
	*steps
}

func (i countedInformers) Core() core.Interface {
	return countedCore{i.SharedInformerFactory.Core(), i.steps}
}

type countedCore struct {
	core.Interface
	*steps
}

func (c countedCore) V1() informersv1.Interface { return countedV1{c.Interface.V1(), c.steps} }

type countedV1 struct {
	informersv1.Interface
	*steps
}

func (c countedV1) Namespaces() informersv1.TypedNamespaceInformer {
	return countedNamespaces{c.Interface.Namespaces(), c.steps}
}

type countedNamespaces struct {
	informersv1.TypedNamespaceInformer
	*steps
}

func (c countedNamespaces) Lister() corelisters.NamespaceLister {
	return countedLister{c.TypedNamespaceInformer.Lister(), c.steps}
}

type countedLister struct {
	corelisters.NamespaceLister
	*steps
}

func (c countedLister) Get(name string) (*corev1.Namespace, error) {
	c.take(1)
	return c.NamespaceLister.Get(name)
}

// countedPreFilters counts one read of every node for each run of the PreFilter plugins.
type countedPreFilters struct {
	placement.PreFilters
	*steps
	nodes func() int
}

func (f countedPreFilters) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	f.take(f.nodes())
	return f.PreFilters.RunPreFilterPlugins(ctx, state, pod)
}

// countedNode counts reads of a node, and of each of its pods.
type countedNode struct {
	fwk.NodeInfo
	*steps
}

func (n countedNode) Node() *corev1.Node {
	n.take(1)
	return n.NodeInfo.Node()
}

func (n countedNode) GetPods() []fwk.PodInfo {
	pods := n.NodeInfo.GetPods()
	n.take(len(pods))
	return pods
}

// countedEngine counts how often a match checks its context.
type countedEngine struct {
	match.Engine
	*steps
}

func (e countedEngine) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	if e.taken.Load() > e.limit.Load() {
		e.matchesAfterLimit.Add(1)
	}
	seen := &countedContext{Context: ctx, steps: e.steps}
	defer func() { e.maxChecksPerMatch.Store(max(e.maxChecksPerMatch.Load(), seen.looks.Load())) }()
	return e.Engine.Match(seen, r)
}

type countedContext struct {
	context.Context
	*steps
	looks atomic.Int64
}

func (c *countedContext) Err() error {
	c.looks.Add(1)
	c.taken.Add(stepsPerLook)
	return c.Context.Err()
}

// processorTime returns the processor time that the process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
