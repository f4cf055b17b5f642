package fluence

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

const (
	// minUnhelpful and maxUnhelpful bound how long a group evicts nobody after an eviction that did not help. The
	// time doubles with each in a row. Some causes last until somebody removes them, such as a volume that cannot be
	// bound, and each eviction ends the work of others: the longest time is long, so that few lose their work in a
	// night. It has an end, because nothing tells whether a cause is over but one more eviction. The time in which
	// the alert FluenceEvictionsUnhelpful counts is so long that it goes on until then.
	minUnhelpful, maxUnhelpful = 10 * time.Second, 30 * time.Minute
	// maxDoublings is after how many in a row the time is maxUnhelpful.
	maxDoublings = 8
	// overduePause is until how long after its victims should have gone a group evicts nobody else. It counts for
	// overdueFailures evictions that did not help.
	overduePause, overdueFailures = 5 * time.Minute, 5
	// maxPlanShare is the part of the scheduling loop that plans may take: one of so many parts.
	maxPlanShare = 4
	// maxNoAge is for how long the answer holds that there is no plan, if the cluster does not change.
	maxNoAge = time.Minute
	// askAgainAfter is when a group asks again that got no answer.
	askAgainAfter = time.Second
	// preemptingInterval is when a group asks again for which others are evicted.
	preemptingInterval = 10 * time.Second
	// minBoundInterval is the time between two looks at whether pods were bound that might be evicted.
	minBoundInterval = 2 * time.Second
)

// preemptions is what is known of the groups that evict others, by the UIDs of the preemptors. A restart of the
// scheduler forgets it: the evictor finds the plans again that have begun, by their marks. The zero value is ready for use.
type preemptions struct {
	mu  sync.Mutex
	all map[types.UID]*preemptingGroup
	// nextPlan is when the next plan may be made, lastCycle the cycle of the last one.
	nextPlan  time.Time
	lastCycle uint64
	// bound is true if a pod was bound since the last call of due, and lowest is the lowest priority of such pods.
	// checkBound is when that is looked at again.
	bound      bool
	lowest     int32
	checkBound time.Time
}

// preemptingGroup is what is known of one group.
type preemptingGroup struct {
	key types.NamespacedName
	// stands is true from the start of a plan until it is canceled.
	stands bool
	// placed is true once the group was given nodes after the eviction, until it starts or loses them.
	placed bool
	// failures counts the evictions in a row that did not help. notBefore is when the group may evict again.
	failures  int
	notBefore time.Time
	// refusal is why the API server has refused the last eviction, if it did not help because of that.
	refusal string
	// ending is true if it may not because the victims of a plan that it could not use are still ending.
	ending bool
	// why is the answer that there was no plan, at the generation of the inventory and at the time. It is none
	// if the time is zero.
	why        string
	generation uint64
	at         time.Time
	// askAt is when the group is to ask again. It is zero if it does not by itself.
	askAt time.Time
	// waits is true if nobody is evicted for the group. priority is that of the group. pod is set if it is a pod that a
	// started group lacks.
	waits    bool
	priority int32
	pod      types.UID
}

// get returns what is known of a group, and begins with nothing. The caller holds the lock.
func (p *preemptions) get(of types.UID, key types.NamespacedName) *preemptingGroup {
	if p.all == nil {
		p.all = map[types.UID]*preemptingGroup{}
	}
	is := p.all[of]
	if is == nil {
		is = &preemptingGroup{}
		p.all[of] = is
	}
	is.key = key
	return is
}

// stands reports whether a plan of the group was started and not canceled.
func (p *preemptions) stands(of types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[of] != nil && p.all[of].stands
}

// start records that a plan of the group was started.
func (p *preemptions) start(of types.UID, key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.get(of, key)
	is.stands, is.placed, is.waits, is.at, is.askAt = true, false, false, time.Time{}, time.Time{}
}

// wait records that nobody is evicted for a group. It is to ask again when a pod of a lower priority was bound.
func (p *preemptions) wait(of preemption.Preemptor, id claimant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.get(of.UID, id.NamespacedName)
	is.waits, is.priority, is.pod = true, of.Priority, id.pod
}

// podBound records that a pod was bound. It might be evicted, and nothing else changes by that. What is known of
// evictions for the pod itself is dropped.
func (p *preemptions) podBound(uid types.UID, priority int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, uid)
	if !p.bound || priority < p.lowest {
		p.bound, p.lowest = true, priority
	}
}

// end records that the plan of the group was canceled. refusal is eviction.Evictor.Refusal. If the eviction did not help,
// the group evicts nobody for a while. due is when the last of its victims should have gone that is still there. It is zero if there is none.
// Otherwise the group waits for overduePause from then, and no less after each eviction that does not help later.
func (p *preemptions) end(of types.UID, o eviction.Outcome, refusal string, due, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.get(of, p.keyOf(of))
	is.stands, is.at = false, time.Time{}
	if o == eviction.Abandoned {
		// Its victims are still ending. What is in the way may be gone in a moment, such as a taint.
		is.notBefore, is.ending = later(is.notBefore, now.Add(minUnhelpful)), true
	}
	if o != eviction.Unhelpful {
		return
	}
	is.fail(now)
	is.refusal = refusal
	if !due.IsZero() {
		is.notBefore, is.failures = later(is.notBefore, due.Add(overduePause)), max(is.failures, overdueFailures)
	}
}

