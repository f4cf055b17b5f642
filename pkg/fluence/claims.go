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
	pods map[types.UID]*corev1.Pod
}

// update records the present state of a pod. It reports whether the pod is one that began to end.
func (e *endingPods) update(pod *corev1.Pod) (began bool) {
	if pod.DeletionTimestamp == nil || !translate.Holds(pod) || translate.OnEveryNode(pod) {
		e.remove(pod.UID)
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods == nil {
		e.pods = map[types.UID]*corev1.Pod{}
	}
	began = e.pods[pod.UID] == nil
	e.pods[pod.UID] = pod
	return began
}

// remove forgets a pod.
func (e *endingPods) remove(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pods, uid)
}

// list returns the pods that are due to be gone soon, by UID, and when the last of them is.
func (e *endingPods) list(now time.Time) (pods []*corev1.Pod, last time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(e.pods)) {
		pod := e.pods[uid]
		due := pod.DeletionTimestamp.Time
		if now.Sub(due) > maxOverdue || due.Sub(now) > maxEndingGrace {
			continue
		}
		pods = append(pods, pod)
		if due.After(last) {
			last = due
		}
	}
	return pods, last
}

// claims are the room of groups that will fit when pods that are being deleted have gone. To the groups that
// go after such a group the room is taken, until the group starts or does not fit there any more. The zero
// value is ready for use. A restart of the scheduler forgets claims: groups claim anew when they are refused.
type claims struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*claim
}

// claim is the room of one group.
type claim struct {
	rank  gang.Rank
	slots []match.Slot
	// until is when a pod whose room is claimed counts as ending no longer.
	until time.Time
}

// set replaces the claim of a group.
func (c *claims) set(key types.NamespacedName, of *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups = map[types.NamespacedName]*claim{}
	}
	c.groups[key] = of
}

// drop ends the claim of a group. It reports whether there was one, so that others may take its room.
func (c *claims) drop(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, had := c.groups[key]
	delete(c.groups, key)
	return had
}

// keys returns the groups with claims for which end is true.
func (c *claims) keys(end func(types.NamespacedName, time.Time) bool) (keys []types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, of := range c.groups {
		if end(key, of.until) {
			keys = append(keys, key)
		}
	}
	return keys
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

// claim sets or drops the claim of a group that was just refused, and tells of it in the refusal.
func (a *groupPlacer) claim(ctx context.Context, plan gang.Plan, found placement.Result, refused *gang.Refusal) {
	if plan.Late {
		return
	}
	if refused.WaitsFor == gang.WaitsForRoom {
		if slots, until := a.findClaim(ctx, plan, found); len(slots) > 0 {
			a.claims.set(plan.Key, &claim{rank: plan.Rank, slots: slots, until: until})
			// What refuses another group that is alike may not refuse this one.
			refused.Equivalence = ""
			refused.Message = translate.Shorten(refused.Message + "; it fits when pods that are ending have gone, and room is kept for it")
			return
		}
	}
	if a.claims.drop(plan.Key) {
		a.observeEvent(gang.Released)
	}
}

// findClaim returns the room that a group would get if the pods that are ending had gone, and until when it may
// wait for that. It returns none if no pod is ending on the nodes of that room.
func (a *groupPlacer) findClaim(ctx context.Context, plan gang.Plan, found placement.Result) ([]match.Slot, time.Time) {
	now := a.now()
	pods, last := a.ending.list(now)
	// Their room is for the pods that are made in their place.
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return a.restarts.keepsRoomOf(p.UID) })
	if len(pods) == 0 {
		return nil, time.Time{}
	}
	nodes, ending := sets.New[string](), make([]match.SlotRef, 0, len(pods))
	for i, job := range a.placer.JobsOf(pods) {
		nodes.Insert(pods[i].Spec.NodeName)
		ending = append(ending, match.SlotRef{Job: job, Keys: []string{string(pods[i].UID)}})
	}
	slots := a.placer.FindAfterEnd(ctx, found, ending)
	if !slices.ContainsFunc(slots, func(s match.Slot) bool { return nodes.Has(s.Node) }) {
		return nil, time.Time{}
	}
	return slots, last.Add(maxOverdue)
}

// endClaims drops the claims and the handovers of groups that do not wait for room any more, the claims for
// which pods have not gone in time, and the handovers whose groups have not asked again.
func (w *watcher) endClaims(now time.Time) {
	ended := w.claims.keys(func(key types.NamespacedName, until time.Time) bool {
		return now.After(until) || !w.groups.WaitsForRoom(key)
	})
	freed := w.freed.end(func(h *handoverOf) bool {
		return now.Sub(h.until) > maxAnswerTime || !w.groups.WaitsForRoom(h.key)
	})
	for _, key := range ended {
		freed = w.claims.drop(key) || freed
	}
	if freed {
		w.observeEvent(gang.Released)
	}
}
