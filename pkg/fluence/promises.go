package fluence

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// promiseDelay is how long after its promised time a group asks: the pods that end then may take a moment.
	promiseDelay = time.Second
	// askPromisedEvery is how often a group asks again whose promised time is over, or whose promise is in doubt.
	askPromisedEvery = 10 * time.Second
	// maxDoubt is for how long a promise stands that searches do not confirm, while it is not known why. A search may be cut
	// short, and room may be kept for others for some seconds.
	maxDoubt = 30 * time.Second
	// maxUnused is for how long a promise stands whose group was in doubt and has not asked since, or finds nodes and does not start.
	// It is longer than a group pauses that a filter has refused.
	maxUnused = 2 * time.Minute
	// maxAhead is how far ahead room is promised. Ends that are further off say little, and groups would be let
	// before the promise for all that time.
	maxAhead = 7 * 24 * time.Hour
)

// promises are the room that groups which wait will have at a time: certain amounts on certain nodes, from when what is in
// the way has ended. In the matcher each is a reservation in time. So a group that ends before
// it begins may run there, and others leave it. A promise ends when its group starts or does not wait for room any
// more. It moves to an earlier time when something ends early, and to a later one only for a reason that is named. The
// zero value is ready for use.
//
// Groups are in the order of rankForRoom, as for claims and reserved nodes. Only the first groups have promises.
type promises struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*promise
	// unpromised is what is remembered of the others.
	unpromised unpromised
	// earlier are the groups that an earlier process has promised room, and that have no answer yet, with their ranks once they
	// have asked. Others let them ask first until earlierUntil. That is zero until the first group asks: the matcher may load its graph for long.
	earlier      map[types.NamespacedName]*gang.Rank
	earlierUntil time.Time
	// made counts the promises, so that each has its own job: the release of an earlier one may be late.
	made uint64
}

// A promise is the room that one group will have.
type promise struct {
	rank gang.Rank
	// job is the reservation, and nodes has its nodes.
	job   match.Job
	nodes sets.Set[string]
	// booked is the epoch of the matcher's graph in which the reservation was booked; 0 if that is not known.
	booked match.Epoch
	// madeAt is when the group was first promised this room.
	madeAt time.Time
	// doubtSince is since when searches do not confirm it. It is zero if the last one did.
	doubtSince time.Time
	// passAt is when the group may ask although its namespace is throttled.
	passAt time.Time
	// strictAt is from when groups without an end leave the room too.
	strictAt time.Time
	// before is when the room was promised from before the promise moved to a later time, and why says what moved
	// it. They are zero if it did not.
	before time.Time
	why    string
	// ends has the ends of the pods on the nodes when the room was promised. The zero time is none.
	ends map[types.UID]time.Time
	// askAt is when the group asks although nothing is known to have changed.
	askAt time.Time
	// changedAt is when an end on its nodes last changed. The matcher gets to know it a moment later.
	changedAt time.Time
	// leaves is true while the group has found nodes, and has not started there yet. Then it leaves this room.
	leaves bool
}

// at is when the room is promised from.
func (p *promise) at() time.Time { return p.job.Start }

// askOfChange returns when the group asks that would ask at a time. It asks earlier if an end on its nodes has just changed: the
// matcher may not have known that yet.
func (p *promise) askOfChange(now, at time.Time) time.Time {
	if again := p.changedAt.Add(askPromisedEvery); again.After(now) && again.Before(at) {
		return again
	}
	return at
}

// maxEarlier is for how long groups that an earlier process has promised room may ask before all others.
const maxEarlier = 5 * time.Second

// expect makes groups ask before all others, which an earlier process has promised room. Until they have their promises
// again, nothing keeps that room.
func (s *promises) expect(keys []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.earlier = map[types.NamespacedName]*gang.Rank{}
	for _, key := range keys {
		s.earlier[key] = nil
	}
}

// mustLetAsk reports whether a group lets others ask first that an earlier process has promised room. Those groups let the
// ones before them ask first.
func (s *promises) mustLetAsk(key types.NamespacedName, rank gang.Rank, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.earlier) == 0 {
		return false
	}
	if s.earlierUntil.IsZero() {
		s.earlierUntil = now.Add(maxEarlier)
	}
	if !now.Before(s.earlierUntil) {
		return false
	}
	if _, is := s.earlier[key]; !is {
		return true
	}
	s.earlier[key] = &rank
	for _, other := range s.earlier {
		if other != nil && other.Less(rank) {
			return true
		}
	}
	return false
}

// asked records that a group has got its answer. It reports whether others have waited for that: it was the last that all others
// let ask, or one of them has let it ask.
func (s *promises) asked(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.earlier[key]; !is {
		return false
	}
	delete(s.earlier, key)
	for _, rank := range s.earlier {
		if rank != nil {
			return true
		}
	}
	return len(s.earlier) == 0
}

