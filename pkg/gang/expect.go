package gang

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// ExpectRules bound the seats of namespaces. The functions are called with
// a lock held, and have to answer from memory. Nil allows everything.
type ExpectRules struct {
	// WhyNone returns why a group gets no seats, in words fit for a user, by its namespace and its value of
	// group.ExpectAnnotation. It returns nothing if the group may have seats.
	WhyNone func(namespace, annotation string) string
	// WithinQuota returns how many of the expected pods a namespace may have, in their order, besides
	// its pods and the pods for which seats are held. why says why there are no more.
	WithinQuota func(namespace string, held, expected []PodCount) (n int, why string)
}

// A PodCount is a number of pods that are alike.
type PodCount struct {
	Pod *corev1.Pod
	N   int
}

// maxCharge is the longest time for which a namespace gets no seats.
const maxCharge = 2 * time.Hour

// seatAccounts is what is known of how namespaces have used their seats.
//
// It is kept in memory alone. A restart forgets the charges for seats that were given back before it, so a
// namespace may waste seats once more after each restart. Its authors cannot cause restarts. Seats
// that are held at a restart are not forgotten: PodGroups record them, the new process restores
// them, and charges the namespace when it gives them back.
type seatAccounts struct {
	// charges has the namespaces that have wasted seats lately.
	charges map[string]seatCharge
	// short has, by namespace, for how long seats were given back unused that were held for a shorter time.
	short map[string]shortHolds
	// unused has the seats that were given back unused since the last call of settleSeats.
	unused []unusedSeats
}

// A seatCharge says until when the groups of a namespace get no seats.
type seatCharge struct {
	until time.Time
	// pause is how long they get none. held is how long the wasted seats were held.
	pause, held time.Duration
}

// A shortHolds adds up times for which a namespace has held seats that were given back unused, before
// that counted as wasted. Times in which several were held count once. They are forgotten maxCharge after until.
type shortHolds struct {
	sum   time.Duration
	until time.Time
}

// unusedSeats are seats of one group that were given back, or that pods took which ask for less.
type unusedSeats struct {
	namespace string
	// since is since when they were held. They were held until most later at the latest, also if this process
	// came later. least is for how long they have to be held to count as wasted.
	since       time.Time
	least, most time.Duration
	seats       int
}

// A SeatUse is what has become of seats of a namespace.
type SeatUse struct {
	Namespace string
	// Taken is how many were taken by the pods that they were held for. Wasted is how many
	// were held for nothing. Both are 0 in the first SeatUse after a group has got seats.
	Taken, Wasted int
}

// boundSeats returns stand-ins for the expected pods that a group may have seats for. expected is how many it
// expects, by template. note says, in words fit for a user, why these are not all, and which annotations
// about seats are ignored.
func (g *core) boundSeats(s *groupState, expected map[string]int, now time.Time) (kept []standIn, note string) {
	sum := 0
	for _, n := range expected {
		sum += max(0, n)
	}
	if sum == 0 {
		return nil, ""
	}
	timeout, total, ignored := g.expectTimes(s)
	why := g.whyNoSeats(s, now)
	if why == "" && min(timeout, total) <= 0 {
		why = "the time for it is 0s"
	}
	if why == "" {
		kept = standIns(s, expected, g.attempts)
		if g.seatRules.WithinQuota != nil {
			n, lacks := g.seatRules.WithinQuota(s.key.Namespace, g.seatedPods(s), podCounts(kept))
			kept, why = kept[:n], lacks
		}
	}
	var notes []string
	switch {
	case len(kept) == 0:
		notes = append(notes, fmt.Sprintf("no room is held for %s: %s", reason.Plural(sum, "expected pod"), why))
	case len(kept) < sum:
		notes = append(notes, fmt.Sprintf("room is held for %d of %s: %s", len(kept), reason.Plural(sum, "expected pod"), why))
	}
	if ignored != nil && len(kept) > 0 {
		notes = append(notes, ignored.Error())
	}
	return kept, strings.Join(notes, "; ")
}

