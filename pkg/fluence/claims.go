package fluence

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

const (
	// maxEndingGrace is the longest time until a pod is due to be gone for which its room can be claimed.
	// Otherwise pods with a grace of hours, which a user can delete at will, would keep the other nodes of a claim
	// idle. It does not hold for pods that are evicted: they would be evicted for nothing.
	maxEndingGrace = 5 * time.Minute
	// maxOverdue is the longest time after which a pod that was due to be gone still counts as ending. It holds for
	// all pods: nobody knows when a pod goes whose node is silent.
	maxOverdue = 30 * time.Second
)

// endingPods are the pods on nodes that are being deleted. The zero value is ready for use.
type endingPods struct {
	mu   sync.Mutex
	pods map[types.UID]*endingPod
}

// An endingPod is a pod of endingPods.
type endingPod struct {
	*corev1.Pod
	// goneAt is when the pod was seen to be gone. It is kept for goneAfter more, until the matcher has released
	// its room: until then the room is neither held by a pod nor free.
	goneAt time.Time
	// counted is true once the pod was due soon enough to count.
	counted bool
}

// goneAfter is for how long a pod counts that has gone.
const goneAfter = 3 * time.Second

// counts reports whether room of the pod can be claimed.
func (p *endingPod) counts(now time.Time) bool {
	return !isOverdue(p.Pod, now) && p.DeletionTimestamp.Sub(now) <= maxEndingGrace
}

// update records the present state of a pod. It reports whether the pod begins to count.
func (e *endingPods) update(pod *corev1.Pod, now time.Time) (begins bool) {
	if pod.DeletionTimestamp == nil || translate.OnEveryNode(pod) || pod.Spec.NodeName == "" {
		return false
	}
	if !translate.Holds(pod) {
		e.gone(pod.UID, now)
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods == nil {
		e.pods = map[types.UID]*endingPod{}
	}
	was, p := e.pods[pod.UID], &endingPod{Pod: pod}
	e.pods[pod.UID] = p
	p.counted = p.counts(now)
	return p.counted && (was == nil || !was.counted)
}

// gone records that a pod has gone. One that was overdue counts again, until the matcher has released its room.
func (e *endingPods) gone(uid types.UID, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.pods[uid]; p != nil && p.goneAt.IsZero() {
		if p.goneAt = now; isOverdue(p.Pod, now) {
			p.Pod = dueAt(p.Pod, now)
		}
	}
}

// tick forgets the pods that have gone long enough ago. It reports whether a pod begins to count.
func (e *endingPods) tick(now time.Time) (begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, p := range e.pods {
		if !p.goneAt.IsZero() && now.Sub(p.goneAt) > goneAfter {
			delete(e.pods, uid)
		} else if !p.counted && p.counts(now) {
			p.counted, begins = true, true
		}
	}
	return begins
}

// find returns a pod that is being deleted, or that has gone less than goneAfter ago. It returns nil if there is none.
func (e *endingPods) find(uid types.UID) *corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.pods[uid]; p != nil {
		return p.Pod
	}
	return nil
}

// goneAtOnce records that a pod has gone that was not seen to be ending before.
func (e *endingPods) goneAtOnce(pod *corev1.Pod, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods[pod.UID] != nil {
		return
	}
	if e.pods == nil {
		e.pods = map[types.UID]*endingPod{}
	}
	e.pods[pod.UID] = &endingPod{Pod: dueAt(pod, now), goneAt: now, counted: true}
}

// dueAt returns a copy of a pod that is due to be gone at a time.
func dueAt(pod *corev1.Pod, at time.Time) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: at}
	return pod
}

// isOverdue reports whether a pod does not count as ending any more, because it should have gone.
func isOverdue(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && now.Sub(pod.DeletionTimestamp.Time) > maxOverdue
}

// countOverdue returns how many pods below a priority should have gone, and hold room still.
func (e *endingPods) countOverdue(below int32, now time.Time) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pods {
		if isOverdue(p.Pod, now) && corev1helpers.PodPriority(p.Pod) < below {
			n++
		}
	}
	return n
}

// list returns the pods that count, by UID, except some.
func (e *endingPods) list(now time.Time, except sets.Set[types.UID]) (pods []*corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(e.pods)) {
		if p := e.pods[uid]; p.counts(now) && !except.Has(uid) {
			pods = append(pods, p.Pod)
		}
	}
	return pods
}

// claims are the room of groups that will fit when pods that are ending have gone. To the groups that
// go after such a group the room is taken. The claim ends when the group starts, when it does not fit there any more, or
// when a pod has not gone in time. The zero value is ready for use. A restart of the scheduler forgets
// claims: groups claim anew when they are refused.
//
// Room of pods that are evicted is claimed from all of the same or a lower priority, whoever goes first, and
// for as long as they need to end. It would be taken again and again otherwise, and more would be evicted.
type claims struct {
	mu     sync.Mutex
	groups map[claimant]*claim
	// turns are the turns whose groups have claims, or have had one lately.
	turns map[gang.Turn]*claimTurn
}