// expectNoMore reports whether the time is over for which others let groups ask. It does so once.
func (s *promises) expectNoMore(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A group that has let others ask a moment before that is refused by then.
	if len(s.earlier) == 0 || s.earlierUntil.IsZero() || now.Before(s.earlierUntil.Add(tick)) {
		return false
	}
	s.earlier = nil
	return true
}

// promised returns the groups that are promised room, as their conditions say.
func (b bothPodGroups) promised() (keys []types.NamespacedName) {
	add := func(key types.NamespacedName) {
		pg := b.Get(key)
		if pg == nil {
			return
		}
		c := meta.FindStatusCondition(pg.Status.Conditions, report.ConditionScheduled)
		if c != nil && c.Status == metav1.ConditionFalse && !report.PromisedFrom(c.Message, c.LastTransitionTime.Time).IsZero() {
			keys = append(keys, key)
		}
	}
	for _, obj := range b.podGroups.informer.GetStore().List() {
		pg := obj.(*scheduling.PodGroup)
		add(types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name})
	}
	for _, obj := range b.native.informer.GetStore().List() {
		pg := obj.(*schedulingv1beta1.PodGroup)
		add(group.NativeKey(pg.Namespace, pg.Name))
	}
	return keys
}

// get returns the promise of a group. It returns nil if there is none. The caller must not change it.
func (s *promises) get(key types.NamespacedName) *promise {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[key]
}

// takePass reports whether a group may be placed although its namespace is throttled, because its promised time has
// come.
func (s *promises) takePass(key types.NamespacedName, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.groups[key]
	if p == nil || now.Before(p.at()) || now.Before(p.passAt) {
		return false
	}
	p.passAt = now.Add(askPromisedEvery)
	return true
}

// doubt records that a search has not confirmed a promise. It reports whether that lasts for too long.
func (s *promises) doubt(p *promise, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.doubtSince.IsZero() {
		p.doubtSince = now
	}
	for _, of := range s.groups {
		if of.leaves && of.rank.Less(p.rank) {
			p.doubtSince = now // soon it is known
		}
	}
	p.askAt = now.Add(askPromisedEvery)
	return now.Sub(p.doubtSince) >= maxDoubt
}

// confirm records that a search has confirmed a promise.
func (s *promises) confirm(p *promise, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.doubtSince = time.Time{}
	p.askAt = p.askOfChange(now, later(now.Add(askPromisedEvery), p.at().Add(promiseDelay)))
}

// bookedIn records that the reservation of a promise was booked in an epoch of the matcher's graph or, with 0, that it is
// not known. Then the group asks again soon.
func (s *promises) bookedIn(p *promise, epoch match.Epoch, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.booked = epoch; epoch == 0 {
		p.askAt = now.Add(askAgainAfter)
	}
}

// newJob returns a job for a new promise to a group.
func (s *promises) newJob(key types.NamespacedName) match.JobID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return match.NewJobID("promise", key.Namespace, key.Name, strconv.FormatUint(s.made, 10))
}

// set sets the promise of a group.
func (s *promises) set(key types.NamespacedName, p *promise) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups == nil {
		s.groups = map[types.NamespacedName]*promise{}
	}
	s.groups[key] = p
	s.unpromised.forgetLoss(key)
}

// drop ends the promise of a group, and returns it. It returns nil if there is none.
func (s *promises) drop(key types.NamespacedName) *promise {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.groups[key]
	delete(s.groups, key)
	return p
}

// ignoredBy returns the reservations that a match for a group overlooks. These are its own and those of the groups after
// it. A group without a kept end also overlooks promises that are not strict yet. first is set for pods that replace lost
// members and have no kept end. Such pods overlook all reservations: the members that run may need them to end. Members
// with a kept end do not.
func (s *promises) ignoredBy(key types.NamespacedName, rank gang.Rank, first, ends bool, now time.Time) []match.JobID {
	return s.jobsOf(func(of types.NamespacedName, p *promise) bool {
		return of == key || first || rank.Less(p.rank) || !ends && now.Before(p.strictAt)
	})
}

// ignoredLater returns the reservations that a search for a later time ignores. It ignores the group's own reservation and those
// of the groups after it. It also ignores those of groups that have found nodes: they leave that room when they start.
func (s *promises) ignoredLater(key types.NamespacedName, rank gang.Rank) []match.JobID {
	return s.jobsOf(func(of types.NamespacedName, p *promise) bool { return of == key || rank.Less(p.rank) || p.leaves })
}

// sparedBy returns the reservations that the first match for a group respects and the second one ignores. These are the
// reservations of the groups after it. One that its group is about to leave is not spared, and neither is its own.
func (s *promises) sparedBy(key types.NamespacedName, rank gang.Rank) []match.JobID {
	return s.jobsOf(func(of types.NamespacedName, p *promise) bool { return of != key && rank.Less(p.rank) && !p.leaves })
}

