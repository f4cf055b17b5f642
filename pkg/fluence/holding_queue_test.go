package fluence

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// otherPlugin is a plugin that rejects pods, and
// queues them again when an assigned pod is deleted.
const otherPlugin = "Other"

// gate is a PreEnqueue plugin that holds the pods of some names.
type gate struct{ closed sets.Set[string] }

func (gate) Name() string { return Name }

func (g gate) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if g.closed.Has(pod.Name) {
		return unschedulable("the gate is closed")
	}
	return nil
}

func (gate) podRank(pod *corev1.Pod) gang.Rank { return gang.Rank{Pod: pod.Name} }

func (gate) flushActivations(context.Context) {}

// twoQueues are kube-scheduler's queue, and one of the same
// settings that is wrapped. A step does the same with both.
type twoQueues struct {
	*testing.T
	gate    gate
	queues  [2]internalqueue.SchedulingQueue
	wrapped *holdingQueue
	// before are the numbers of the metrics at the beginning.
	before map[string]float64
	// pods holds the pods that exist. flying holds the popped pods.
	pods map[string]*corev1.Pod
	// shown are the pods that the API server shows.
	shown  cache.Indexer
	clock  *testingclock.FakeClock
	flying map[string][2]*schedulerframework.QueuedPodInfo
	made   int
	random *rand.Rand
}

func newTwoQueues(t *testing.T, seed uint64) *twoQueues {
	schedulermetrics.Register()
	q := &twoQueues{
		T: t, gate: gate{sets.New[string]()}, pods: map[string]*corev1.Pod{},
		flying: map[string][2]*schedulerframework.QueuedPodInfo{}, random: rand.New(rand.NewPCG(seed, 0)),
		shown: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), clock: testingclock.NewFakeClock(time.Unix(1000, 0)),
	}
	q.before = q.counts()
	hints := internalqueue.QueueingHintMapPerProfile{Name: {
		schedulerframework.EventAssignedPodDelete: {{PluginName: otherPlugin, QueueingHintFn: func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil }}},
	}}
	less := func(a, b fwk.QueuedEntityInfo) bool {
		return a.(namespacedEntity).GetName() < b.(namespacedEntity).GetName()
	}
	for i := range q.queues {
		q.queues[i] = internalqueue.NewTestQueue(t.Context(), less,
			internalqueue.WithClock(q.clock), internalqueue.WithPodLister(listersv1.NewPodLister(q.shown)),
			internalqueue.WithQueueingHintMapPerProfile(hints),
			internalqueue.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{Name: {Name: q.gate}}))
	}
	q.wrapped = newHoldingQueue(q.queues[1], Name, q.gate, listersv1.NewPodLister(q.shown))
	q.queues[1] = q.wrapped
	return q
}

// step does something with both queues. Both must change the metrics alike, and answer alike afterwards.
func (q *twoQueues) step(name string, do func(i int, queue internalqueue.SchedulingQueue)) {
	q.Helper()
	q.clock.Step(time.Millisecond)
	var change [2]map[string]float64
	for i, queue := range q.queues {
		before := gaugesOfQueue(q.T)
		do(i, queue)
		change[i] = gaugesOfQueue(q.T)
		for k := range change[i] {
			change[i][k] -= before[k]
		}
	}
	if d := cmp.Diff(change[0], change[1]); d != "" {
		q.Fatalf("%s: change of the metrics (-kube-scheduler's queue +wrapped):\n%s", name, d)
	}
	if d := cmp.Diff(answersOf(q.queues[0], q.pods), answersOf(q.queues[1], q.pods)); d != "" {
		q.Fatalf("%s: answers (-kube-scheduler's queue +wrapped):\n%s", name, d)
	}
}

// gaugesOfQueue returns the numbers of pods that the scheduler's metrics report.
func gaugesOfQueue(t *testing.T) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	for name, m := range map[string]metrics.GaugeMetric{
		"gated": schedulermetrics.GatedPods(), "unschedulable": schedulermetrics.UnschedulablePods(),
		"active": schedulermetrics.ActivePods(), "backoff": schedulermetrics.BackoffPods(),
		"gated entities":         schedulermetrics.GatedEntities(schedulermetrics.Pod),
		"unschedulable entities": schedulermetrics.UnschedulableEntities(schedulermetrics.Pod),
	} {
		v, err := testutil.GetGaugeMetricValue(m)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = v
	}
	return got
}

