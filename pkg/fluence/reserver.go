package fluence

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// reserver reserves nodes for the groups that have waited for room longest.
type reserver struct {
	*base
	groupReporter *groupReporter
	reservations  reservations
}

// updateReservations updates the reservations. It ends the reservation of each group
// that has started, is gone or no longer waits for room, and pauses each reservation
// without progress. It gives turns to the groups that have waited longest. If nodes
// are no longer reserved, the groups that could not use them retry.
func (ts *reserver) updateReservations() {
	now, maxReserve := ts.now(), ts.args.MaxReserve.Duration
	starving := ts.groups.Starving(now, ts.args.MaxBypass.Duration)
	freed := ts.reservations.endExcept(starving, &ts.occupants, ts.groups.NodesOf, maxReserve, now)
	taken := sets.New[string]()
	for _, h := range starving {
		t := gang.TurnOf(h.Key, h.Rank)
		anew, others := ts.reservations.giveTurn(t, h.Key, &ts.occupants, ts.groups.NodesOf, now)
		paused, again := ts.reservations.advance(t, &ts.occupants, maxReserve, now)
		if paused {
			until, _ := ts.reservations.pause(t)
			ts.log.V(2).Info("Group reserves no nodes for a while", "group", h.Key, "for", until.Sub(now))
		}
		nodes := ts.reservations.nodes(t, h.Key)
		overlaps := taken.HasAny(nodes...)
		if overlaps {
			// A group before this one now needs some of the same nodes.
			others = ts.reservations.dropNodes(t, h.Key) || others
		}
		taken.Insert(nodes...)
		freed = freed || others || paused
		if anew || again || paused || overlaps || ts.reservations.pollActivation(t, ts.freeFor(t), now) {
			// Nodes are reserved for a group in its own scheduling
			// cycle, which also reports them: so activate the group.
			ts.groups.RetryNow(h.Key)
			ts.activator.activateGroups(h.Key)
		}
	}
	for _, key := range ts.groups.YieldersDue(now) {
		ts.groups.RetryNow(key)
		ts.activator.activateGroups(key)
	}
	if freed {
		roomFreed(ts.base, gang.ReservationEnded)
	}
}

// rankForRoom returns the place of a plan's group among the groups that wait for room. It counts from when the group
// could be placed, so that nobody gains by PodGroups that are kept for later.
func rankForRoom(plan gang.Plan) gang.Rank {
	r := plan.Rank
	r.Urgent = false
	if plan.EligibleSince.After(r.Since) {
		r.Since = plan.EligibleSince
	}
	return r
}

// reservedFor returns the nodes that a plan must leave
// free, because they are reserved for groups before it.
//
// Invariant: a group waits only for groups before it in
// one order, so that no two groups wait for each other.
//
// A pod that replaces a lost member is an exception, because
// the running members may need it before they can end:
//
//   - If the lost member's node is lost too, or if
//     reservations never pause, the pod may use any node.
//   - Otherwise it may use the lost member's node, even if that node is reserved. If other
//     pods have taken the room there, it waits until the reservations of other nodes pause.
//   - It may use a node on which room is kept for its group, and so may the other pods of a group that restarts,
//     if they request what those before them did.
//   - It may not use any other reserved node. Otherwise a user could move one member after the
//     other to reserved nodes, and start the next group in the room that each of them leaves.
func (ts *reserver) reservedFor(plan gang.Plan) (room placement.Reservations) {
	if len(plan.LostMembers) > 0 && (ts.args.MaxReserve.Duration == 0 || ts.isNodeLost(plan.LostMembers[0], plan.Required[0])) {
		return room
	}
	now, own := ts.now(), rankForRoom(plan)
	all := ts.reservations.listReserved()
	keys := make([]types.NamespacedName, 0, len(all))
	for _, held := range all {
		keys = append(keys, held.key)
	}
	kept := ts.restarts.nodesFor(&plan)
	for _, h := range ts.groups.StarvingAmong(keys, now, ts.args.MaxBypass.Duration) {
		t := gang.TurnOf(h.Key, h.Rank)
		held, ok := all[t]
		if !ok || held.key != h.Key || h.Key == plan.Key || !h.Rank.Less(own) {
			continue
		}
		nodes := slices.DeleteFunc(slices.Clone(held.nodes), func(node string) bool {
			return slices.Contains(kept, node) || slices.ContainsFunc(plan.LostMembers, func(l gang.LostMember) bool { return l.Node == node })
		})
		if len(nodes) == 0 {
			continue
		}
		room.Turns = append(room.Turns, t)
		room.Nodes = append(room.Nodes, nodes...)
		room.Messages = append(room.Messages, describeReserved(len(nodes), ts.describeGroup(h.Key, h.Rank.Priority, plan.Key.Namespace), now.Sub(h.Since)))
	}
	slices.Sort(room.Nodes)
	room.Nodes = slices.Compact(room.Nodes)
	return room
}

