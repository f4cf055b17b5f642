package fluence

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// letPass brings the reservations up to date with who has waited for long, and with what has
// ended. Groups ask again that were kept from nodes which are reserved no longer: the group
// that it was for has started or is gone, or waits for something else, or its reservation
// pauses.
func (pl *Fluence) letPass() {
	now, most := pl.now(), pl.args.MaxReserve.Duration
	heads := pl.groups.Overdue(now, pl.args.MaxBypass.Duration)
	freed := pl.reservations.leave(heads, pl.groups.RunsOn, most, now)
	taken := sets.New[string]()
	for _, h := range heads {
		t := turnOf(h.Key, h.Rank)
		anew, others := pl.reservations.take(t, h.Key, pl.groups.RunsOn, now)
		paused, again := pl.reservations.getOn(t, func(nodes []string) load { return pl.running.load(nodes, h.Key.Namespace) }, most, now)
		if paused {
			pl.log.V(2).Info("Group reserves no nodes for a while", "group", h.Key, "for", most/pausePart)
		}
		nodes := pl.reservations.nodes(t, h.Key)
		overlaps := taken.HasAny(nodes...)
		if overlaps {
			// One before it has come to need them.
			others = pl.reservations.drop(t, h.Key) || others
		}
		taken.Insert(nodes...)
		freed = freed || others || paused
		if anew || again || paused || overlaps || pl.reservations.call(t, pl.running.free, now) {
			// It is in its own cycle that nodes are reserved for a group, and told.
			pl.groups.AskAgain(h.Key)
			pl.waker.one(h.Key)
		}
	}
	for _, key := range pl.groups.Retry(now) {
		pl.groups.AskAgain(key)
		pl.waker.one(key)
	}
	if freed {
		pl.happened(group.Unkept)
	}
}

// reservedRoom is what a request has to leave to others that come before it.
type reservedRoom struct {
	nodes []string
	// words say for whom how many nodes are reserved, and turns are theirs.
	words []string
	turns []turn
	// by is the namespace that asks.
	by string
}

// reservedFor returns the room that is reserved for those before a plan.
//
// Groups wait here only for groups before them in one order, and what a group that has started
// lacks of its minimum waits for nobody: those that run may wait for it before they end. So no
// circle of groups comes about, but where a group needs more members to end than its minimum:
// those wait as a new group does, and until the reservation pauses.
func (pl *Fluence) reservedFor(plan group.Plan) reservedRoom {
	room := reservedRoom{by: plan.Key.Namespace}
	if plan.Late && plan.Lacking > 0 {
		return room
	}
	now, own := pl.now(), plan.Rank
	own.Incomplete = false
	for _, h := range pl.groups.Overdue(now, pl.args.MaxBypass.Duration) {
		if h.Key == plan.Key || !h.Rank.Less(own) {
			continue
		}
		t := turnOf(h.Key, h.Rank)
		nodes := pl.reservations.nodes(t, h.Key)
		if len(nodes) == 0 {
			continue
		}
		room.turns = append(room.turns, t)
		room.nodes = append(room.nodes, nodes...)
		room.words = append(room.words, reservedWords(len(nodes), pl.groupWords(h.Key, h.Rank.Priority, plan.Key.Namespace), now.Sub(h.Since)))
	}
	slices.Sort(room.nodes)
	room.nodes = slices.Compact(room.nodes)
	return room
}

func reservedWords(nodes int, group string, waited time.Duration) string {
	return fmt.Sprintf("%s reserved for %s, which has waited %s", nodesAre(nodes), group, duration.HumanDuration(waited))
}

func nodesAre(n int) string {
	if n == 1 {
		return "1 node is"
	}
	return plural(n, "node") + " are"
}

