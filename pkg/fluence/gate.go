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

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/gate"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// bindGate is the gate with those who wait at it. Pods wait in PreBind, after all other
// plugins: there a pod can still be called back and other plugins' work on it, such as
// binding volumes, is done. In Bind it could not be.
type bindGate struct {
	*gate.Gate
	// more is signalled when the gate may have something to do.
	more chan struct{}

	mu      sync.Mutex
	waiting map[types.UID]waiter
	// refusals are what the API server said last to groups when it was too busy for a bind.
	refusals map[types.NamespacedName]refusal
	// empty is closed while the gate is empty.
	empty  chan struct{}
	closed bool
}

// A waiter is a pod's binding goroutine that waits at the gate.
type waiter struct {
	// verdict receives why the pod is not to be bound; empty is that it is.
	verdict chan string
	since   time.Time
}

// A refusal is what the API server said when it was too busy for a bind.
type refusal struct {
	text string
	at   time.Time
}

func newBindGate(maxBinds int) *bindGate {
	b := &bindGate{
		Gate: gate.New(maxBinds), more: make(chan struct{}, 1), waiting: map[types.UID]waiter{},
		refusals: map[types.NamespacedName]refusal{}, empty: make(chan struct{}), closed: true,
	}
	close(b.empty)
	return b
}

// wait takes note that a pod's goroutine waits.
func (b *bindGate) wait(uid types.UID, now time.Time) <-chan string {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := waiter{verdict: make(chan string, 1), since: now}
	b.waiting[uid] = w
	return w.verdict
}

// tell gives a pod that waits the verdict, and returns since when it has waited; false if
// it does not.
func (b *bindGate) tell(uid types.UID, why string) (since time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, ok := b.waiting[uid]
	if ok {
		delete(b.waiting, uid)
		w.verdict <- why
	}
	return w.since, ok
}

// leave takes note that a pod's goroutine waits no more.
func (b *bindGate) leave(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, uid)
}

// refuse takes note of what the API server said when it was too busy for a bind of a group.
func (b *bindGate) refuse(key types.NamespacedName, why string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusals[key] = refusal{why, now}
}

// forget drops what the API server said of a group's binds.
func (b *bindGate) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refusals, key)
}

// refused returns what the API server said of late, by group.
func (b *bindGate) refused(now time.Time) map[types.NamespacedName]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := map[types.NamespacedName]string{}
	for key, r := range b.refusals {
		if now.Sub(r.at) > refusalLasts {
			delete(b.refusals, key)
			continue
		}
		said[key] = r.text
	}
	return said
}

// look brings up to date whether the gate is empty.
func (b *bindGate) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch empty := b.Empty(); {
	case empty && !b.closed:
		close(b.empty)
		b.closed = true
	case !empty && b.closed:
		b.empty = make(chan struct{})
		b.closed = false
	}
}

// whenEmpty returns a channel that is closed when the gate is empty.
func (b *bindGate) whenEmpty() <-chan struct{} {
	b.look()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.empty
}

// A binder sees to pods that are to be bound: they stand at the gate until it is their turn.
type binder struct {
	*base
	figures *figures
	binds   *bindGate
	// core is the client that binds.
	core rest.Interface
}

func newBinder(b *base, seen *figures) (binder, error) {
	core, err := newCoreClient(b.handle.KubeConfig())
	return binder{base: b, figures: seen, binds: newBindGate(b.args.MaxBinds), core: core}, err
}