// answersOf returns what a queue answers about its pods.
func answersOf(queue internalqueue.SchedulingQueue, pods map[string]*corev1.Pod) map[string]string {
	pending, _ := queue.PendingPods()
	got := map[string]string{
		"pending":       podsText(pending),
		"unschedulable": podsText(queue.UnschedulablePods()),
		"active":        podsText(queue.PodsInActiveQ()),
		"backoff":       podsText(queue.PodsInBackoffQ()),
		"in flight":     podsText(queue.InFlightPods()),
	}
	for _, node := range []string{"n-0", "n-1"} {
		var on []string
		for _, p := range queue.NominatedPodsForNode(node) {
			on = append(on, fmt.Sprint(p.GetPod().Name, " ", ptr.Deref(p.GetPod().Spec.Priority, -1), " ", p.CalculateResource().Resource.GetMilliCPU()))
		}
		slices.Sort(on)
		got["nominated to "+node] = fmt.Sprint(on)
	}
	for name := range pods {
		info, is := queue.GetPod(name, "ns", nil)
		text := fmt.Sprint(is)
		if is {
			text = fmt.Sprint(info.Pod.ResourceVersion, " ", info.Gated(), " ", info.CalculateResource().Resource.GetMilliCPU())
		}
		got["get "+name] = text
	}
	return got
}

func podsText(pods []*corev1.Pod) string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name+"@"+p.ResourceVersion)
	}
	slices.Sort(names)
	return fmt.Sprint(names)
}

// any returns one of the pods for which ok holds, or nil.
func (q *twoQueues) any(ok func(*corev1.Pod) bool) *corev1.Pod {
	var some []string
	for _, name := range slices.Sorted(maps.Keys(q.pods)) {
		if ok(q.pods[name]) {
			some = append(some, name)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return q.pods[some[q.random.IntN(len(some))]]
}

func (q *twoQueues) isFlying(p *corev1.Pod) bool { _, is := q.flying[p.Name]; return is }

// add adds a pod, at times one that is gated, nominated, or of another profile.
func (q *twoQueues) add() {
	q.made++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p-%03d", q.random.IntN(1000)), UID: types.UID(fmt.Sprint(q.made)), ResourceVersion: "1"},
		Spec: corev1.PodSpec{SchedulerName: Name, Priority: new(int32(7)), Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}},
		}}},
	}
	if q.pods[pod.Name] != nil {
		return
	}
	switch q.random.IntN(8) {
	case 0:
		pod.Spec.SchedulerName = "another"
	case 1:
		pod.Status.NominatedNodeName = "n-0"
	}
	if pod.Spec.SchedulerName == Name && q.random.IntN(3) > 0 {
		q.gate.closed.Insert(pod.Name)
	}
	q.show(pod)
	q.step("add "+pod.Name, func(_ int, queue internalqueue.SchedulingQueue) { queue.Add(q.Context(), pod) })
}

func (q *twoQueues) show(pod *corev1.Pod) {
	q.pods[pod.Name] = pod
	if err := q.shown.Update(pod); err != nil {
		q.Fatal(err)
	}
}

func (q *twoQueues) hide(pod *corev1.Pod) {
	delete(q.pods, pod.Name)
	if err := q.shown.Delete(pod); err != nil {
		q.Fatal(err)
	}
}

// activate activates a pod, whose gate may be open.
func (q *twoQueues) activate() {
	pod := q.any(func(*corev1.Pod) bool { return true })
	if pod == nil {
		return
	}
	if q.random.IntN(2) == 0 {
		q.gate.closed.Delete(pod.Name)
	} else if q.random.IntN(3) == 0 && pod.Spec.SchedulerName == Name {
		q.gate.closed.Insert(pod.Name)
	}
	q.step("activate "+pod.Name, func(_ int, queue internalqueue.SchedulingQueue) {
		queue.Activate(klog.Background(), map[string]*corev1.Pod{"key": pod})
	})
}