// whyNoSeats returns why a group gets no seats, whatever it expects. It returns nothing if it may have some.
func (g *core) whyNoSeats(s *groupState, now time.Time) string {
	if g.seatRules.WhyNone != nil {
		if why := g.seatRules.WhyNone(s.key.Namespace, expectAnnotations(s).Expect); why != "" {
			return why
		}
	}
	if c, is := g.seats.charges[s.key.Namespace]; is && now.Before(c.until) {
		return fmt.Sprintf("groups of namespace %s get none until %s, because room that was held for others was not used for %s",
			s.key.Namespace, reason.Time(c.until, now), c.held.Round(time.Second))
	}
	return ""
}

// seatedPods returns the pods for which the groups of a group's namespace hold seats.
func (r *registry) seatedPods(s *groupState) []PodCount {
	var all []PodCount
	for _, o := range r.seatedGroups {
		if o.key.Namespace != s.key.Namespace {
			continue
		}
		last := ""
		for _, t := range o.free {
			all, last = appendPod(all, t.pod, t.template == last), t.template
		}
	}
	return all
}

// podCounts counts the pods of stand-ins, in their order.
func podCounts(all []standIn) []PodCount {
	var counts []PodCount
	last := ""
	for _, e := range all {
		counts, last = appendPod(counts, e.pod, e.template == last), e.template
	}
	return counts
}

// appendPod adds a pod to counts. same says that it is of the template of the last one.
func appendPod(counts []PodCount, pod *corev1.Pod, same bool) []PodCount {
	if same && len(counts) > 0 {
		counts[len(counts)-1].N++
		return counts
	}
	return append(counts, PodCount{pod, 1})
}

// expectAnnotations returns the annotations about seats of a group: of its
// PodGroup, or else of the oldest member that has the annotation.
func expectAnnotations(s *groupState) group.ExpectAnnotations {
	var x group.ExpectAnnotations
	if s.podGroup != nil {
		x = s.podGroup.Expect
	}
	for key, value := range map[string]*string{group.ExpectAnnotation: &x.Expect, group.ExpectTimeoutAnnotation: &x.Timeout, group.ExpectTotalAnnotation: &x.Total} {
		if *value != "" {
			continue
		}
		if m := s.first(func(m *member) bool { return m.pod.Annotations[key] != "" }); m != nil {
			*value = m.pod.Annotations[key]
		}
	}
	return x
}

// expectTimes returns for how long the seats of a group are held, as SeatRules has it, or shorter as an
// annotation has it. The error names the first annotation that is ignored, in words fit for a user.
func (r *rules) expectTimes(s *groupState) (timeout, total time.Duration, err error) {
	x := expectAnnotations(s)
	timeout, err = group.ParseExpectTime(group.ExpectTimeoutAnnotation, x.Timeout, r.seatRules.ExpectTimeout)
	total, wrong := group.ParseExpectTime(group.ExpectTotalAnnotation, x.Total, r.seatRules.ExpectTotal)
	if err == nil {
		err = wrong
	}
	return timeout, total, err
}

// noteUnused notes that a group has given back seats that no pod has taken.
func (g *core) noteUnused(s *groupState, seats int) {
	if s.seenSince.IsZero() || seats == 0 {
		return
	}
	timeout, total, _ := g.expectTimes(s)
	g.seats.unused = append(g.seats.unused, unusedSeats{s.key.Namespace, seatsSince(s), min(timeout, total), total, seats})
}

// seatsSince returns since when a group has had its seats, as far as this process knows.
func seatsSince(s *groupState) time.Time {
	if !s.heldSince.IsZero() && s.heldSince.Before(s.seenSince) {
		return s.heldSince
	}
	return s.seenSince
}

// noteTaken notes that a member has taken a seat. If the pod asks for less
// than the seat, the owner has promised more than it needs, and the seat counts as unused.
func (g *core) noteTaken(s *groupState, m *member, t *seat) {
	g.out.Seats = append(g.out.Seats, SeatUse{Namespace: s.key.Namespace, Taken: 1})
	if asks := (demand{g.demandOf(m).amounts, t.demand.priority}); !asks.covers(t.demand) {
		g.noteUnused(s, 1)
	}
}