// abandon records that the plan of a group was canceled, because the group needs it no more. It does nothing if there is none.
func (p *preemptions) abandon(of types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is := p.all[of]; is != nil {
		is.stands = false
	}
}

func (p *preemptions) keyOf(of types.UID) types.NamespacedName {
	if is := p.all[of]; is != nil {
		return is.key
	}
	return types.NamespacedName{}
}

// notBefore returns until when the group evicts nobody, and why.
func (p *preemptions) notBefore(of types.UID) (at time.Time, because string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch is := p.all[of]; {
	case is == nil:
		return time.Time{}, ""
	case is.ending:
		return is.notBefore, "whom it has evicted before is still ending"
	case is.refusal != "":
		return is.notBefore, "the last eviction was refused: " + is.refusal
	default:
		return is.notBefore, "the last eviction did not help"
	}
}

// mayPlan decides whether a plan may be made for the group in this cycle. last is the answer of the last time, if
// that was no plan. It is known that it holds still, or the group is to ask again at a time. Otherwise it may be made.
func (p *preemptions) mayPlan(of types.UID, generation, cycle uint64, now time.Time) (last string, known bool, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is := p.all[of]; is != nil && !is.at.IsZero() {
		last = is.why
		if is.generation == generation && now.Sub(is.at) < maxNoAge {
			return last, true, time.Time{}
		}
	}
	if cycle == p.lastCycle || now.Before(p.nextPlan) {
		at = p.nextPlan
		if soon := now.Add(tick); at.Before(soon) {
			at = soon
		}
	}
	return last, false, at
}

// planned records that a search for victims has ended, and how long it took.
func (p *preemptions) planned(cycle uint64, now time.Time, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastCycle, p.nextPlan = cycle, now.Add((maxPlanShare-1)*took)
}

// remember records that there is no plan for the group.
func (p *preemptions) remember(of types.UID, key types.NamespacedName, generation uint64, why string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.get(of, key)
	is.why, is.generation, is.at, is.askAt = why, generation, now, time.Time{}
}

// askAt makes the group ask again at a time.
func (p *preemptions) askAt(of types.UID, key types.NamespacedName, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.get(of, key).askAt = at
}

// place records that a group was given nodes. If others were evicted for it, that is known until the group starts.
func (p *preemptions) place(of types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.all[of]
	if is == nil {
		return
	}
	if !is.stands && is.failures == 0 {
		delete(p.all, of)
		return
	}
	is.placed, is.stands, is.waits, is.at, is.askAt = is.placed || is.stands, false, false, time.Time{}, time.Time{}
}

// loseNodes records that a group has lost its nodes. If the eviction was unhelpful, they are not for it: a filter or a
// bind has refused one that the plan relied on. Then the group evicts nobody for a while. Otherwise it would do the same
// again at once. loseNodes returns the preemptors of these evictions.
func (p *preemptions) loseNodes(key types.NamespacedName, o eviction.Outcome, now time.Time) (of []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, is := range p.all {
		if is.key == key && is.placed {
			if is.placed = false; o == eviction.Unhelpful {
				is.fail(now)
			}
			of = append(of, uid)
		}
	}
	return of
}

// fail records that an eviction for the group did not help. The caller holds the lock.
func (is *preemptingGroup) fail(now time.Time) {
	is.notBefore = now.Add(min(maxUnhelpful, minUnhelpful<<min(is.failures, maxDoublings)))
	is.failures++
	is.refusal, is.ending = "", false
}

// started drops what is known of a group that has started. It returns the preemptors of the evictions for it.
func (p *preemptions) started(key types.NamespacedName) (of []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, is := range p.all {
		if is.key == key {
			delete(p.all, uid)
			of = append(of, uid)
		}
	}
	return of
}

// due returns the groups that are to ask again now. It forgets the preemptors that are gone, and returns them. knows
// reports whether one exists.
func (p *preemptions) due(now time.Time, knows func(claimant) bool) (keys []types.NamespacedName, gone []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bound := p.bound && !now.Before(p.checkBound)
	for of, is := range p.all {
		switch {
		case !knows(claimant{is.key, is.pod}):
			delete(p.all, of)
			gone = append(gone, of)
		case bound && is.waits && is.priority > p.lowest:
			is.at, is.askAt = time.Time{}, time.Time{}
			keys = append(keys, is.key)
		case !is.askAt.IsZero() && !now.Before(is.askAt):
			is.askAt = time.Time{}
			keys = append(keys, is.key)
		}
	}
	if bound {
		p.bound, p.checkBound = false, now.Add(minBoundInterval)
	}
	return keys, gone
}