// pop pops a pod, if one is active. Both queues must give the same, with the same history.
func (q *twoQueues) pop() {
	if len(q.queues[0].PodsInActiveQ()) == 0 {
		return
	}
	var got [2]*schedulerframework.QueuedPodInfo
	q.step("pop", func(i int, queue internalqueue.SchedulingQueue) {
		entity, err := queue.Pop(klog.Background())
		if err != nil {
			q.Fatal(err)
		}
		got[i] = entity.(*schedulerframework.QueuedPodInfo)
	})
	var texts [2]string
	for i, p := range got {
		texts[i] = fmt.Sprint(p.Pod.Name, " attempts ", p.Attempts, " unschedulable ", p.UnschedulableCount, " errors ", p.ConsecutiveErrorsCount, " first ", p.InitialAttemptTimestamp)
	}
	if texts[0] != texts[1] {
		q.Fatalf("kube-scheduler's queue gives %s, and the wrapped one %s", texts[0], texts[1])
	}
	q.flying[got[0].Pod.Name] = got
}

// fail ends the cycle of a popped pod, which some plugins have rejected, or which has met an error.
func (q *twoQueues) fail() {
	pod := q.any(q.isFlying)
	if pod == nil {
		return
	}
	rejecters := []sets.Set[string]{sets.New(Name), sets.New(Name), sets.New(otherPlugin), sets.New(Name, otherPlugin), sets.New[string]()}[q.random.IntN(5)]
	infos := q.flying[pod.Name]
	delete(q.flying, pod.Name)
	node := []string{"", "", "", "n-1"}[q.random.IntN(4)]
	q.step(fmt.Sprintf("reject %s by %v, nominated to %q", pod.Name, sets.List(rejecters), node), func(i int, queue internalqueue.SchedulingQueue) {
		info := infos[i].DeepCopy()
		info.ClearRejectorPlugins()
		info.UnschedulablePlugins = rejecters.Clone()
		info.PodInfo, _ = schedulerframework.NewPodInfo(pod)
		if err := queue.AddUnschedulablePodIfNotPresent(klog.Background(), info, 1); err != nil {
			q.Fatal(err)
		}
		queue.AddNominatedPod(klog.Background(), info.PodInfo, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
	})
	// kube-scheduler writes the status too.
	q.change(pod, func(p *corev1.Pod) { p.Status.NominatedNodeName = node })
}

// bind ends the cycle of a popped pod, which leaves the queue.
func (q *twoQueues) bind() {
	pod := q.any(q.isFlying)
	if pod == nil {
		return
	}
	delete(q.flying, pod.Name)
	q.hide(pod)
	q.gate.closed.Delete(pod.Name)
	q.step("bind "+pod.Name, func(_ int, queue internalqueue.SchedulingQueue) {
		queue.Done(pod.UID)
		queue.Delete(klog.Background(), pod)
	})
}

// update changes a pod, and may nominate it to a node.
func (q *twoQueues) update() {
	if pod := q.any(func(*corev1.Pod) bool { return true }); pod != nil {
		q.change(pod, func(p *corev1.Pod) {
			if q.random.IntN(4) == 0 {
				p.Status.NominatedNodeName = "n-1"
			}
		})
	}
}

// change changes a pod.
func (q *twoQueues) change(old *corev1.Pod, change func(*corev1.Pod)) {
	q.Helper()
	pod := old.DeepCopy()
	pod.ResourceVersion += "1"
	change(pod)
	q.show(pod)
	q.step("update "+pod.Name, func(_ int, queue internalqueue.SchedulingQueue) { queue.Update(q.Context(), old, pod) })
}

// remove deletes a pod that no cycle has.
func (q *twoQueues) remove() {
	pod := q.any(func(p *corev1.Pod) bool { return !q.isFlying(p) })
	if pod == nil {
		return
	}
	q.hide(pod)
	q.gate.closed.Delete(pod.Name)
	q.step("delete "+pod.Name, func(_ int, queue internalqueue.SchedulingQueue) { queue.Delete(klog.Background(), pod) })
}

// removeAll binds and deletes all pods. Then no metric counts a pod any more.
func (q *twoQueues) removeAll() {
	q.Helper()
	for len(q.flying) > 0 {
		q.bind()
	}
	for len(q.pods) > 0 {
		q.remove()
	}
	if d := cmp.Diff(q.before, q.counts()); d != "" {
		q.Errorf("the metrics, although no pod is left (-before +after):\n%s", d)
	}
	if n := len(q.wrapped.held) + len(q.wrapped.inFlight) + len(q.wrapped.attempted); n != 0 {
		q.Errorf("%d entries are left", n)
	}
}

// counts returns all numbers of the metrics.
func (q *twoQueues) counts() map[string]float64 {
	q.Helper()
	all := gaugesOfQueue(q.T)
	var err error
	if all["rejected by Fluence"], err = testutil.GetGaugeMetricValue(schedulermetrics.UnschedulableReason(Name, Name)); err != nil {
		q.Fatal(err)
	}
	return all
}

// event reports the deletion of an assigned pod.
func (q *twoQueues) event() {
	q.step("an assigned pod is deleted", func(_ int, queue internalqueue.SchedulingQueue) {
		queue.MoveAllToActiveOrBackoffQueue(klog.Background(), schedulerframework.EventAssignedPodDelete, &corev1.Pod{}, nil, nil)
	})
}

// The judge of a queue that holds pods is the queue that does not.
func TestTheHoldingQueueAnswersAsKubeSchedulersQueue(t *testing.T) {
	held := 0
	for seed := range trials.Seeds(20) {
		t.Logf("-seed=%d", seed)
		q := newTwoQueues(t, seed)
		steps := []func(){q.add, q.add, q.activate, q.activate, q.pop, q.pop, q.fail, q.fail, q.bind, q.update, q.remove, q.event}
		for range 200 {
			steps[q.random.IntN(len(steps))]()
			held += len(q.wrapped.held)
		}
		q.removeAll()
		for _, queue := range q.queues {
			queue.Close()
		}
	}
	if held == 0 {
		t.Error("no pod was ever held")
	}
}

// Pods that are activated together come into the queue in its order, because a Pop that waits takes
// the first that comes. What a scheduling cycle has requested is activated before the next Pop.
func TestPodsComeIntoTheQueueInOrder(t *testing.T) {
	q := newTwoQueues(t, 0)
	defer q.queues[0].Close()
	defer q.wrapped.Close()
	flushes := 0
	q.wrapped.plugin = flushedGate{q.gate, func() { flushes++ }}
	added := &queueOfAdded{SchedulingQueue: q.wrapped.SchedulingQueue}
	q.wrapped.SchedulingQueue = added
	pods := map[string]*corev1.Pod{}
	for i := range 50 {
		pod := objects.Pod(fmt.Sprintf("p%02d", i))
		pod.Spec.SchedulerName = Name
		pods[string(pod.UID)] = pod
		q.gate.closed.Insert(pod.Name)
		q.wrapped.Add(t.Context(), pod)
	}
	q.gate.closed.Clear()
	q.wrapped.Activate(klog.Background(), pods)
	if len(added.names) != len(pods) || !slices.IsSorted(added.names) {
		t.Errorf("pods come into the queue in the order %v, want all in the order of their names", added.names)
	}
	if _, err := q.wrapped.Pop(klog.Background()); err != nil || flushes != 1 {
		t.Errorf("%d flushes before the first Pop (%v), want 1", flushes, err)
	}
}

// PreEnqueue may change the rank of a pod that it lets pass.
func TestPodsComeIntoTheQueueByTheRankThatPreEnqueueGivesThem(t *testing.T) {
	q := newTwoQueues(t, 0)
	defer q.queues[0].Close()
	defer q.wrapped.Close()
	ranked := rankingGate{gate: q.gate, ranks: map[string]string{"a": "1", "b": "2"}, next: map[string]string{"a": "3"}}
	q.wrapped.plugin = ranked
	added := &queueOfAdded{SchedulingQueue: q.wrapped.SchedulingQueue}
	q.wrapped.SchedulingQueue = added
	pods := map[string]*corev1.Pod{}
	q.gate.closed.Insert("a", "b")
	for _, name := range []string{"a", "b"} {
		pod := objects.Pod(name)
		pod.Spec.SchedulerName = Name
		pods[name] = pod
		q.wrapped.Add(t.Context(), pod)
	}
	q.gate.closed.Clear()
	q.wrapped.Activate(klog.Background(), pods)
	if !slices.Equal(added.names, []string{"b", "a"}) {
		t.Errorf("pods come into the queue in the order %v, want b first: a has a later rank by now", added.names)
	}
}

// rankingGate gives pods that pass their next rank.
type rankingGate struct {
	gate
	ranks, next map[string]string
}

func (g rankingGate) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	status := g.gate.PreEnqueue(ctx, pod)
	if next := g.next[pod.Name]; next != "" && status.IsSuccess() {
		g.ranks[pod.Name] = next
	}
	return status
}

