package fluence

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// maxPlanTime is how long the search for victims may take. The scheduling loop waits for it. Without throttling
// nobody waits, and the limit is MaxAskLimit.
const maxPlanTime = 500 * time.Millisecond

// An endingVictim is a pod that is going to leave its node.
type endingVictim struct {
	pod *corev1.Pod
	// of is the preemptor for which it is evicted. It is empty if it ends for another reason.
	of types.UID
}

// mayLackVictims reports whether a group that was refused may find room if others are evicted.
func (a *groupPlacer) mayLackVictims(r *gang.Refusal) bool {
	return a.args.Preemption.Mode != PreemptionNever && r.Reason == reason.NoRoom && !r.NodesFound && r.WaitsFor != gang.WaitsForAnswer
}

// makeRoom decides what a group does that has just been refused for lack of room. freed reports whether others may
// take room that it claimed before.
//
//	fits when what is ending has ended --yes--> claims that room, evicts nobody; is Preempting if some of it is evicted for it
//	  |no
//	cancels its plan, if it has one: the plan is of no use any more
//	may it evict, and is there a plan? --yes--> the evictor starts, the group claims the room of the plan and is Preempting
//	  |no
//	NoRoom, and why nobody is evicted
func (a *groupPlacer) makeRoom(ctx context.Context, plan gang.Plan, found placement.Result, refused *gang.Refusal) (freed bool) {
	id, rank, now, of := claimantOf(plan), rankForRoom(plan), a.now(), a.preemptorOf(plan)
	evicts := a.mayLackVictims(refused)
	if plan.Late && !evicts {
		return false
	}
	ending := a.allEnding(of.UID, now)
	claimed, known := a.findClaim(ctx, rank, found, ending, of.UID)
	if evicts && known && claimed == nil && hasPlan(a, of.UID) {
		claimed, known = findClaimAsPlanned(ctx, a, plan, found, of, ending)
	}
	switch {
	case !known:
		c := a.claims.get(id)
		if evicts && c == nil {
			// Others would take the room of its victims before it is known where the group fits. The claim has an end: it
			// may be for more room than the group needs.
			if c = claimOn(slotsOfVictims(ending, of.UID), rank, ending, of.UID); c != nil {
				c.until = now.Add(maxOverdue)
				a.setClaim(plan, of, c)
			}
		}
		own := c != nil && c.own
		if own {
			a.tellPreempting(plan, of, refused)
		}
		if own || hasPlan(a, of.UID) {
			// The plan goes on until it is known to be of no use. After a restart the claim alone shows that there was one.
			refused.Equivalence = ""
			a.preemptions.askAt(of.UID, plan.Key, now.Add(askAgainAfter))
		}
		return false
	case claimed == nil:
	case evicts && claimed.own:
		// The room that it was to get may be elsewhere by now. What has begun there goes on.
		_, freed = a.setClaim(plan, of, claimed)
		a.tellPreempting(plan, of, refused)
		return freed
	case !plan.Late && refused.WaitsFor == gang.WaitsForRoom:
		a.abandonPlan(of.UID)
		ok, changed := a.setClaim(plan, of, claimed)
		if ok {
			refused.Message = translate.Shorten(refused.Message + "; it fits when pods that are ending have gone, and room is kept for it")
		}
		return changed
	}
	freed = a.dropClaim(id)
	if evicts {
		a.endUnhelpful(of, ending, now)
		a.evict(ctx, plan, found, refused, of, ending)
	}
	return freed
}

// slotsOfVictims returns what the pods hold that are evicted for a preemptor.
func slotsOfVictims(ending []endingVictim, of types.UID) (slots []match.Slot) {
	for _, e := range ending {
		if e.of == of {
			slots = append(slots, translate.HeldSlot(e.pod))
		}
	}
	return slots
}

// hasPlan reports whether others are evicted for a group, or were and the plan has not been canceled.
func hasPlan(a *groupPlacer, of types.UID) bool {
	return a.preemptions.stands(of) || a.evictor.Of(of) != nil
}

