package fluence

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// bindQueue is the gate with those who wait at it. Pods wait in PreBind, after all other
// plugins: there a pod can still be called back and other plugins' work on it, such as
// binding volumes, is done. In Bind it could not be.
type bindQueue struct {
	*bindqueue.Queue
	// wakeup is signalled when the gate may have something to do.
	wakeup chan struct{}

	mu      sync.Mutex
	waiting map[types.UID]waiter
	// apiThrottlings are what the API server said last to groups when it was too busy for a bind.
	apiThrottlings map[types.NamespacedName]apiThrottling
	// idle is closed while the gate is empty.
	idle       chan struct{}
	idleClosed bool
}

// A waiter is a pod's binding goroutine that waits at the gate.
type waiter struct {
	// verdict receives why the pod is not to be bound; empty is that it is.
	verdict chan string
	since   time.Time
}

// A refusal is what the API server said when it was too busy for a bind.
type apiThrottling struct {
	text string
	at   time.Time
}

func newBindQueue(maxBinds int) *bindQueue {
	b := &bindQueue{
		Queue: bindqueue.New(maxBinds), wakeup: make(chan struct{}, 1), waiting: map[types.UID]waiter{},
		apiThrottlings: map[types.NamespacedName]apiThrottling{}, idle: make(chan struct{}), idleClosed: true,
	}
	close(b.idle)
	return b
}

// addWaiter takes note that a pod's goroutine waits.
func (b *bindQueue) addWaiter(uid types.UID, now time.Time) <-chan string {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := waiter{verdict: make(chan string, 1), since: now}
	b.waiting[uid] = w
	return w.verdict
}

// deliver gives a pod that waits the verdict, and returns since when it has waited; false if
// it does not.
func (b *bindQueue) deliver(uid types.UID, why string) (since time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, ok := b.waiting[uid]
	if ok {
		delete(b.waiting, uid)
		w.verdict <- why
	}
	return w.since, ok
}

// removeWaiter takes note that a pod's goroutine waits no more.
func (b *bindQueue) removeWaiter(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, uid)
}

// observeAPIThrottling takes note of what the API server said when it was too busy for a bind of a group.
func (b *bindQueue) observeAPIThrottling(key types.NamespacedName, why string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apiThrottlings[key] = apiThrottling{why, now}
}

// forget drops what the API server said of a group's binds.
func (b *bindQueue) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.apiThrottlings, key)
}

// recentAPIThrottlings returns what the API server said of late, by group.
func (b *bindQueue) recentAPIThrottlings(now time.Time) map[types.NamespacedName]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := map[types.NamespacedName]string{}
	for key, r := range b.apiThrottlings {
		if now.Sub(r.at) > apiThrottlingLasts {
			delete(b.apiThrottlings, key)
			continue
		}
		said[key] = r.text
	}
	return said
}

// updateIdle brings up to date whether the gate is empty.
func (b *bindQueue) updateIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch empty := b.IsIdle(); {
	case empty && !b.idleClosed:
		close(b.idle)
		b.idleClosed = true
	case !empty && b.idleClosed:
		b.idle = make(chan struct{})
		b.idleClosed = false
	}
}

// whenIdle returns a channel that is closed when the gate is empty.
func (b *bindQueue) whenIdle() <-chan struct{} {
	b.updateIdle()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idle
}

// A binder sees to pods that are to be bound: they stand at the gate until it is their turn.
type binder struct {
	*base
	status    *status
	bindQueue *bindQueue
	// bindClient is the client that binds.
	bindClient rest.Interface
}

func newBinder(b *base, seen *status) (binder, error) {
	core, err := newBindClient(b.handle.KubeConfig())
	return binder{base: b, status: seen, bindQueue: newBindQueue(b.args.MaxBinds), bindClient: core}, err
}

