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
	"k8s.io/utils/keymutex"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// bindQueue is a bindqueue.Queue together with the binding goroutines that wait in it. They
// wait in PreBind, after all other plugins. The work of those plugins, such as binding
// volumes, is done by then, and a pod's bind can still be cancelled. In Bind it could not be.
type bindQueue struct {
	*bindqueue.Queue
	// wakeup wakes runBindQueue.
	wakeup chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// waiting has the waiting goroutines, by the UID of their pod.
	waiting map[types.UID]waiter
	// apiThrottlings has, by group, the last answer of
	// the API server that it was too busy for a bind.
	apiThrottlings map[types.NamespacedName]apiThrottling
	// idle is closed while the queue is idle.
	idle chan struct{}
	// idleClosed reports whether idle is closed.
	idleClosed bool
}

// waiter is a pod's binding goroutine that waits in the bind queue.
type waiter struct {
	// verdict receives the reason not to bind the pod, or "" if the pod is to be bound.
	verdict chan string
	// since is when the wait began.
	since time.Time
}

// apiThrottling is an answer of the API server that it was too busy for a bind.
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

// addWaiter registers a pod's goroutine. The returned channel receives the verdict.
func (b *bindQueue) addWaiter(uid types.UID, now time.Time) <-chan string {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := waiter{verdict: make(chan string, 1), since: now}
	b.waiting[uid] = w
	return w.verdict
}

// deliver sends the verdict to a waiting pod: the reason not to bind it, or "" to bind
// it. It returns since when the pod has waited. ok is false if the pod does not wait.
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

// removeWaiter unregisters a pod's goroutine.
func (b *bindQueue) removeWaiter(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, uid)
}

// observeAPIThrottling records the answer of an API
// server that was too busy to bind a pod of the group.
func (b *bindQueue) observeAPIThrottling(key types.NamespacedName, why string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apiThrottlings[key] = apiThrottling{why, now}
}

// forget drops the API server's last answer about a group's binds.
func (b *bindQueue) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.apiThrottlings, key)
}

// recentAPIThrottlings returns the answers of the last apiThrottlingLasts, by group.
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

// updateIdle closes or replaces the channel idle, according to IsIdle.
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

// whenIdle returns a channel that is closed while the bind queue is idle.
func (b *bindQueue) whenIdle() <-chan struct{} {
	b.updateIdle()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idle
}

// binder binds pods in the order of the bind queue.
type binder struct {
	*base
	stateCollector *stateCollector
	bindQueue      *bindQueue
	// bindClient sends binds.
	bindClient rest.Interface
	// seats writes seats into PodGroups. recording makes one goroutine of a group do it.
	seats     seatRecorder
	recording keymutex.KeyMutex
}

// A seatRecorder writes the seats of a group into the status of its PodGroup.
type seatRecorder interface {
	applySeats(ctx context.Context, key types.NamespacedName, r *gang.SeatRecord, now time.Time) error
}

func newBinder(b *base, state *stateCollector) (binder, error) {
	core, err := newBindClient(b.handle.KubeConfig())
	return binder{base: b, stateCollector: state, bindQueue: newBindQueue(b.args.MaxBinds), bindClient: core, recording: keymutex.NewHashed(0)}, err
}