// findClaimAsPlanned is findClaim with the search that finds plans. This search takes longer, but it looks further: it
// tries each way to spread the pods, only the pods that are required, and the nodes that the filters rule out because
// of pods that are ending. A plan may rely on each of these, and goes on as long as it helps.
func findClaimAsPlanned(ctx context.Context, a *groupPlacer, plan gang.Plan, found placement.Result, of preemption.Preemptor, ending []endingVictim) (_ *claim, known bool) {
	if len(ending) == 0 {
		return nil, true
	}
	if _, _, at := a.preemptions.mayPlan(of.UID, a.inventory.Generation(), a.cycle, a.now()); !at.IsZero() {
		return nil, false
	}
	result := searchVictims(ctx, a, found, placement.PreemptionRequest{For: of, Ending: a.refsOf(ending)})
	if result.Plan == nil {
		return nil, result.Why != ""
	}
	return claimOn(result.Plan.Slots, rankForRoom(plan), ending, of.UID), true
}

// searchVictims searches for a plan. The caller has checked mayPlan.
func searchVictims(ctx context.Context, a *groupPlacer, found placement.Result, r placement.PreemptionRequest) placement.PreemptionResult {
	if r.MaxTime = maxPlanTime; a.args.Unthrottled {
		r.MaxTime = MaxAskLimit
	}
	began := a.now()
	result := a.placer.FindByPreemption(ctx, found, r)
	if !a.args.Unthrottled {
		a.preemptions.planned(a.cycle, a.now(), a.now().Sub(began))
	}
	return result
}

// endUnhelpful cancels the plan of a group that does not fit by it any more. If its victims have gone, or do not go
// in time, the eviction did not help, and the group evicts nobody for a while: longest if they may still go. Otherwise
// a group of a higher priority takes the room, and the group may plan anew.
func (a *groupPlacer) endUnhelpful(of preemption.Preemptor, ending []endingVictim, now time.Time) {
	if !hasPlan(a, of.UID) {
		return
	}
	outcome, refusal := eviction.Unhelpful, a.evictor.Refusal(of.UID)
	if refusal == "" && slices.ContainsFunc(ending, func(e endingVictim) bool { return e.of == of.UID }) {
		outcome = eviction.Abandoned
	}
	_, due := overdueOf(a, of.UID, now)
	a.evictor.Cancel(of.UID, outcome)
	endYields(a.base, of.UID)
	a.preemptions.end(of.UID, outcome, refusal, due, now)
	a.log.V(2).Info("A plan to evict others is of no use any more", "group", of.Namespace+"/"+of.Name, "outcome", outcome)
}