// A claimant is who claims room: a group that has not started or, with a pod, a member that a started group lacks.
type claimant struct {
	types.NamespacedName
	pod types.UID
}

// claimantOf returns who claims room for the pods of a plan.
func claimantOf(plan gang.Plan) claimant {
	if plan.Late {
		return claimant{plan.Key, plan.Pod()}
	}
	return claimant{NamespacedName: plan.Key}
}

// claim is the room of one group.
type claim struct {
	rank  gang.Rank
	slots []match.Slot
	// since is when the group began to claim. until is when a pod whose room is claimed counts as ending no longer.
	// It is zero if that is not known, because the deletion of a pod that is evicted has not begun.
	since, until time.Time
	// evicted is true if pods there are evicted. own is true if some of them are evicted for the claimant.
	evicted, own bool
	// preemptor is for whom others would be evicted.
	preemptor types.UID
	// nominated are the pods for which the scheduler's nominator knows the room, by UID.
	nominated map[types.UID]nominatedPod
}

// A claimTurn bounds the claims of one namespace and priority, except those of room of pods that are evicted. Otherwise a namespace could keep free nodes idle for ever: it
// would delete a small pod again and again where a large group of it needs many more nodes.
type claimTurn struct {
	// began is when the first claim in a row began, and last when the last one was set.
	began, last time.Time
}

const (
	// maxClaims is for how long the groups of a turn may have claims without that one of them starts by it.
	maxClaims = maxEndingGrace + maxOverdue
	// claimsPause is for how long they have none after that.
	claimsPause = 2 * maxClaims
)

// set sets the claim of a group, unless its turn has a pause. changed reports whether others may take
// room that was claimed before.
func (c *claims) set(key claimant, of *claim, now time.Time) (ok, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups, c.turns = map[claimant]*claim{}, map[gang.Turn]*claimTurn{}
	}
	maps.DeleteFunc(c.turns, func(_ gang.Turn, t *claimTurn) bool { return now.Sub(t.last) > claimsPause })
	was := c.groups[key]
	if !of.evicted && !c.mayClaim(key, of, now) {
		delete(c.groups, key)
		return false, was != nil
	}
	of.since = now
	c.groups[key] = of
	if was == nil {
		return true, false
	}
	of.since = was.since
	nodes := sets.New(nodesOf(of.slots)...)
	return true, slices.ContainsFunc(was.slots, func(s match.Slot) bool { return !nodes.Has(s.Node) })
}

// mayClaim reports whether the turn of a group has no pause, and records the claim. The caller holds the lock.
func (c *claims) mayClaim(key claimant, of *claim, now time.Time) bool {
	turn := gang.TurnOf(key.NamespacedName, of.rank)
	t := c.turns[turn]
	if t == nil {
		t = &claimTurn{began: now}
		c.turns[turn] = t
	}
	if now.Sub(t.began) > maxClaims {
		return false
	}
	t.last = now
	return true
}

// get returns the claim of a group. It returns nil if there is none.
func (c *claims) get(key claimant) *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.groups[key]
}

// drop ends the claim of a group, and returns it. It returns nil if there is none.
func (c *claims) drop(key claimant) *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.groups[key]
	delete(c.groups, key)
	return of
}

// use ends the claim of a group that starts, and returns it.
func (c *claims) use(key claimant) *claim {
	of := c.drop(key)
	if of != nil {
		c.mu.Lock()
		delete(c.turns, gang.TurnOf(key.NamespacedName, of.rank))
		c.mu.Unlock()
	}
	return of
}