func (g rankingGate) podRank(pod *corev1.Pod) gang.Rank { return gang.Rank{Pod: g.ranks[pod.Name]} }

// The watch of pods may miss that a pod was deleted, and show its successor as an update.
func TestTheSuccessorOfAHeldPodIsANewPod(t *testing.T) {
	q := newTwoQueues(t, 0)
	defer q.queues[0].Close()
	defer q.wrapped.Close()
	old := objects.Pod("p")
	old.Spec.SchedulerName = Name
	old.Status.NominatedNodeName = "n-0"
	q.gate.closed.Insert(old.Name)
	q.wrapped.Add(t.Context(), old)
	q.wrapped.held[old.UID].params.Attempts = 7
	q.wrapped.attempted[old.UID] = schedulerframework.QueueingParams{Attempts: 7}
	next := old.DeepCopy()
	next.UID, next.Status.NominatedNodeName = "next", ""
	q.gate.closed.Clear()
	q.wrapped.Update(t.Context(), old, next)
	if len(q.wrapped.held)+len(q.wrapped.attempted) != 0 {
		t.Errorf("%d pods are held and %d have attempts, want none: the gate is open for the successor", len(q.wrapped.held), len(q.wrapped.attempted))
	}
	if nominated := q.wrapped.NominatedPodsForNode("n-0"); len(nominated) != 0 {
		t.Errorf("%d pods are nominated for the node of the pod that is gone", len(nominated))
	}
	entity, err := q.wrapped.Pop(klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	if info := entity.(*schedulerframework.QueuedPodInfo); info.Pod.UID != next.UID || info.Attempts != 1 {
		t.Errorf("Pop returns pod %s with %d attempts, want the successor with its first", info.Pod.UID, info.Attempts)
	}
}

// A pod that was updated during its cycle is held as it is now.
func TestAPodIsHeldAsItIsNow(t *testing.T) {
	q := newTwoQueues(t, 0)
	defer q.queues[0].Close()
	defer q.wrapped.Close()
	pod := objects.Pod("p")
	pod.Spec.SchedulerName = Name
	q.show(pod)
	q.wrapped.Add(t.Context(), pod)
	entity, err := q.wrapped.Pop(klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	info := entity.(*schedulerframework.QueuedPodInfo)
	info.UnschedulablePlugins = sets.New(Name)
	now := pod.DeepCopy()
	now.Labels = map[string]string{"a": "b"}
	q.show(now)
	if err := q.wrapped.AddUnschedulablePodIfNotPresent(klog.Background(), info, 1); err != nil {
		t.Fatal(err)
	}
	if h := q.wrapped.held[pod.UID]; h == nil || h.pod.Labels["a"] != "b" {
		t.Errorf("the queue holds %+v, want the pod with the label", h)
	}
}

// flushedGate calls flush for flushActivations.
type flushedGate struct {
	gate
	flush func()
}

func (g flushedGate) flushActivations(context.Context) { g.flush() }

// queueOfAdded records the names of the pods that are added.
type queueOfAdded struct {
	internalqueue.SchedulingQueue
	names []string
}

func (q *queueOfAdded) Add(ctx context.Context, pod *corev1.Pod) {
	q.names = append(q.names, pod.Name)
	q.SchedulingQueue.Add(ctx, pod)
}

// A pod that is deleted, or bound by another scheduler, while its cycle fails is not held:
// no event would end that.
func TestAPodThatGoesDuringItsCycleIsNotHeld(t *testing.T) {
	for name, goes := range map[string]func(q *twoQueues, pod *corev1.Pod){
		"deleted": func(q *twoQueues, pod *corev1.Pod) { q.hide(pod) },
		"replaced": func(q *twoQueues, pod *corev1.Pod) {
			next := pod.DeepCopy()
			next.UID = "next"
			q.show(next)
		},
		"bound": func(q *twoQueues, pod *corev1.Pod) {
			bound := pod.DeepCopy()
			bound.Spec.NodeName = "n-0"
			q.show(bound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newTwoQueues(t, 1)
			defer q.wrapped.Close()
			pod := objects.Pod("p")
			pod.Spec.SchedulerName = Name
			q.show(pod)
			q.wrapped.Add(t.Context(), pod)
			entity, err := q.wrapped.Pop(klog.Background())
			if err != nil {
				t.Fatal(err)
			}
			info := entity.(*schedulerframework.QueuedPodInfo)
			info.UnschedulablePlugins = sets.New(Name)
			goes(q, pod)
			q.wrapped.Delete(klog.Background(), pod)
			if err := q.wrapped.AddUnschedulablePodIfNotPresent(klog.Background(), info, 1); err != nil {
				t.Fatal(err)
			}
			if n := len(q.wrapped.held) + len(q.wrapped.inFlight) + len(q.wrapped.InFlightPods()); n != 0 {
				t.Errorf("%d entries are left of the pod", n)
			}
		})
	}
}

func TestGroupsThatWaitAreHeld(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		r.gang(8, 8)
		r.pass(time.Minute)
		queue := r.sched.SchedulingQueue.(*holdingQueue)
		if got := len(queue.held); got != 8 {
			t.Errorf("%d pods are held, want the whole group: its siblings, and its representative after the refusal", got)
		}
		if inner, _ := queue.SchedulingQueue.PendingPods(); len(inner) != 0 {
			t.Errorf("kube-scheduler's queue has %s, want nothing to look at", podsText(inner))
		}
		// A pod that was activated for nothing stays held.
		r.pl.activator.activatePods([]*corev1.Pod{r.shown("g-3")})
		r.pass(time.Second)
		if got := len(queue.held); got != 8 {
			t.Errorf("%d pods are held, want all 8", got)
		}
		r.node("n2", 4)
		r.pass(5 * time.Second)
		if got := len(r.assigned()); got != 8 || len(queue.held)+len(queue.inFlight)+len(queue.attempted) != 0 {
			t.Errorf("%d pods on nodes, want all 8 and nothing held: %d, in flight: %d, attempted: %d", got, len(queue.held), len(queue.inFlight), len(queue.attempted))
		}
	})
}