// evict makes a plan for a group, and starts the evictor. If there is no plan, the refusal says why.
func (a *groupPlacer) evict(ctx context.Context, plan gang.Plan, found placement.Result, refused *gang.Refusal, of preemption.Preemptor, ending []endingVictim) {
	now := a.now()
	say := func(why string) {
		if why != "" {
			refused.Message = translate.Shorten(refused.Message + "; " + why)
		}
	}
	// Nothing is planned without pods that should have gone: they may hold the room for long.
	sayNone := func(why string) {
		if n := a.ending.countOverdue(of.Priority, now); n > 0 && why != "" {
			why += fmt.Sprintf("; %s of lower priority should have gone already", reason.Plural(n, "pod"))
		}
		say(why)
	}
	// Such a group asks again by itself. It does not ask on behalf of others, which may not have to wait.
	askAt := func(at time.Time) {
		refused.Equivalence = ""
		a.preemptions.askAt(of.UID, plan.Key, at)
	}
	a.preemptions.wait(of, claimantOf(plan))
	if len(a.evictor.Undecided(of.UID)) > 0 {
		refused.Equivalence = ""
		say("evicts nobody before it is known whom an earlier scheduler has evicted for it")
		return
	}
	if n, due := overdueOf(a, of.UID, now); now.Before(due.Add(overduePause)) {
		at := due.Add(overduePause)
		say(fmt.Sprintf("evicts nobody before %s: %s evicted for it should have gone at %s", reason.Time(at, now), reason.Plural(n, "pod"), reason.Time(due, now)))
		askAt(at)
		return
	}
	if !a.index.HasBelow(of.Priority) {
		// Most groups have nobody below them. Their messages do not speak of evictions.
		return
	}
	why, at := a.whyNotEvict(plan, of, now)
	if why != "" {
		if say(why); !at.IsZero() {
			askAt(at)
		}
		return
	}
	generation := a.inventory.Generation()
	last, known, at := a.preemptions.mayPlan(of.UID, generation, a.cycle, now)
	if known || !at.IsZero() {
		if sayNone(last); !at.IsZero() {
			askAt(at)
		}
		return
	}
	lower := false
	result := searchVictims(ctx, a, found, placement.PreemptionRequest{
		For: of, Ending: a.refsOf(ending),
		Candidates: func(usable func(string) bool) ([]preemption.Victim, int) {
			victims, left := a.candidates(plan, of, usable, now)
			lower = len(victims) > 0
			return victims, left
		},
	})
	if !lower && result.Plan == nil {
		a.preemptions.remember(of.UID, plan.Key, generation, "", now)
		return
	}
	switch p := result.Plan; {
	case p == nil && result.Why == "":
		askAt(now.Add(askAgainAfter))
	case p == nil:
		sayNone(result.Why)
		a.preemptions.remember(of.UID, plan.Key, generation, result.Why, now)
	case len(p.Victims) == 0:
		if claimed := claimOn(p.Slots, rankForRoom(plan), ending, of.UID); claimed != nil {
			a.setClaim(plan, of, claimed)
		}
		refused.Message = translate.Shorten(refused.Message + "; it fits when pods that are ending have gone, and room is kept for it")
	case !a.evictor.Start(*p):
		// An earlier plan for the group, or for another one with some of these victims, is not over yet.
		askAt(now.Add(askAgainAfter))
	default:
		a.preemptions.start(of.UID, plan.Key)
		for _, v := range p.Victims {
			if key := eviction.KeyOf(v); key != (types.NamespacedName{}) {
				a.yields.begin(key, yield{to: of.UID})
			}
		}
		klog.FromContext(ctx).V(2).Info("Others are evicted for a group", "group", plan.Key, "priority", of.Priority, "victims", len(p.Victims), "leftOut", result.LeftOut)
		a.setClaim(plan, of, &claim{rank: rankForRoom(plan), slots: p.Slots, evicted: true, own: true})
		a.tellPreempting(plan, of, refused)
	}
}

// whyNotEvict returns why a group may not evict others now, as a part of a message, and until when if that is known.
// It returns nothing if the group may.
func (a *groupPlacer) whyNotEvict(plan gang.Plan, of preemption.Preemptor, now time.Time) (why string, until time.Time) {
	if _, queued := a.queues.End(jobOf(plan.Key)); queued {
		return "jobs of queues evict nobody", time.Time{}
	}
	if a.groupReporter.podGroups.preemptionPolicyOf(plan) == corev1.PreemptNever {
		return "may not evict: preemptionPolicy Never", time.Time{}
	}
	delay, err := group.ParsePreemptionDelay(group.Annotation(group.PreemptionDelayAnnotation, a.groupReporter.podGroups.annotationsOf(plan.Key), plan.Required...), a.args.Preemption.Delay.Duration)
	since := a.groups.WaitsForRoomSince(plan.Key, now)
	if plan.Late {
		since = plan.EligibleSince
	}
	if at := since.Add(delay); now.Before(at) {
		why = fmt.Sprintf("evicts nobody before %s (preemption-delay)", reason.Time(at, now))
		if err != nil {
			why += ": " + err.Error()
		}
		return why, at
	}
	if at, because := a.preemptions.notBefore(of.UID); now.Before(at) {
		return fmt.Sprintf("evicts nobody before %s (%s)", reason.Time(at, now), because), at
	}
	return "", time.Time{}
}