// reserve reserves nodes for a group that has just been refused for want of room, if it has
// waited for so long that it may have some, and says so. They are as few as it fits when all has
// ended there that ends: those on which the fewest such pods are, so that they are free soon.
// A group for which there are none leaves its turn to the next until nodes change.
func (pl *Fluence) reserve(ctx context.Context, q *enquiry, r *group.Refusal) {
	key, now := q.plan.Key, pl.now()
	if q.plan.Late || r.Cure != group.CureRoom || !pl.groups.IsHead(key, now, pl.args.MaxBypass.Duration) {
		return
	}
	tell := func(words string) { r.Message = translate.Shorten(r.Message + "; " + words) }
	if why := pl.groups.Yields(key, now); why != "" {
		tell(why)
		return
	}
	t := turnOf(key, q.plan.Rank)
	if until, paused := pl.reservations.pause(t); paused {
		tell(fmt.Sprintf("no nodes are reserved for it for %s, since nothing had ended for %s on those that were",
			duration.HumanDuration(until.Sub(now)), duration.HumanDuration(pl.args.MaxReserve.Duration)))
		return
	}
	had := pl.reservations.nodes(t, key)
	search, due, known := pl.reservations.look(t, key, now)
	asBefore := func(known bool) {
		switch {
		case len(had) > 0:
			tell(nodesAre(len(had)) + " reserved for it")
		case !known:
			tell("which nodes to reserve for it could not be found out in time")
		}
	}
	if !due {
		asBefore(known)
		return
	}
	l := pl.lookFor(ctx, q, had, search)
	yields := false
	defer func() {
		// One that yields is not called again: it looks when it asks.
		if !yields {
			pl.reservations.found(t, key, l.search, l.known, now)
		}
	}()
	switch {
	case !l.known:
		asBefore(false)
		return
	case len(l.nodes) > 0:
		tell(nodesAre(len(l.nodes)) + " reserved for it")
		pl.groups.Yield(key, "", now)
	default:
		why := "no nodes are reserved for it" + l.where.why()
		tell(why)
		if yields = l.where.taken == 0; yields {
			pl.groups.Yield(key, why, now)
		}
		if pl.reservations.drop(t, key) {
			pl.happened(group.Unkept)
		}
		return
	}
	changed, freed := pl.reservations.put(t, key, l.nodes, func(nodes []string) load { return pl.running.load(nodes, key.Namespace) }, pl.groups.RunsOn, now)
	if freed {
		pl.happened(group.Unkept)
	}
	if changed {
		pl.log.V(2).Info("Group reserves nodes", "group", key, "nodes", len(l.nodes), "usable", len(l.where.nodes))
	}
}

// comes says whether a group whose namespace may not ask now asks for the nodes that are reserved
// for it and are free. It may, once: while it waits nobody has them.
func (pl *Fluence) comes(plan group.Plan) bool {
	return !plan.Late && pl.reservations.comes(turnOf(plan.Key, plan.Rank), plan.Key, pl.running.free)
}

// A lookout is what came of looking for nodes to reserve.
type lookout struct {
	nodes  []string
	where  reservable
	search *bisection
	// known says that the answer is. Where the look was cut short by its allowance, it is not:
	// that says nothing of the group, nor of the matcher, which has just refused it.
	known bool
}

// lookFor looks for the nodes to reserve for a group that had some before. It has an allowance of
// its own, since the enquiry has used up part of that. That bounds what a look costs the loop
// whatever the matcher does, and the group's namespace pays for it with the enquiry.
func (pl *Fluence) lookFor(ctx context.Context, q *enquiry, had []string, search *bisection) (l lookout) {
	own := *q
	own.may = &allowance{ctx: ctx, now: pl.now, began: pl.now(), most: pl.args.MaxAsk.Duration}
	defer func() { q.may.waited += own.may.waited }()
	lasting, known := pl.lastingFor(ctx, &own)
	if !known {
		return l
	}
	l.where = pl.reservableFor(&own, lasting)
	pl.fewest(ctx, &own, &l, had, search)
	return l
}

// A reservable is where a group may have nodes reserved.
type reservable struct {
	// nodes are those on which the fewest pods are that end, first. They are reserved for nobody
	// else.
	nodes []string
	// requests are those of the group when what ends there has ended, and ends are the jobs that
	// hold something on the nodes and end.
	requests []translate.ShapeRequest
	ends     []match.JobID
	// barred counts the nodes that the filters rule out beside pods that do not end, and filters
	// are their words.
	barred  int
	filters string
	// taken counts the nodes that are reserved for others, and on those that may be had stays
	// counts the nodes with pods that do not end: named are those that the reader may know of, and
	// others counts the others.
	taken, stays, others int
	named                []string
}