// jobsOf returns the reservations of some promises, in order.
func (s *promises) jobsOf(which func(of types.NamespacedName, p *promise) bool) (jobs []match.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, p := range s.groups {
		if which(of, p) {
			jobs = append(jobs, p.job.ID)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// setLeaves records whether a group is about to leave the room that it is promised. It returns the promise that it changes by
// that, or nil.
func (s *promises) setLeaves(key types.NamespacedName, leaves bool) *promise {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.groups[key]
	if p == nil || p.leaves == leaves {
		return nil
	}
	p.leaves = leaves
	return p
}

// before counts the promises of groups before a rank. A group that has found nodes does not count. Its promise ends when it
// starts, so the next group gets a promise at once. If it counted, the group that happens to ask after the start would get it.
func (s *promises) before(rank gang.Rank) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.groups {
		if p.rank.Less(rank) && !p.leaves {
			n++
		}
	}
	return n
}

// meets reports whether a group before a rank is promised room on some nodes.
func (s *promises) meets(rank gang.Rank, nodes sets.Set[string]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.groups {
		if p.rank.Less(rank) && meet(p.nodes, nodes) {
			return true
		}
	}
	return false
}

// beyond returns the groups with promises that are not among the first ones of this number. Those that are about to leave
// their room do not count.
func (s *promises) beyond(depth int) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.DeleteFunc(s.inOrder(), func(key types.NamespacedName) bool { return s.groups[key].leaves })
	return keys[min(depth, len(keys)):]
}

// inOrder returns the groups with promises in their order. The caller holds the lock.
func (s *promises) inOrder() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(s.groups), func(a, b types.NamespacedName) int { return s.groups[a].rank.Compare(s.groups[b].rank) })
}

// disturbed returns the groups after a rank that are promised room on some nodes before a time. A zero time is never.
func (s *promises) disturbed(rank gang.Rank, nodes sets.Set[string], until time.Time) (keys []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.inOrder() {
		if p := s.groups[key]; rank.Less(p.rank) && (until.IsZero() || p.at().Before(until)) && meet(p.nodes, nodes) {
			keys = append(keys, key)
		}
	}
	return keys
}

// meet reports whether two sets have a name in common.
func meet(a, b sets.Set[string]) bool {
	if len(b) < len(a) {
		a, b = b, a
	}
	for name := range a {
		if b.Has(name) {
			return true
		}
	}
	return false
}

// owner returns the group to which a job's room is promised.
func (s *promises) owner(job match.JobID) (key types.NamespacedName, priority int32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, p := range s.groups {
		if p.job.ID == job {
			return of, p.rank.Priority, true
		}
	}
	return key, 0, false
}

// due returns the groups that are to ask although nothing has changed: their promised time has come.
func (s *promises) due(now time.Time) (keys []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.inOrder() {
		if p := s.groups[key]; !now.Before(p.askAt) {
			p.askAt = now.Add(askPromisedEvery)
			keys = append(keys, key)
		}
	}
	return keys
}

// askSoon lets the groups ask that are promised room on a node, in a moment: the matcher gets the change first.
func (s *promises) askSoon(node string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.groups {
		if !p.nodes.Has(node) {
			continue
		}
		p.changedAt = now
		if at := now.Add(promiseDelay); at.Before(p.askAt) {
			p.askAt = at
		}
	}
}

// over returns the groups whose promises are to end. Those that are gone do not wait for room any more. Those that do not use
// it do not ask, or find nodes again and again and do not start there. While the matcher cannot be asked, which answers says,
// nothing is known and no doubt lasts.
func (s *promises) over(now time.Time, answers bool, waits func(types.NamespacedName) bool) (gone, unused []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.inOrder() {
		p := s.groups[key]
		if !answers && !p.doubtSince.IsZero() {
			p.doubtSince = now
		}
		switch {
		// The refusal of a group is recorded a moment after its first promise.
		case now.Sub(p.madeAt) > tick && !waits(key):
			gone = append(gone, key)
		case !p.doubtSince.IsZero() && now.Sub(p.doubtSince) > maxUnused:
			unused = append(unused, key)
		}
	}
	s.unpromised.keep(now, waits)
	return gone, unused
}

// undoubt records that a group could not ask, so that its last doubt says nothing more about its promise.
func (s *promises) undoubt(key types.NamespacedName, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.groups[key]; p != nil && !p.doubtSince.IsZero() {
		p.doubtSince = now
	}
}

// Jobs implements inventory.Source: a graph that is loaded again gets the reservations.
func (s *promises) Jobs() (jobs []match.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.inOrder() {
		jobs = append(jobs, s.groups[key].job)
	}
	return jobs
}