// preemptorOf returns for whom others are evicted: the group of a plan or, if it has started, the pod that it lacks.
func (a *groupPlacer) preemptorOf(plan gang.Plan) preemption.Preemptor {
	pod := plan.Required[0]
	of := preemption.Preemptor{Kind: preemption.Pod, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Priority: minPriority(plan.Required)}
	if plan.Late {
		return of
	}
	if pg := a.groupReporter.podGroups.Get(plan.Key); pg != nil {
		of.Kind, of.Name, of.UID = preemption.Group, plan.Key.Name, pg.UID
		if name, native := group.NativeName(plan.Key); native {
			of.Kind, of.Name = preemption.NativeGroup, name
		}
	}
	return of
}

// allEnding returns the pods that are going to leave their nodes. These are the pods that are being deleted, the victims
// of all plans, and the pods that an earlier process has marked for the preemptor. Overdue pods are left out, and so are
// pods whose deletion is refused. Room that is kept for pods that are made again is for these.
func (a *groupPlacer) allEnding(preemptor types.UID, now time.Time) (all []endingVictim) {
	seen := map[types.UID]bool{}
	add := func(v eviction.Progress, of types.UID) {
		for _, p := range v.Pods {
			pod := a.ending.find(p.UID)
			if pod == nil {
				live, err := a.pods.Pods(v.Namespace).Get(p.Name)
				if err != nil || live.UID != p.UID || !translate.Holds(live) {
					continue
				}
				pod = live
			}
			if seen[p.UID] {
				continue
			}
			seen[p.UID] = true
			if refused := v.Refused && pod.DeletionTimestamp == nil; !refused && !isOverdue(pod, now) {
				all = append(all, endingVictim{pod, of})
			}
		}
	}
	for _, v := range a.evictor.Undecided(preemptor) {
		add(v, preemptor)
	}
	for _, v := range a.evictor.Pending() {
		add(v.Progress, v.For.UID)
	}
	for _, pod := range a.ending.list(now, a.restarts.leaving()) {
		if !seen[pod.UID] {
			all = append(all, endingVictim{pod: pod})
		}
	}
	return all
}

// overdueOf returns how many pods that are evicted for a preemptor should have gone, and when the last of them should
// have. They go sooner or later, and then others would have been evicted for nothing.
func overdueOf(a *groupPlacer, of types.UID, now time.Time) (n int, due time.Time) {
	for _, v := range a.evictor.Pending() {
		if v.For.UID != of {
			continue
		}
		for _, p := range v.Pods {
			if pod := a.ending.find(p.UID); pod != nil && isOverdue(pod, now) {
				n, due = n+1, later(due, pod.DeletionTimestamp.Time)
			}
		}
	}
	return n, due
}

// refsOf returns the slots of pods that are going to leave their nodes.
func (b *base) refsOf(ending []endingVictim) []match.SlotRef {
	pods, refs := make([]*corev1.Pod, len(ending)), make([]match.SlotRef, len(ending))
	for i, e := range ending {
		pods[i] = e.pod
	}
	for i, job := range b.placer.JobsOf(pods) {
		refs[i] = match.SlotRef{Job: job, Keys: []string{string(pods[i].UID)}}
	}
	return refs
}

// candidates returns who may be evicted for a group, and how many more there are.
func (a *groupPlacer) candidates(plan gang.Plan, of preemption.Preemptor, usable func(string) bool, now time.Time) ([]preemption.Victim, int) {
	victims, left := a.index.Candidates(preemption.Query{
		For: of, Foreign: a.args.Preemption.Foreign, MinRuntime: a.args.Preemption.MinRuntime.Duration, Now: now, Usable: usable,
		Own: a.isOwnScheduler, Log: a.log.V(2).Info,
	}, a.clusterOfVictims())
	pending := sets.New[types.UID]()
	for _, v := range a.evictor.Pending() {
		for _, p := range v.Pods {
			pending.Insert(p.UID)
		}
	}
	return slices.DeleteFunc(victims, func(v preemption.Victim) bool {
		if a.evictor.IsRefused(v.UID) {
			return true
		}
		key := eviction.KeyOf(v)
		if key == (types.NamespacedName{}) {
			return pending.Has(v.UID)
		}
		// A group that is evicted already is no candidate. One whose pods are about to be bound is not on its nodes as
		// a whole yet.
		placed, present, _ := a.groups.MemberCounts(key)
		return key == plan.Key || placed < present
	}), left
}