// reservedBefore returns the nodes that are reserved for groups before a rank.
func (ts *reserver) reservedBefore(rank gang.Rank, now time.Time) (nodes []string) {
	all := ts.reservations.listReserved()
	keys := make([]types.NamespacedName, 0, len(all))
	for _, held := range all {
		keys = append(keys, held.key)
	}
	for _, h := range ts.groups.StarvingAmong(keys, now, ts.args.MaxBypass.Duration) {
		if held, ok := all[gang.TurnOf(h.Key, h.Rank)]; ok && held.key == h.Key && h.Rank.Less(rank) {
			nodes = append(nodes, held.nodes...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// isNodeLost reports whether a pod cannot use the node of the lost member that it
// replaces, whatever room there is. The node is unknown, deleted or not ready, it
// rejects both the old and the new pod, or a device has failed. A node that
// rejects only the new pod is not lost, because the pod's author chose that.
func (ts *reserver) isNodeLost(left gang.LostMember, pod *corev1.Pod) bool {
	node, err := ts.nodes.Get(left.Node)
	if err != nil || !nodeutil.IsNodeReady(node) || hasFailedDevice(node, pod) {
		return true
	}
	return ts.bindChecks.whyRejected(ts.log, node, pod) != "" && ts.bindChecks.whyRejected(ts.log, node, left.Pod) != ""
}

// hasFailedDevice reports whether a device that a pod requests has failed on a node. The node then
// has less of the extended resource allocatable than its capacity, or less than the request.
func hasFailedDevice(node *corev1.Node, pod *corev1.Pod) bool {
	for r, asks := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		may, there := node.Status.Allocatable[r]
		if asks.IsZero() || !there || !v1helper.IsExtendedResourceName(r) {
			continue
		}
		if has := node.Status.Capacity[r]; may.Cmp(has) < 0 || may.Cmp(asks) < 0 {
			return true
		}
	}
	return false
}

// keepPodsWithSameReservedNodes removes pods from a plan of replacements. The pods that are left may use
// the same reserved nodes as the first pod. A later attempt places the other pods.
func (ts *reserver) keepPodsWithSameReservedNodes(plan gang.Plan) gang.Plan {
	if len(plan.LostMembers) < 2 || ts.args.MaxReserve.Duration == 0 || len(ts.reservations.listReserved()) == 0 {
		return plan
	}
	left, lost := plan.LostMembers, ts.isNodeLost(plan.LostMembers[0], plan.Required[0])
	pods := plan.Optional
	plan.Optional, plan.LostMembers = nil, left[:1:1]
	for i, pod := range pods {
		its := left[i+1]
		if ts.isNodeLost(its, pod) == lost && (lost || its.Node == left[0].Node) {
			plan.Optional, plan.LostMembers = append(plan.Optional, pod), append(plan.LostMembers, its)
		}
	}
	return plan
}

// describeReserved returns the message that nodes are reserved for another group.
func describeReserved(nodes int, group string, waited time.Duration) string {
	return fmt.Sprintf("%s reserved for %s, which has waited %s", placement.NodesAre(nodes), group, duration.HumanDuration(waited))
}

// reserve reserves nodes for a group that was just refused for lack of room, if the
// group has waited longer than maxBypass. It adds the result to the refusal's message.
// It reserves as few nodes as the group needs if all pods there have ended, except the
// pods that do not end. It prefers nodes with few pods that still have to end, so that
// they are free soon. If there are no such nodes, and none is reserved for another
// group, the group yields its turn to the next group until something has changed.
func (ts *reserver) reserve(ctx context.Context, plan gang.Plan, found placement.Result, r *gang.Refusal) {
	key, now := plan.Key, ts.now()
	if plan.Late || r.WaitsFor != gang.WaitsForRoom || !ts.groups.IsFirstStarving(key, now, ts.args.MaxBypass.Duration) {
		return
	}
	addMessage := func(words string) { r.Message = translate.Shorten(r.Message + "; " + words) }
	if why := ts.groups.WhyYields(key, now); why != "" {
		addMessage(why)
		return
	}
	t := gang.TurnOf(key, plan.Rank)
	if until, paused := ts.reservations.pause(t); paused {
		why := "no pod ended on its reserved nodes for " + duration.HumanDuration(ts.args.MaxReserve.Duration)
		if ts.reservations.ownPause(t) {
			why = "only pods of its own namespace were left on its reserved nodes"
		}
		addMessage(fmt.Sprintf("no nodes are reserved for it for the next %s, because %s", duration.HumanDuration(until.Sub(now)), why))
		return
	}
	had := ts.reservations.nodes(t, key)
	search, due, known := ts.reservations.maySearch(t, key, now)
	explainPrevious := func(known bool) {
		switch {
		case len(had) > 0:
			addMessage(placement.NodesAre(len(had)) + " reserved for it")
		case !known:
			addMessage("the search for nodes to reserve for it ran out of time, and is continued")
		}
	}
	if !due {
		explainPrevious(known)
		return
	}
	l := ts.placer.FindReservable(ctx, found, had, search, ts.outlastedFor(t))
	yields := false
	defer func() {
		// A group that yields is not activated for another search. It searches when it retries.
		if !yields {
			ts.reservations.endSearch(t, key, l.Search, l.Known, now)
		}
	}()
	switch {
	case !l.Known:
		explainPrevious(false)
		return
	case len(l.Nodes) > 0:
		addMessage(placement.NodesAre(len(l.Nodes)) + " reserved for it")
		ts.groups.Yield(key, "", nil, now)
	default:
		why := "no nodes are reserved for it" + l.Why()
		addMessage(why)
		if yields = l.ReservedCount() == 0; yields {
			ts.groups.Yield(key, why, l.BlockedNodes(), now)
		}
		if ts.reservations.dropNodes(t, key) {
			roomFreed(ts.base, gang.ReservationEnded)
		}
		return
	}
	changed, freed := ts.reservations.reserveNodes(t, key, l.Nodes, &ts.occupants, ts.groups.NodesOf, now)
	if freed {
		roomFreed(ts.base, gang.ReservationEnded)
	}
	if changed && len(had) == 0 {
		ts.reportReserved(key, len(l.Nodes))
	}
	if changed {
		ts.log.V(2).Info("Group reserves nodes", "group", key, "nodes", len(l.Nodes), "candidates", l.CandidateCount())
	}
}

// drop ends the reservation of nodes for a group that is promised room. The group leaves its turn to the next one.
func (ts *reserver) drop(plan gang.Plan) {
	if now := ts.now(); ts.groups.WhyYields(plan.Key, now) == "" {
		ts.groups.Yield(plan.Key, "it is promised room", nil, now)
	}
	if ts.reservations.dropNodes(gang.TurnOf(plan.Key, plan.Rank), plan.Key) {
		roomFreed(ts.base, gang.ReservationEnded)
	}
}

// reportReserved reports that nodes are reserved for a group that had none. It is an event,
// because the reason for which the group waits, and so its condition, does not change.
func (ts *reserver) reportReserved(key types.NamespacedName, nodes int) {
	ts.groupReporter.reporter.RecordEvent(key, reason.NodesReserved, placement.NodesAre(nodes)+" reserved for the group")
}

// takeFreePass reports whether a group may be placed although its
// namespace is throttled, because its reserved nodes are free. It returns
// true once: no other group can use the nodes while this group waits.
func (ts *reserver) takeFreePass(plan gang.Plan) bool {
	t := gang.TurnOf(plan.Key, plan.Rank)
	return !plan.Late && ts.reservations.takeFreePass(t, plan.Key, ts.freeFor(t))
}

// freeFor returns a function that reports whether nodes are free for a
// turn: only pods are left there that are treated as pods that do not end.
func (ts *reserver) freeFor(t gang.Turn) func(nodes []string) bool {
	stays := ts.outlastedFor(t)
	return func(nodes []string) bool { return ts.occupants.isDrained(nodes, stays) }
}

// outlastedFor returns a function that reports whether a pod is treated as a pod that
// does not end: it belongs to the turn's namespace, it was on reserved nodes when a
// reservation paused, and neither its deletion nor its activeDeadlineSeconds ends it
// within maxReserve. The namespace could end such pods itself. Without this rule,
// nodes would be reserved again and again while other namespaces cannot use them.
func (ts *reserver) outlastedFor(t gang.Turn) func(*corev1.Pod) bool {
	pods, near := ts.reservations.outlasted(t), ts.now().Add(ts.args.MaxReserve.Duration)
	return func(p *corev1.Pod) bool {
		if !pods.Has(p.UID) || p.DeletionTimestamp != nil && p.DeletionTimestamp.Time.Before(near) {
			return false
		}
		d := p.Spec.ActiveDeadlineSeconds
		return d == nil || p.Status.StartTime == nil || near.Sub(p.Status.StartTime.Time).Seconds() < float64(*d)
	}
}