// A deafActivator activates nothing while it is deaf.
type deafActivator struct {
	fwk.PodActivator
	isDeaf atomic.Bool
}

func (d *deafActivator) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	if !d.isDeaf.Load() {
		d.PodActivator.Activate(logger, pods)
	}
}

// A group whose pods nobody activates starts nevertheless, though later.
func TestAGroupThatNobodyActivatesStarts(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.pass(settleTime)
		r.schedule()
		deaf := &deafActivator{PodActivator: r.sched.SchedulingQueue}
		deaf.isDeaf.Store(true)
		r.fwk.SetPodActivator(deaf)
		r.gang(3, 3)
		r.pass(time.Second)
		if got := len(r.assigned()); got != 0 {
			t.Fatalf("%d pods are on nodes, although nothing was activated", got)
		}
		deaf.isDeaf.Store(false)
		r.pass(activateAllEvery + time.Second)
		if got := len(r.assigned()); got != 3 {
			t.Errorf("%d pods on nodes, want all 3", got)
		}
	})
}

// BenchmarkEventWithPodsThatWait is what one event of the cluster costs the queue while pods wait.
func BenchmarkEventWithPodsThatWait(b *testing.B) {
	schedulermetrics.Register()
	for _, waiting := range []int{4000, 50000} {
		for _, wrapped := range []bool{false, true} {
			b.Run(fmt.Sprintf("waiting=%d/held=%t", waiting, wrapped), func(b *testing.B) {
				hints := internalqueue.QueueingHintMapPerProfile{Name: {schedulerframework.EventAssignedPodAdd: {{PluginName: otherPlugin}}}}
				closed := gate{sets.New("p")}
				var queue internalqueue.SchedulingQueue = internalqueue.NewTestQueue(b.Context(), func(a, b fwk.QueuedEntityInfo) bool { return false },
					internalqueue.WithQueueingHintMapPerProfile(hints),
					internalqueue.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{Name: {Name: closed}}))
				defer queue.Close()
				if wrapped {
					queue = newHoldingQueue(queue, Name, closed, nil)
				}
				for i := range waiting {
					queue.Add(b.Context(), &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint(i), Name: "p", UID: types.UID(fmt.Sprint(i))}, Spec: corev1.PodSpec{SchedulerName: Name},
					})
				}
				for b.Loop() {
					queue.MoveAllToActiveOrBackoffQueue(klog.Background(), schedulerframework.EventAssignedPodAdd, nil, &corev1.Pod{}, nil)
				}
			})
		}
	}
}