// atGate has a pod's goroutine wait at the gate, to which arrive brings it, and returns why
// the pod is not to be bound; empty is that it is. An error is that the scheduler does
// not want it any more.
func (b *binder) atGate(ctx context.Context, uid types.UID, arrive func(gate.Pod, time.Time) bool) (why string, err error) {
	verdict := b.binds.wait(uid, b.now())
	defer b.binds.leave(uid)
	// The seat is read after wait: who takes it away from here on tells this goroutine.
	r, ok := b.groups.Reserved(uid)
	if !ok {
		return whyGaveBack, nil
	}
	if !arrive(gate.Pod{UID: uid, Group: r.Rank.Key, Rank: r.Rank, Begun: r.Begun}, b.now()) {
		return whyGaveBack, nil
	}
	b.binds.look()
	signal.Send(b.binds.more)
	select {
	case why = <-verdict:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if why != "" {
		b.counters.calledBack.Inc()
	}
	if why != "" || err != nil {
		b.binds.Failed(uid, b.now())
		b.binds.look()
	}
	return why, err
}

// whyGaveBack is the reason of a pod that has lost its seat.
const whyGaveBack = "the group gave its nodes back"

// calledBack is the status of a pod that was called back from the gate. It is Unschedulable
// and no error. Its UnschedulablePlugins are empty. The queue would look up the events of a
// plugin that stands there, and has dropped them after Permit: it would log an error.
func calledBack(pod *corev1.Pod, node, why string) *fwk.Status {
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

// runGate lets pods leave the gate, and groups ask whose turn it is, until ctx ends.
func (b *binder) runGate(ctx context.Context) {
	for {
		// Again is asked with the time from before the look: a pause that ended meanwhile
		// has the gate look once more.
		now := b.now()
		b.openGate(ctx)
		if !signal.Wait(ctx, b.binds.more, b.binds.Again(now)) {
			return
		}
	}
}

// openGate lets those leave that may, and wakes the groups that may ask.
func (b *binder) openGate(ctx context.Context) {
	for {
		now := b.now()
		p, ok := b.binds.Next(now)
		if !ok {
			break
		}
		why, out := b.depart(p.UID, now)
		b.apply(ctx, out)
		// A pod that may not be bound has lost its seat.
		r, seated := b.groups.Reserved(p.UID)
		if seated {
			b.inventory.BindSent(r.Pod, r.Node)
		}
		since, waits := b.binds.tell(p.UID, why)
		if why != "" || !waits {
			b.binds.Failed(p.UID, now)
			if seated {
				b.inventory.ForgetBind(r.Pod)
			}
			continue
		}
		b.counters.gateWaits.Observe(now.Sub(since).Seconds())
	}
	b.binds.look()
	if due := b.binds.Due(b.now()); len(due) > 0 {
		b.waker.turn(due...)
	}
}

// sweepGate makes good for what reached nobody: pods that were expected and did not come,
// and groups that were to ask and did not.
func (b *binder) sweepGate() {
	now := b.now()
	b.binds.Sweep(now, b.figures.leads.Load())
	if idle := b.binds.Idle(now, idleAfter); len(idle) > 0 {
		b.waker.turn(idle...)
	}
	signal.Send(b.binds.more)
}

// idleAfter is after how long a group is woken again that was to ask and did not: its pod
// may have been missed, or stands behind many others in the queue.
const idleAfter = 2 * time.Second

// asked takes note that a group has asked.
func (b *binder) asked(key types.NamespacedName) {
	b.binds.Asked(key, b.now())
	signal.Send(b.binds.more)
}

const (
	// bindingAfter is how long pods stand at the gate before their group says so.
	bindingAfter = time.Second
	// turnAfter is how long a group waits for its turn to ask before it says so. Many
	// groups may wait for it, and each of them costs a write.
	turnAfter = 10 * time.Second
)

// refusalLasts is for how long a refusal of the API server is told as the reason of a wait.
const refusalLasts = time.Minute

// tellBinding reports the groups that wait for binds.
func (tl *teller) tellBinding(ctx context.Context) {
	f := tl.binder.binds.Figures()
	if f.InFlight+f.Standing[gate.Small]+f.Standing[gate.Large]+f.Waiting[gate.Small]+f.Waiting[gate.Large] == 0 {
		// To find out who leads costs a reading of all metrics. At rest nobody needs it.
		return
	}
	if !tl.reporter.Leads() {
		// A standby asks for nobody, and knows nothing of the leader's gate.
		return
	}
	now := tl.now()
	refused := tl.binder.binds.refused(now)
	for key, n := range tl.binder.binds.Lasting(now, bindingAfter) {
		bound, of, whole := tl.groups.OnNodes(key)
		if whole {
			continue // what is late is told with that
		}
		message := fmt.Sprintf("%d of %s bound; the API server is to take the binds of %s (binds in flight: %d, at most %d", bound, reason.Count(of, "pod"), reason.Count(n, "more pod"), f.InFlight, f.Limit)
		if why := refused[key]; why != "" {
			message += "; refused last: " + why
		}
		tl.reportBinding(key, message+")")
		// The last of them may have been bound in the moment before.
		tl.apply(ctx, tl.groups.Retell(key))
	}
	for _, key := range tl.binder.binds.WaitingTurn(now, turnAfter) {
		if !tl.groups.MayAsk(key, now) {
			tl.binder.asked(key) // its pods are gone
			continue
		}
		if _, _, whole := tl.groups.OnNodes(key); whole || !tl.binder.binds.Waits(key) {
			continue
		}
		// Without numbers: there may be many such groups, and each number is a write.
		tl.reportBinding(key, "waits for its turn to ask for nodes: pods of groups before it have nodes and are bound first")
		tl.apply(ctx, tl.groups.Retell(key))
	}
}

func (tl *teller) reportBinding(key types.NamespacedName, message string) {
	if tl.podGroups.Get(key) == nil {
		return
	}
	tl.reporter.Report(key, report.NotScheduled(reason.Binding, message), nil)
	tl.forgetGone(key)
}

// depart looks once more at the seats that a pod departs with, and lets it go or says why
// not.
func (b *binder) depart(uid types.UID, now time.Time) (why string, out gang.Output) {
	for {
		d := b.groups.Departing(uid)
		// The group may start meanwhile, where the API shows a pod of it on a node, or lose its
		// start by an answer of 429.
		if why, out, ok := b.groups.Depart(d, b.closed(d.Seats), now); ok {
			return why, out
		}
	}
}

// closed says which of the seats is not good any more, and why, from memory; empty is that
// all are.
func (b *binder) closed(seats []gang.Seat) string {
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
			if why := b.guard.closed(b.log, node, pod); why != "" {
				return why
			}
		}
		if why := b.full(s.Node, pods); why != "" {
			return why
		}
	}
	return ""
}

// full says why a node has no room any more for pods that it was matched for; empty is that
// it has.
func (b *binder) full(node string, pods []*corev1.Pod) string {
	if !b.guard.room {
		return ""
	}
	lacking := b.inventory.Lacking(node, pods...)
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
	b.binds.Expect(uids, b.now())
}

// noLongerExpected takes note of pods that lost their seats, are gone, or are on their
// nodes.
func (b *binder) noLongerExpected(keys ...string) {
	uids := make([]types.UID, len(keys))
	for i, k := range keys {
		uids[i] = types.UID(k)
	}
	b.binds.Forget(b.now(), uids...)
	b.binds.look()
	signal.Send(b.binds.more)
}

func keysOf(slots []match.Slot) []string {
	keys := make([]string, len(slots))
	for i, s := range slots {
		keys[i] = s.Key
	}
	return keys
}