// waitToBind has a pod's goroutine wait at the gate, to which arrive brings it, and returns why
// the pod is not to be bound; empty is that it is. An error is that the scheduler does
// not want it any more.
func (b *binder) waitToBind(ctx context.Context, uid types.UID, arrive func(bindqueue.Pod, time.Time) bool) (why string, err error) {
	verdict := b.bindQueue.addWaiter(uid, b.now())
	defer b.bindQueue.removeWaiter(uid)
	// The seat is read after wait: who takes it away from here on tells this goroutine.
	r, ok := b.groups.ReservedPod(uid)
	if !ok {
		return whyRevoked, nil
	}
	if !arrive(bindqueue.Pod{UID: uid, Group: r.Rank.Key, Rank: r.Rank, GroupStarted: r.Starting}, b.now()) {
		return whyRevoked, nil
	}
	b.bindQueue.updateIdle()
	signal.Send(b.bindQueue.wakeup)
	select {
	case why = <-verdict:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if why != "" {
		b.counters.bindsCanceled.Inc()
	}
	if why != "" || err != nil {
		b.bindQueue.Failed(uid, b.now())
		b.bindQueue.updateIdle()
	}
	return why, err
}

// whyRevoked is the reason of a pod that has lost its seat.
const whyRevoked = "the group gave its nodes back"

// bindsCanceled is the status of a pod that was called back from the gate. It is Unschedulable
// and no error. Its UnschedulablePlugins are empty. The queue would look up the events of a
// plugin that stands there, and has dropped them after Permit: it would log an error.
func bindCanceled(pod *corev1.Pod, node, why string) *fwk.Status {
	fit := &schedulerframework.FitError{
		NumAllNodes: 1, Pod: pod,
		Diagnosis: schedulerframework.Diagnosis{
			NodeToStatus:         schedulerframework.NewDefaultNodeToStatus(),
			UnschedulablePlugins: sets.New[string](), // the queue adds to it
		},
	}
	fit.Diagnosis.NodeToStatus.Set(node, fwk.NewStatus(fwk.Unschedulable, why).WithPlugin(Name))
	return fwk.NewStatus(fwk.Unschedulable).WithError(fit).WithPlugin(Name)
}

// runBindQueue lets pods leave the gate, and groups ask whose turn it is, until ctx ends.
func (b *binder) runBindQueue(ctx context.Context) {
	for {
		// Again is asked with the time from before the look: a pause that ended meanwhile
		// has the gate look once more.
		now := b.now()
		b.serveBindQueue(ctx)
		if !signal.Wait(ctx, b.bindQueue.wakeup, b.bindQueue.NextTime(now)) {
			return
		}
	}
}

// serveBindQueue lets those leave that may, and wakes the groups that may ask.
func (b *binder) serveBindQueue(ctx context.Context) {
	for {
		now := b.now()
		p, ok := b.bindQueue.Next(now)
		if !ok {
			break
		}
		why, out := b.commitBind(p.UID, now)
		b.apply(ctx, out)
		// A pod that may not be bound has lost its seat.
		r, seated := b.groups.ReservedPod(p.UID)
		if seated {
			b.inventory.BindSent(r.Pod, r.Node)
		}
		since, waits := b.bindQueue.deliver(p.UID, why)
		if why != "" || !waits {
			b.bindQueue.Failed(p.UID, now)
			if seated {
				b.inventory.ForgetBind(r.Pod)
			}
			continue
		}
		b.counters.bindWaits.Observe(now.Sub(since).Seconds())
	}
	b.bindQueue.updateIdle()
	if due := b.bindQueue.AdmitWaiting(b.now()); len(due) > 0 {
		b.activator.activateAdmitted(due...)
	}
}

// sweepBindQueue makes good for what reached nobody: pods that were expected and did not come,
// and groups that were to ask and did not.
func (b *binder) sweepBindQueue() {
	now := b.now()
	b.bindQueue.Sweep(now, b.status.leads.Load())
	if idle := b.bindQueue.Idle(now, idleAfter); len(idle) > 0 {
		b.activator.activateAdmitted(idle...)
	}
	signal.Send(b.bindQueue.wakeup)
}

// idleAfter is after how long a group is woken again that was to ask and did not: its pod
// may have been missed, or stands behind many others in the queue.
const idleAfter = 2 * time.Second

// endAdmission takes note that a group has asked.
func (b *binder) endAdmission(key types.NamespacedName) {
	b.bindQueue.EndAdmission(key, b.now())
	signal.Send(b.bindQueue.wakeup)
}

const (
	// bindingAfter is how long pods stand at the gate before their group says so.
	bindingAfter = time.Second
	// reportAdmissionAfter is how long a group waits for its turn to ask before it says so. Many
	// groups may wait for it, and each of them costs a write.
	reportAdmissionAfter = 10 * time.Second
)

// apiThrottlingLasts is for how long a refusal of the API server is told as the reason of a wait.
const apiThrottlingLasts = time.Minute

// reportBindWaits reports the groups that wait for binds.
func (tl *groupReporter) reportBindWaits(ctx context.Context) {
	f := tl.binder.bindQueue.Snapshot()
	if f.InFlight+f.Pods[bindqueue.Small]+f.Pods[bindqueue.Large]+f.Groups[bindqueue.Small]+f.Groups[bindqueue.Large] == 0 {
		// To find out who leads costs a reading of all metrics. At rest nobody needs it.
		return
	}
	if !tl.reporter.Leads() {
		// A standby asks for nobody, and knows nothing of the leader's gate.
		return
	}
	now := tl.now()
	refused := tl.binder.bindQueue.recentAPIThrottlings(now)
	for key, n := range tl.binder.bindQueue.LongWaitingPods(now, bindingAfter) {
		bound, of, whole := tl.groups.OnNodes(key)
		if whole {
			continue // what is late is told with that
		}
		message := fmt.Sprintf("%d of %s bound; the API server is to take the binds of %s (binds in flight: %d, at most %d", bound, reason.Plural(of, "pod"), reason.Plural(n, "more pod"), f.InFlight, f.Limit)
		if why := refused[key]; why != "" {
			message += "; refused last: " + why
		}
		tl.reportBinding(key, message+")")
		// The last of them may have been bound in the moment before.
		tl.apply(ctx, tl.groups.ReportAgain(key))
	}
	for _, key := range tl.binder.bindQueue.LongWaitingGroups(now, reportAdmissionAfter) {
		if !tl.groups.MayPlace(key, now) {
			tl.binder.endAdmission(key) // its pods are gone
			continue
		}
		if _, _, whole := tl.groups.OnNodes(key); whole || !tl.binder.bindQueue.IsWaiting(key) {
			continue
		}
		// Without numbers: there may be many such groups, and each number is a write.
		tl.reportBinding(key, "waits for its turn to ask for nodes: pods of groups before it have nodes and are bound first")
		tl.apply(ctx, tl.groups.ReportAgain(key))
	}
}

func (tl *groupReporter) reportBinding(key types.NamespacedName, message string) {
	if tl.podGroups.Get(key) == nil {
		return
	}
	tl.reporter.Report(key, report.NotScheduled(reason.Binding, message), nil)
	tl.forgetGone(key)
}

// commitBind looks once more at the seats that a pod departs with, and lets it go or says why
// not.
func (b *binder) commitBind(uid types.UID, now time.Time) (why string, out gang.Output) {
	for {
		d := b.groups.PrepareBind(uid)
		// The group may start meanwhile, where the API shows a pod of it on a node, or lose its
		// start by an answer of 429.
		if why, out, ok := b.groups.CommitBind(d, b.whyUnusable(d.Assignments), now); ok {
			return why, out
		}
	}
}

// whyUnusable says which of the seats is not good any more, and why, from memory; empty is that
// all are.
func (b *binder) whyUnusable(seats []gang.Assignment) string {
	on := map[string][]*corev1.Pod{}
	for _, s := range seats {
		on[s.Node] = append(on[s.Node], s.Pod)
	}
	for _, s := range seats {
		pods := on[s.Node]
		if pods == nil {
			continue // looked at
		}
		delete(on, s.Node)
		node, err := b.nodes.Get(s.Node)
		if err != nil {
			return fmt.Sprintf("node %s, which was matched for pod %s, is gone", s.Node, s.Pod.Name)
		}
		for _, pod := range pods {
			if why := b.guard.whyRejected(b.log, node, pod); why != "" {
				return why
			}
		}
		if why := b.whyFull(s.Node, pods); why != "" {
			return why
		}
	}
	return ""
}

// whyFull says why a node has no room any more for pods that it was matched for; empty is that
// it has.
func (b *binder) whyFull(node string, pods []*corev1.Pod) string {
	if !b.guard.room {
		return ""
	}
	lacking := b.inventory.WhyNoRoom(node, pods...)
	if lacking == "" {
		return ""
	}
	who := "pod " + pods[0].Name
	if more := len(pods) - 1; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("node %s, which was matched for %s, has too little room now: %s", node, who, lacking)
}

// expect takes note of pods that were matched together.
func (b *binder) expect(slots []match.Slot) {
	uids := make([]types.UID, len(slots))
	for i, s := range slots {
		uids[i] = types.UID(s.Key)
	}
	b.bindQueue.Expect(uids, b.now())
}

// unexpect takes note of pods that lost their seats, are gone, or are on their
// nodes.
func (b *binder) unexpect(keys ...string) {
	uids := make([]types.UID, len(keys))
	for i, k := range keys {
		uids[i] = types.UID(k)
	}
	b.bindQueue.Forget(b.now(), uids...)
	b.bindQueue.updateIdle()
	signal.Send(b.bindQueue.wakeup)
}

func keysOf(slots []match.Slot) []string {
	keys := make([]string, len(slots))
	for i, s := range slots {
		keys[i] = s.Key
	}
	return keys
}
