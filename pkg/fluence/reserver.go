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

// reserver reserve nodes for the groups that have waited for room longest.
type reserver struct {
	*base
	groupReporter *groupReporter
	reservations  reservations
}

// updateReservations brings the reservations up to date with who has waited for long, and with what has
// ended. Groups ask again that had to leave nodes which are reserved no longer: the group
// that it was for has started or is gone, or waits for something else, or its reservation
// pauses.
func (ts *reserver) updateReservations() {
	now, most := ts.now(), ts.args.MaxReserve.Duration
	heads := ts.groups.Starving(now, ts.args.MaxBypass.Duration)
	freed := ts.reservations.endExcept(heads, &ts.occupants, ts.groups.RunsOn, most, now)
	taken := sets.New[string]()
	for _, h := range heads {
		t := gang.TurnOf(h.Key, h.Rank)
		anew, others := ts.reservations.giveTurn(t, h.Key, &ts.occupants, ts.groups.RunsOn, now)
		paused, again := ts.reservations.advance(t, &ts.occupants, most, now)
		if paused {
			until, _ := ts.reservations.pause(t)
			ts.log.V(2).Info("Group reserves no nodes for a while", "group", h.Key, "for", until.Sub(now))
		}
		nodes := ts.reservations.nodes(t, h.Key)
		overlaps := taken.HasAny(nodes...)
		if overlaps {
			// One before it has come to need them.
			others = ts.reservations.unreserve(t, h.Key) || others
		}
		taken.Insert(nodes...)
		freed = freed || others || paused
		if anew || again || paused || overlaps || ts.reservations.pollActivation(t, ts.freeFor(t), now) {
			// It is in its own cycle that nodes are reserved for a group, and told.
			ts.groups.RetryNow(h.Key)
			ts.activator.activateGroups(h.Key)
		}
	}
	for _, key := range ts.groups.YieldersDue(now) {
		ts.groups.RetryNow(key)
		ts.activator.activateGroups(key)
	}
	if freed {
		ts.observeEvent(gang.ReservationEnded)
	}
}

// reservedFor returns the room that is reserved for the groups before a plan.
//
// A group waits only for groups before it in one order, so that no two wait for each other. A pod that
// takes the place of a lost member is an exception, since the members that run may need it before they
// end. It may have any node if the lost member's node is lost too. Otherwise it may go back to that
// node, whoever has it reserved. If others have taken the room there, it waits until the reservation
// pauses. Where no reservation pauses it may have any node. It may not have any node otherwise: its
// author could move one member after the other to reserved nodes, and have the next group take the
// room that each of them leaves.
func (ts *reserver) reservedFor(plan gang.Plan) (room placement.Reservations) {
	if len(plan.LostMembers) > 0 && (ts.args.MaxReserve.Duration == 0 || ts.isNodeLost(plan.LostMembers[0], plan.Required[0])) {
		return room
	}
	now, own := ts.now(), plan.Rank
	own.Urgent = false
	if plan.EligibleSince.After(own.Created) {
		own.Created = plan.EligibleSince
	}
	all := ts.reservations.listReserved()
	keys := make([]types.NamespacedName, 0, len(all))
	for _, held := range all {
		keys = append(keys, held.key)
	}
	for _, h := range ts.groups.HeadsAmong(keys, now, ts.args.MaxBypass.Duration) {
		t := gang.TurnOf(h.Key, h.Rank)
		held, ok := all[t]
		if !ok || held.key != h.Key || h.Key == plan.Key || !h.Rank.Less(own) {
			continue
		}
		nodes := slices.DeleteFunc(slices.Clone(held.nodes), func(node string) bool {
			return slices.ContainsFunc(plan.LostMembers, func(l gang.LostMember) bool { return l.Node == node })
		})
		if len(nodes) == 0 {
			continue
		}
		room.Turns = append(room.Turns, t)
		room.Nodes = append(room.Nodes, nodes...)
		room.Words = append(room.Words, describeReserved(len(nodes), ts.describeGroup(h.Key, h.Rank.Priority, plan.Key.Namespace), now.Sub(h.Since)))
	}
	slices.Sort(room.Nodes)
	room.Nodes = slices.Compact(room.Nodes)
	return room
}

// isNodeLost says whether a pod cannot go to the node of the member whose place it takes, whatever room there
// is. The node is gone, is not ready or is closed to both, or one of its devices has failed. A node that
// is closed to the new pod alone is not lost: the pod's author chose that. An unknown node is lost.
func (ts *reserver) isNodeLost(left gang.LostMember, pod *corev1.Pod) bool {
	node, err := ts.nodes.Get(left.Node)
	if err != nil || !nodeutil.IsNodeReady(node) || hasFailed(node, pod) {
		return true
	}
	return ts.guard.whyRejected(ts.log, node, pod) != "" && ts.guard.whyRejected(ts.log, node, left.Pod) != ""
}