// waitToBind blocks a pod's binding goroutine until the bind queue decides. arrive puts the pod
// into the queue and returns false if the queue does not take it. waitToBind returns the reason
// not to bind the pod, or "" if the pod is to be bound. It returns an error if ctx ends first.
func (b *binder) waitToBind(ctx context.Context, uid types.UID, arrive func(bindqueue.Pod, time.Time) bool) (why string, err error) {
	verdict := b.bindQueue.addWaiter(uid, b.now())
	defer b.bindQueue.removeWaiter(uid)
	// The assignment is read only after addWaiter, because whoever
	// revokes it from here on sends this goroutine a verdict.
	r, ok := b.groups.ReservedPod(uid)
	if !ok {
		return b.groups.WhyNotReserved(uid), nil
	}
	if !arrive(bindqueue.Pod{UID: uid, Group: r.Rank.Key, Rank: r.Rank, GroupIncomplete: r.GroupIncomplete}, b.now()) {
		return b.groups.WhyNotReserved(uid), nil
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

// bindCanceled returns the status of a pod whose bind was cancelled in the bind
// queue. The status is Unschedulable, and not an error. UnschedulablePlugins stays
// empty: the scheduling queue would look up the events that concern a plugin named
// there, and it has dropped those events after Permit, so it would log an error.
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

// runBindQueue releases pods to be bound, and activates
// the groups that may be placed, until ctx ends.
func (b *binder) runBindQueue(ctx context.Context) {
	for {
		// NextTime is called with the time from before serveBindQueue.
		// If a pause has ended since, serveBindQueue runs again at once.
		now := b.now()
		b.serveBindQueue(ctx)
		if !signal.Wait(ctx, b.bindQueue.wakeup, b.bindQueue.NextTime(now)) {
			return
		}
	}
}

// serveBindQueue releases every pod that may be bound
// now, and activates the groups that are admitted now.
func (b *binder) serveBindQueue(ctx context.Context) {
	for {
		now := b.now()
		p, ok := b.bindQueue.Next(now)
		if !ok {
			break
		}
		why, out := b.commitBind(p.UID, now)
		b.apply(ctx, out)
		// A pod that may not be bound has lost its assignment in commitBind.
		r, isReserved := b.groups.ReservedPod(p.UID)
		if isReserved {
			b.inventory.BindSent(r.Pod, r.Node)
		}
		since, waits := b.bindQueue.deliver(p.UID, why)
		if why != "" || !waits {
			b.bindQueue.Failed(p.UID, now)
			if isReserved {
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

// sweepBindQueue repairs what was missed. It stops counting pods that were expected in the
// bind queue and did not come, and activates again the admitted groups that were not placed.
func (b *binder) sweepBindQueue() {
	now := b.now()
	b.bindQueue.ExpireCounts(now, b.stateCollector.leads.Load())
	if idle := b.bindQueue.StaleAdmissions(now, reactivateAfter); len(idle) > 0 {
		b.activator.activateAdmitted(idle...)
	}
	signal.Send(b.bindQueue.wakeup)
}

// reactivateAfter is the time after which an admitted group is activated again if no attempt to
// place it was made. Its pod may have been missed, or waits behind many others in the queue.
const reactivateAfter = 2 * time.Second

// endAdmission ends the admission of a group that was placed or refused, or that
// does not want to be placed any more. The next group can be admitted then.
func (b *binder) endAdmission(key types.NamespacedName) {
	b.bindQueue.EndAdmission(key, b.now())
	signal.Send(b.bindQueue.wakeup)
}

const (
	// reportBindWaitAfter is how long a group's pods wait for their binds before the PodGroup reports it.
	// Groups are placed about a second before their binds, so that in a burst most pods wait so long.
	reportBindWaitAfter = 5 * time.Second
	// reportAdmissionAfter is how long a group waits for admission before
	// the PodGroup reports it. It is longer than reportBindWaitAfter because
	// many groups may wait for admission, and each report is a write.
	reportAdmissionAfter = 10 * time.Second
)

// apiThrottlingLasts is how long an answer of the API
// server that it was too busy is part of a group's message.
const apiThrottlingLasts = time.Minute

// reportBindWaits reports the groups that wait for binds or for admission.
func (tl *groupReporter) reportBindWaits(ctx context.Context) {
	f := tl.binder.bindQueue.Snapshot()
	if f.InFlight+f.Pods[bindqueue.Small]+f.Pods[bindqueue.Large]+f.Groups[bindqueue.Small]+f.Groups[bindqueue.Large] == 0 {
		// Leads gathers all metrics, so it is not called while there is nothing to report.
		return
	}
	if !tl.reporter.Leads() {
		// A standby places no group, and its bind queue does not show the binds of the leader.
		return
	}
	now := tl.now()
	throttlings := tl.binder.bindQueue.recentAPIThrottlings(now)
	for key, n := range tl.binder.bindQueue.LongWaitingPods(now, reportBindWaitAfter) {
		bound, present, fullyPlaced := tl.groups.MemberCounts(key)
		if fullyPlaced {
			continue // the message of a complete group counts its late pods
		}
		message := fmt.Sprintf("%d of %s bound; the binds of %s wait for the API server (%d binds in flight, limit %d", bound, reason.Plural(present, "pod"), reason.Plural(n, "more pod"), f.InFlight, f.Limit)
		if why := throttlings[key]; why != "" {
			message += "; its last refusal: " + why
		}
		tl.reportBinding(key, message+")")
		// The last pod may just have been bound: then the group is reported as placed again.
		tl.apply(ctx, tl.groups.ReportAgain(key))
	}
	for _, key := range tl.binder.bindQueue.LongWaitingGroups(now, reportAdmissionAfter) {
		if !tl.groups.MayPlace(key, now) {
			tl.binder.endAdmission(key) // its pods are gone
			continue
		}
		if _, _, fullyPlaced := tl.groups.MemberCounts(key); fullyPlaced || !tl.binder.bindQueue.IsWaiting(key) {
			continue
		}
		// Without numbers: there may be many such groups, and each number is a write.
		tl.reportBinding(key, whyNotAdmitted)
		tl.apply(ctx, tl.groups.ReportAgain(key))
	}
}

// whyNotAdmitted is the message for a group that waits for admission.
const whyNotAdmitted = "waits to be admitted: pods of earlier groups have nodes and are bound first"

func (tl *groupReporter) reportBinding(key types.NamespacedName, message string) {
	if tl.podGroups.Get(key) == nil {
		return
	}
	tl.reporter.Report(key, report.NotScheduled(reason.Binding, message), nil)
	tl.forgetIfGone(key)
}

// commitBind checks once more the assignments that have to be good for a pod's
// bind. It returns the reason not to bind the pod, or "" if the bind may be sent.
func (b *binder) commitBind(uid types.UID, now time.Time) (why string, out gang.Output) {
	for {
		d := b.groups.PrepareBind(uid)
		// CommitBind fails if the group's state has changed since PrepareBind. It
		// may have started, because the API shows one of its pods on a node. Or
		// it is no longer started, because its only bind was answered with 429.
		if why, out, ok := b.groups.CommitBind(d, b.whyUnusable(d.Assignments), now); ok {
			return why, out
		}
	}
}

// whyUnusable returns why one of the assignments cannot be used
// any more. It returns "" if all can be used. It makes no request.
func (b *binder) whyUnusable(assignments []gang.Assignment) string {
	on := map[string][]*corev1.Pod{}
	for _, s := range assignments {
		on[s.Node] = append(on[s.Node], s.Pod)
	}
	for _, s := range assignments {
		pods := on[s.Node]
		if pods == nil {
			continue // checked already
		}
		delete(on, s.Node)
		node, err := b.nodes.Get(s.Node)
		if err != nil {
			return fmt.Sprintf("node %s, which was matched for pod %s, is gone", s.Node, s.Pod.Name)
		}
		for _, pod := range pods {
			if why := b.bindChecks.whyRejected(b.log, node, pod); why != "" {
				return why
			}
		}
		if why := b.whyFull(s.Node, pods); why != "" {
			return why
		}
	}
	return ""
}

// whyFull returns which room a node now lacks for the pods that were matched
// to it. It returns "" if the pods fit, or if the profile does not check room.
func (b *binder) whyFull(node string, pods []*corev1.Pod) string {
	if !b.bindChecks.room {
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

// expect announces pods to the bind queue that were matched together and will come.
func (b *binder) expect(slots []match.Slot) {
	uids := make([]types.UID, len(slots))
	for i, s := range slots {
		uids[i] = types.UID(s.Key)
	}
	b.bindQueue.Expect(uids, b.now())
}

// removeFromBindQueue removes pods from the bind queue: they have lost their
// assignments, are gone, or are on their nodes. The keys are the UIDs.
func (b *binder) removeFromBindQueue(keys ...string) {
	uids := make([]types.UID, len(keys))
	for i, k := range keys {
		uids[i] = types.UID(k)
	}
	b.bindQueue.Forget(b.now(), uids...)
	b.bindQueue.updateIdle()
	signal.Send(b.bindQueue.wakeup)
}

// keysOf returns the keys of slots: the UIDs of their pods.
func keysOf(slots []match.Slot) []string {
	keys := make([]string, len(slots))
	for i, s := range slots {
		keys[i] = s.Key
	}
	return keys
}