// over returns the groups whose claims are to end. waits reports whether a group waits for room.
func (c *claims) over(now time.Time, waits func(claimant) bool) (keys []claimant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, of := range c.groups {
		// The refusal of a group is recorded a moment after its first claim.
		if !of.until.IsZero() && now.After(of.until) || now.Sub(of.since) > tick && !waits(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// nodesOf returns the nodes that a group claims room on.
func (c *claims) nodesOf(key claimant) sets.Set[string] {
	if of := c.get(key); of != nil {
		return sets.New(nodesOf(of.slots)...)
	}
	return nil
}

// slots returns what a match for a group has to leave: the claims of the groups before it. first means that the
// group's pods replace members that it lacks.
func (c *claims) slots(of claimant, rank gang.Rank, first bool) (all []match.Slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.before(of, rank, first) {
		all = append(all, c.groups[key].slots...)
	}
	return all
}

// before returns the groups with claims that go before a group, the first one first. Replacements go before
// all groups, but they do not take room for which others were evicted. The caller holds the lock.
func (c *claims) before(of claimant, rank gang.Rank, first bool) (keys []claimant) {
	for key, claimed := range c.groups {
		if key != of && (!first && claimed.rank.Less(rank) || claimed.evicted && claimed.rank.Priority >= rank.Priority) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b claimant) int {
		return cmp.Or(c.groups[a].rank.Compare(c.groups[b].rank), cmp.Compare(a.String(), b.String()), cmp.Compare(a.pod, b.pod))
	})
	return keys
}

// describe says for which groups a match for a group had to leave room. It returns nothing if there is none.
// name returns the words for a group. A report leaves this text out when it compares messages.
func (c *claims) describe(of claimant, rank gang.Rank, first bool, name func(types.NamespacedName, int32) string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.before(of, rank, first)
	if len(keys) == 0 {
		return ""
	}
	text := fmt.Sprintf("; room is kept for %s, which starts when pods that are ending have gone", name(keys[0].NamespacedName, c.groups[keys[0]].rank.Priority))
	if more := len(keys) - 1; more > 0 {
		text += fmt.Sprintf(", and for %s", reason.Plural(more, "other group"))
	}
	return text
}

// updateClaim sets or drops the claim of a group that was just refused, and tells of it in the refusal. It ends the offer of
// room to the group, if that has lasted long enough.
func (a *groupPlacer) updateClaim(ctx context.Context, plan gang.Plan, found placement.Result, refused *gang.Refusal) {
	now := a.now()
	freed := a.freed.end(func(o *offer) bool { return o.key == plan.Key && !now.Before(o.until) })
	switch {
	case plan.Late && !goesFirst(plan):
	case refused.Reason == reason.MatcherUnavailable:
		// Nothing new is known: the group goes on to claim its room, and to wait for its victims.
	case refused.WaitsFor == gang.WaitsForRoom, a.mayLackVictims(refused):
		freed = a.makeRoom(ctx, plan, found, refused) || freed
	case refused.WaitsFor == gang.WaitsForOther && !refused.Backoff, refused.WaitsFor == gang.WaitsForNodes:
		freed = a.dropClaim(claimantOf(plan)) || freed
		a.abandonPlan(a.preemptorOf(plan).UID)
	}
	if freed {
		roomFreed(a.base, gang.Released)
	}
}

// findClaim returns the room that a group would get if the pods that are ending had gone. It returns none if no pod is
// ending on the nodes of that room. known is false if that is not known.
func (a *groupPlacer) findClaim(ctx context.Context, rank gang.Rank, found placement.Result, ending []endingVictim, of types.UID) (_ *claim, known bool) {
	if len(ending) == 0 {
		return nil, true
	}
	slots, known := a.placer.FindAfterEnd(ctx, found, a.refsOf(ending))
	return claimOn(slots, rank, ending, of), known
}

// claimOn returns the claim of slots, by a group. It returns nil if no pod is ending on their nodes.
func claimOn(slots []match.Slot, rank gang.Rank, ending []endingVictim, of types.UID) *claim {
	nodes := sets.New(nodesOf(slots)...)
	made, any, begun := &claim{rank: rank, slots: slots}, false, true
	var last time.Time
	for _, e := range ending {
		if !nodes.Has(e.pod.Spec.NodeName) {
			continue
		}
		any = true
		made.evicted = made.evicted || e.of != ""
		made.own = made.own || e.of == of && of != ""
		if e.pod.DeletionTimestamp == nil {
			begun = false
		} else {
			last = later(last, e.pod.DeletionTimestamp.Time)
		}
	}
	if !any {
		return nil
	}
	if begun {
		made.until = last.Add(maxOverdue)
	}
	return made
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// endClaims drops the claims of groups that do not wait for room any more, and those for which pods have not
// gone in time. It lets groups ask for the room of pods that are due soon by now.
func (w *watcher) endClaims(now time.Time) {
	freed := w.ending.tick(now)
	for _, key := range w.claims.over(now, w.waitsForRoom) {
		if c := w.claims.get(key); c != nil && !w.waitsForRoom(key) {
			w.abandonPlan(c.preemptor)
		}
		freed = w.dropClaim(key) || freed
	}
	if keys := w.yields.over(now, w.evictor.IsMarked); len(keys) > 0 {
		w.activator.activateGroups(keys...)
	}
	due, gone := w.preemptions.due(now, w.exists)
	w.endPlans(gone, eviction.Abandoned)
	for _, key := range due {
		w.groups.RetryNow(key)
		w.activator.activateGroups(key)
	}
	if freed {
		roomFreed(w.base, gang.Released)
	}
}

// exists reports whether a claimant exists.
func (b *base) exists(c claimant) bool {
	if c.pod == "" {
		return b.groups.Knows(c.NamespacedName)
	}
	_, ok := b.groups.KeyOf(c.pod)
	return ok
}

// waitsForRoom reports whether a claimant waits for room.
func (b *base) waitsForRoom(c claimant) bool {
	if c.pod == "" {
		return b.groups.WaitsForRoom(c.NamespacedName)
	}
	m, ok := b.groups.GroupOf(c.pod)
	return ok && m.Started && m.Missing > 0 && !b.groups.HasAssignment(c.pod)
}