// reservableFor looks where a group could stand.
func (pl *Fluence) reservableFor(q *enquiry, l lasting) reservable {
	r := reservable{requests: q.whenEnded(l), filters: l.why.String()}
	taken := sets.New(q.reserved.nodes...)
	never, stay := make([]sets.Set[string], len(q.never)), make([]sets.Set[string], len(q.never))
	for i, names := range q.never {
		never[i], stay[i] = sets.New(names...), sets.New(slices.Concat(names, l.nodes[i])...)
	}
	passes := func(out []sets.Set[string], node string) bool {
		return slices.ContainsFunc(out, func(s sets.Set[string]) bool { return !s.Has(node) })
	}
	holders, ends := map[string]int{}, map[match.JobID]bool{}
	for _, info := range q.nodes {
		n := info.Node()
		if n.Spec.Unschedulable || !ready(n) || !passes(never, n.Name) {
			continue
		}
		if !passes(stay, n.Name) {
			r.barred++
			continue
		}
		if taken.Has(n.Name) {
			r.taken++
			continue
		}
		stays := false
		for p, job := range pl.jobsOn(info) {
			if !endless(p) {
				holders[n.Name]++
				if _, mixed := ends[job]; !mixed {
					ends[job] = true
				}
				continue
			}
			stays, ends[job] = true, false
			if pl.tells(p.Namespace, q.plan.Key.Namespace) {
				r.named = append(r.named, podName(p))
			} else {
				r.others++
			}
		}
		if stays {
			r.stays++
		}
		r.nodes = append(r.nodes, n.Name)
	}
	for job, all := range ends {
		if all {
			r.ends = append(r.ends, job)
		}
	}
	slices.Sort(r.ends)
	slices.SortStableFunc(r.nodes, func(a, b string) int { return holders[a] - holders[b] })
	return r
}

// endless says that a pod does not end by itself, or that another takes its place: a Deployment's,
// a StatefulSet's, or one that nothing controls and that is always restarted.
func endless(p *corev1.Pod) bool {
	return p.Spec.RestartPolicy == corev1.RestartPolicyAlways && p.Spec.ActiveDeadlineSeconds == nil && p.DeletionTimestamp == nil
}