// settleSeats charges namespaces for the seats that they have wasted. Seats are wasted if they are given back
// unused after at least their time, for whatever reason. Otherwise an author could hold seats for ever by
// deleting each group in time. Shorter times add up. A namespace that is charged gets no seats. It also
// loses the seats that it got later than the first wasted ones. Otherwise it could hold seats for longer
// than ExpectTotal, by groups that start one after the other.
func (g Seats) settleSeats(now time.Time) {
	for _, s := range g.seatedGroups {
		switch {
		case len(s.free) == 0:
			s.seenSince = time.Time{}
		case s.seenSince.IsZero():
			s.seenSince = now
			g.out.Seats = append(g.out.Seats, SeatUse{Namespace: s.key.Namespace})
		}
	}
	first := map[string]time.Time{}
	for _, u := range g.seats.unused {
		held := min(now.Sub(u.since), u.most)
		end := u.since.Add(held)
		if held < u.least {
			held = g.seats.addShort(u, held)
		}
		if held <= 0 || held < u.least || !g.seats.charge(u.namespace, held, end, now) {
			continue
		}
		g.out.Seats = append(g.out.Seats, SeatUse{Namespace: u.namespace, Wasted: u.seats})
		if at, is := first[u.namespace]; !is || u.since.Before(at) {
			first[u.namespace] = u.since
		}
	}
	for _, s := range g.seatedGroups {
		if at, is := first[s.key.Namespace]; is && seatsSince(s).After(at) {
			g.giveBackSeats(s, g.whyNoSeats(s, now), nil)
			g.recompute(s)
		}
	}
	// Those that a group has just lost because of others do not count.
	g.seats.unused = nil
}

// addShort adds the time for which seats were held to the sum of the short times of their namespace, and returns
// the sum. A sum that is long enough to count as wasted is returned once, and begins anew.
func (a *seatAccounts) addShort(u unusedSeats, held time.Duration) time.Duration {
	for name, s := range a.short {
		if u.since.Sub(s.until) >= maxCharge {
			delete(a.short, name)
		}
	}
	s, end := a.short[u.namespace], u.since.Add(held)
	if from := later(s.until, u.since); end.After(from) {
		s.sum += end.Sub(from)
	}
	s.until = later(s.until, end)
	sum := s.sum
	if sum >= u.least {
		s.sum = 0
	}
	if a.short == nil {
		a.short = map[string]shortHolds{}
	}
	a.short[u.namespace] = s
	return sum
}

// charge charges a namespace for wasted seats, which were held for a time that ended at end: its groups get
// none for as long. If that happens again, they get none for twice as long as the last time, and at most for
// maxCharge. A charge counts as the last one until maxCharge after its end. It returns false if it would be over.
func (a *seatAccounts) charge(namespace string, held time.Duration, end, now time.Time) bool {
	for name, c := range a.charges {
		if now.Sub(c.until) >= maxCharge {
			delete(a.charges, name)
		}
	}
	last, pause := a.charges[namespace], held
	switch {
	case now.Before(last.until): // seats that were held together with those of the last charge
		pause = max(last.pause, held)
	case last.pause > 0:
		pause = max(2*last.pause, held)
	}
	pause = min(pause, maxCharge)
	until := later(last.until, end.Add(pause))
	if !now.Before(until) {
		return false
	}
	if a.charges == nil {
		a.charges = map[string]seatCharge{}
	}
	a.charges[namespace] = seatCharge{until, pause, held}
	return true
}

// seatCounts returns how many seats are held, by namespace. It returns nil if there are none.
func (r *registry) seatCounts() map[string]int {
	var counts map[string]int
	for _, s := range r.seatedGroups {
		if len(s.free) == 0 {
			continue
		}
		if counts == nil {
			counts = map[string]int{}
		}
		counts[s.key.Namespace] += len(s.free)
	}
	return counts
}
