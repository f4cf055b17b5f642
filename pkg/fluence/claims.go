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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

const (
	// maxEndingGrace is the longest time until a pod is due to be gone for which its room can be claimed.
	// Otherwise pods with a grace of hours would keep the other nodes of a claim idle.
	maxEndingGrace = 5 * time.Minute
	// maxOverdue is the longest time after which a pod that was due to be gone still counts as ending.
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
	due := p.DeletionTimestamp.Time
	return now.Sub(due) <= maxOverdue && due.Sub(now) <= maxEndingGrace
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

// gone records that a pod has gone.
func (e *endingPods) gone(uid types.UID, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.pods[uid]; p != nil && p.goneAt.IsZero() {
		p.goneAt = now
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

// claims are the room of groups that will fit when pods that are being deleted have gone. To the groups that
// go after such a group the room is taken. The claim ends when the group starts, when it does not fit there any more, or
// when a pod has not gone in time. The zero value is ready for use. A restart of the scheduler forgets
// claims: groups claim anew when they are refused.
type claims struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*claim
	// turns are the turns whose groups have claims, or have had one lately.
	turns map[gang.Turn]*claimTurn
}

// claim is the room of one group.
type claim struct {
	rank  gang.Rank
	slots []match.Slot
	// since is when the group began to claim. until is when a pod whose room is claimed counts as ending no longer.
	since, until time.Time
}

// A claimTurn bounds the claims of one namespace and priority. Otherwise a namespace could keep free nodes idle for ever: it
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
func (c *claims) set(key types.NamespacedName, of *claim, now time.Time) (ok, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups, c.turns = map[types.NamespacedName]*claim{}, map[gang.Turn]*claimTurn{}
	}
	maps.DeleteFunc(c.turns, func(_ gang.Turn, t *claimTurn) bool { return now.Sub(t.last) > claimsPause })
	was, t := c.groups[key], c.turns[gang.TurnOf(key, of.rank)]
	if t == nil {
		t = &claimTurn{began: now}
		c.turns[gang.TurnOf(key, of.rank)] = t
	}
	if now.Sub(t.began) > maxClaims {
		delete(c.groups, key)
		return false, was != nil
	}
	t.last, of.since = now, now
	c.groups[key] = of
	if was == nil {
		return true, false
	}
	of.since = was.since
	nodes := sets.New(nodesOf(of.slots)...)
	return true, slices.ContainsFunc(was.slots, func(s match.Slot) bool { return !nodes.Has(s.Node) })
}

// drop ends the claim of a group. It reports whether there was one, so that others may take its room.
func (c *claims) drop(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, had := c.groups[key]
	delete(c.groups, key)
	return had
}

// use ends the claim of a group that starts.
func (c *claims) use(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, had := c.groups[key]
	if had {
		delete(c.turns, gang.TurnOf(key, of.rank))
		delete(c.groups, key)
	}
	return had
}

// over returns the groups whose claims are to end. waits reports whether a group waits for room.
func (c *claims) over(now time.Time, waits func(types.NamespacedName) bool) (keys []types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, of := range c.groups {
		// The refusal of a group is recorded a moment after its first claim.
		if now.After(of.until) || now.Sub(of.since) > tick && !waits(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// nodesOf returns the nodes that a group claims room on.
func (c *claims) nodesOf(key types.NamespacedName) sets.Set[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.groups[key]; of != nil {
		return sets.New(nodesOf(of.slots)...)
	}
	return nil
}

// slots returns what a match for a group has to leave: the claims of the groups before it.
func (c *claims) slots(of types.NamespacedName, rank gang.Rank) (all []match.Slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.before(of, rank) {
		all = append(all, c.groups[key].slots...)
	}
	return all
}

// before returns the groups with claims that go before a group, the first one first. The caller holds the lock.
func (c *claims) before(of types.NamespacedName, rank gang.Rank) (keys []types.NamespacedName) {
	for key, claimed := range c.groups {
		if key != of && claimed.rank.Less(rank) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(c.groups[a].rank.Compare(c.groups[b].rank), cmp.Compare(a.String(), b.String()))
	})
	return keys
}

// describe says for which groups a match for a group had to leave room. It returns nothing if there is none.
// name returns the words for a group. A report leaves this text out when it compares messages.
func (c *claims) describe(of types.NamespacedName, rank gang.Rank, name func(types.NamespacedName, int32) string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.before(of, rank)
	if len(keys) == 0 {
		return ""
	}
	text := fmt.Sprintf("; room is kept for %s, which starts when pods that are ending have gone", name(keys[0], c.groups[keys[0]].rank.Priority))
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
	case plan.Late:
	case refused.WaitsFor == gang.WaitsForRoom:
		of, known := a.findClaim(ctx, rankForRoom(plan), found)
		if of == nil {
			freed = known && a.claims.drop(plan.Key) || freed
			break
		}
		ok, changed := a.claims.set(plan.Key, of, now)
		freed = changed || freed
		if ok {
			refused.Message = translate.Shorten(refused.Message + "; it fits when pods that are ending have gone, and room is kept for it")
		}
	case refused.WaitsFor == gang.WaitsForOther && !refused.Backoff, refused.WaitsFor == gang.WaitsForNodes:
		freed = a.claims.drop(plan.Key) || freed
	}
	if freed {
		a.observeEvent(gang.Released)
	}
}

// findClaim returns the room that a group would get if the pods that are ending had gone. It returns none if no pod is
// ending on the nodes of that room. known is false if that is not known.
func (a *groupPlacer) findClaim(ctx context.Context, rank gang.Rank, found placement.Result) (of *claim, known bool) {
	now := a.now()
	// Room that is kept for pods that are made again is for these.
	pods := a.ending.list(now, a.restarts.leaving())
	if len(pods) == 0 {
		return nil, true
	}
	due, ending := map[string]time.Time{}, make([]match.SlotRef, 0, len(pods))
	for i, job := range a.placer.JobsOf(pods) {
		node := pods[i].Spec.NodeName
		due[node] = later(due[node], pods[i].DeletionTimestamp.Time)
		ending = append(ending, match.SlotRef{Job: job, Keys: []string{string(pods[i].UID)}})
	}
	slots, known := a.placer.FindAfterEnd(ctx, found, ending)
	var last time.Time
	for _, s := range slots {
		last = later(last, due[s.Node])
	}
	if last.IsZero() {
		return nil, known
	}
	return &claim{rank: rank, slots: slots, until: last.Add(maxOverdue)}, true
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
	for _, key := range w.claims.over(now, w.groups.WaitsForRoom) {
		freed = w.claims.drop(key) || freed
	}
	if freed {
		w.observeEvent(gang.Released)
	}
}