// why says why a group has no nodes reserved.
func (r reservable) why() string {
	const most = 3
	var parts []string
	if r.taken > 0 {
		parts = append(parts, nodesAre(r.taken)+" reserved for others")
	}
	if r.stays > 0 {
		var who []string
		if n := len(r.named); n > 0 {
			slices.Sort(r.named)
			who = append(who, strings.Join(r.named[:min(n, most)], ", "))
			if n > most {
				who[0] += fmt.Sprintf(" and %d more", n-most)
			}
		}
		if r.others > 0 {
			who = append(who, plural(r.others, "pod")+" of other namespaces")
		}
		parts = append(parts, fmt.Sprintf("pods that do not end are on %s that it could use (%s)", plural(r.stays, "node"), strings.Join(who, "; ")))
	}
	if r.barred > 0 {
		parts = append(parts, "beside pods that do not end the filters rule out "+plural(r.barred, "node")+r.filters)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// A bisection looks for the fewest first of some nodes on which a group fits.
type bisection struct {
	of []string
	// It fits the first most, where it is given best, and fewer than least are too few.
	least, most int
	best        []string
}

// done says that there are no fewer.
func (b *bisection) done() bool { return b == nil || b.least >= b.most }

// fewest finds nodes of those that may be reserved on which all that a group asks for fits when
// what ends there has ended: those that it had if it still does, and else as few of the first as
// can be; none if it does not fit at all. It is not known where that takes too much work, or the
// matcher does not answer. A search that was cut short goes on the next time.
func (pl *Fluence) fewest(ctx context.Context, q *enquiry, l *lookout, had []string, search *bisection) {
	usable := sets.New(l.where.nodes...)
	fits := func(among []string) (nodes []string, known bool) { return pl.fits(ctx, q, l.where, among) }
	if search.done() || !usable.HasAll(search.of...) {
		if len(had) > 0 && usable.HasAll(had...) {
			if l.nodes, l.known = fits(had); len(l.nodes) > 0 || !l.known {
				return
			}
		}
		if l.nodes, l.known = fits(l.where.nodes); len(l.nodes) == 0 {
			return
		}
		search = &bisection{of: l.where.nodes, least: 1, most: len(l.where.nodes), best: l.nodes}
	}
	for !search.done() {
		half := (search.least + search.most) / 2
		fewer, known := fits(search.of[:half])
		if !known {
			break
		}
		if len(fewer) > 0 {
			search.best, search.most = fewer, half
		} else {
			search.least = half + 1
		}
	}
	l.nodes, l.search, l.known = search.best, search, true
}

// fits returns the nodes that a group is given among some when what ends there has ended. It waits
// for the matcher as long as the allowance lasts.
func (pl *Fluence) fits(ctx context.Context, q *enquiry, in reservable, among []string) (nodes []string, known bool) {
	if len(among) == 0 {
		return nil, true
	}
	if q.may.over() {
		return nil, false
	}
	requests := slices.Clone(in.requests)
	for i := range requests {
		requests[i].Max = requests[i].Min
		within(&requests[i].Attributes.Constraints, &jobspec.Constraint{Op: jobspec.OpHostlist, Values: among})
	}
	if tooManyHosts(requests) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, max(q.may.left(), time.Millisecond))
	defer cancel()
	a, err := pl.matchIgnoring(ctx, q, match.WithoutAllocating, requests, q.keysFor(requests), in.ends)
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		return nil, no.Reason.Code != match.TooHard
	}
	if err != nil {
		return nil, false
	}
	names := sets.New[string]()
	for _, s := range a.Slots {
		names.Insert(s.Node)
	}
	return sets.List(names), true
}

// jobsOn lists the pods on a node with the jobs that they are to the matcher.
func (pl *Fluence) jobsOn(info fwk.NodeInfo) iter.Seq2[*corev1.Pod, match.JobID] {
	return func(yield func(*corev1.Pod, match.JobID) bool) {
		var pods []*corev1.Pod
		for _, p := range info.GetPods() {
			if pod := p.GetPod(); !translate.OnEveryNode(pod) && translate.Holds(pod) {
				pods = append(pods, pod)
			}
		}
		if len(pods) == 0 {
			return
		}
		for i, job := range pl.groups.JobsOf(pods, pl.running.jobOf) {
			if !yield(pods[i], job) {
				return
			}
		}
	}
}

// leaveOut has requests leave out, for the present, the nodes that are reserved for others.
func (k reservedRoom) leaveOut(requests []translate.ShapeRequest) {
	if len(k.nodes) == 0 {
		return
	}
	for i := range requests {
		within(&requests[i].Attributes.ConstraintsNow, not(k.nodes))
	}
}

// tellReserved adds to a refusal for want of room what part in it the reserved room has.
func (pl *Fluence) tellReserved(k reservedRoom, r *group.Refusal) {
	if r.Reason != reasonNoRoom || len(k.nodes) == 0 {
		return
	}
	pl.reservations.contested(k.turns, k.by)
	r.Message = translate.Shorten(r.Message + "; " + strings.Join(k.words, "; "))
	r.Until = append(r.Until, group.Unkept)
}

// waitsSince is since when a group that waits for room has not been scheduled, as its
// PodGroup says; zero if it waits for something that ends its time. That it had another reason
// at first, such as that pods were missing, is not to be seen there.
func waitsSince(pg *scheduling.PodGroup) time.Time {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionFalse {
		return time.Time{}
	}
	switch c.Reason {
	case reasonNoRoom, reasonUnavailable, reasonThrottled, reasonTooHard, reasonFilters, reasonMatchError,
		group.ReasonFiltered, group.ReasonNotReserved, group.ReasonBinding:
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}