// hasFailed says whether a device of a kind that a pod asks for has failed on a node: the node has
// more of them than may be given out, or fewer may be than the pod asks for.
func hasFailed(node *corev1.Node, pod *corev1.Pod) bool {
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

// withSameReserved keeps, of the pods of a plan that take places, those to which the same reserved nodes are open
// as to the one that asks. The others ask next.
func (ts *reserver) withSameReserved(plan gang.Plan) gang.Plan {
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

func describeReserved(nodes int, group string, waited time.Duration) string {
	return fmt.Sprintf("%s reserved for %s, which has waited %s", placement.NodesAre(nodes), group, duration.HumanDuration(waited))
}

// reserve reserves nodes for a group that has just been refused for want of room, if it has
// waited for so long that it may have some, and says so. They are as few as it fits when all has
// ended there that ends: those on which the fewest such pods are, so that they are free soon.
// A group for which there are none leaves its turn to the next until nodes change.
func (ts *reserver) reserve(ctx context.Context, plan gang.Plan, found placement.Result, r *gang.Refusal) {
	key, now := plan.Key, ts.now()
	if plan.Late || r.WaitsFor != gang.WaitsForRoom || !ts.groups.IsHead(key, now, ts.args.MaxBypass.Duration) {
		return
	}
	tell := func(words string) { r.Message = translate.Shorten(r.Message + "; " + words) }
	if why := ts.groups.WhyYields(key, now); why != "" {
		tell(why)
		return
	}
	t := gang.TurnOf(key, plan.Rank)
	if until, paused := ts.reservations.pause(t); paused {
		tell(fmt.Sprintf("no nodes are reserved for it for %s, since nothing had ended for %s on those that were",
			duration.HumanDuration(until.Sub(now)), duration.HumanDuration(ts.args.MaxReserve.Duration)))
		return
	}
	had := ts.reservations.nodes(t, key)
	search, due, known := ts.reservations.startSearch(t, key, now)
	asBefore := func(known bool) {
		switch {
		case len(had) > 0:
			tell(placement.NodesAre(len(had)) + " reserved for it")
		case !known:
			tell("which nodes to reserve for it could not be found out in time")
		}
	}
	if !due {
		asBefore(known)
		return
	}
	l := ts.placer.FindReservable(ctx, found, had, search, ts.outlastedFor(t))
	yields := false
	defer func() {
		// One that yields is not called again: it looks when it asks.
		if !yields {
			ts.reservations.endSearch(t, key, l.Search, l.Known, now)
		}
	}()
	switch {
	case !l.Known:
		asBefore(false)
		return
	case len(l.Nodes) > 0:
		tell(placement.NodesAre(len(l.Nodes)) + " reserved for it")
		ts.groups.Yield(key, "", nil, now)
	default:
		why := "no nodes are reserved for it" + l.Why()
		tell(why)
		if yields = l.ReservedCount() == 0; yields {
			ts.groups.Yield(key, why, l.BlockedNodes(), now)
		}
		if ts.reservations.unreserve(t, key) {
			ts.observeEvent(gang.ReservationEnded)
		}
		return
	}
	changed, freed := ts.reservations.reserve(t, key, l.Nodes, &ts.occupants, ts.groups.RunsOn, now)
	if freed {
		ts.observeEvent(gang.ReservationEnded)
	}
	if changed && len(had) == 0 {
		ts.reportReserved(key, len(l.Nodes))
	}
	if changed {
		ts.log.V(2).Info("Group reserves nodes", "group", key, "nodes", len(l.Nodes), "usable", l.CandidateCount())
	}
}

// reportReserved tells that nodes are reserved for a group for which none were. It leaves a trace: the
// reason for which the group waits is the same as before.
func (ts *reserver) reportReserved(key types.NamespacedName, nodes int) {
	ts.groupReporter.reporter.RecordEvent(key, reason.NodesReserved, placement.NodesAre(nodes)+" reserved for the group")
}

// useFreePass says whether a group whose namespace may not ask now asks for the nodes that are reserved
// for it and are free. It may, once: while it waits nobody has them.
func (ts *reserver) useFreePass(plan gang.Plan) bool {
	t := gang.TurnOf(plan.Key, plan.Rank)
	return !plan.Late && ts.reservations.useFreePass(t, plan.Key, ts.freeFor(t))
}

// freeFor says of nodes whether nothing ends there any more that a turn waits for.
func (ts *reserver) freeFor(t gang.Turn) func(nodes []string) bool {
	stays := ts.outlastedFor(t)
	return func(nodes []string) bool { return ts.occupants.isFree(nodes, stays) }
}

// outlastedFor says of a pod whether it is taken for one that does not end: it is of a turn's own
// namespace, a reservation has paused over it, and it has no deadline that is near. Whoever has such
// pods can end them, and shall not have nodes kept from others for them again and again.
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
