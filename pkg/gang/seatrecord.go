package gang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// RecordedSeats is how many pods of each template have a seat or an assignment on each node, by
// template and node, as a PodGroup's status records it.
type RecordedSeats map[string]map[string]int

func (r RecordedSeats) equal(o RecordedSeats) bool { return maps.EqualFunc(r, o, maps.Equal) }

// A seatRecord is what the PodGroup's status says of the seats of a group.
type seatRecord struct {
	// recorded is what the status says, by what this process has read or written last. read is what was
	// read last, which may be older.
	recorded, read RecordedSeats
	// version is the number of the group's present seats, and writtenVersion of those in the status. The
	// status lacks the present ones while the two differ. Then the group does not start.
	version, writtenVersion uint64
	// left and seen belong to a group that another process has matched. left is how many pods the record
	// has at a place, without the seats that were given back. seen is the largest number of members that
	// were present there since the record was read: their seats are taken.
	left, seen map[place]int
	// echoes are the records that this process has written and not read yet, the oldest first, and
	// takenEchoes the messages on seats that are looked for. They are kept if another process matched the group.
	echoes      []RecordedSeats
	takenEchoes []string
	// readMissing is what the status was last seen to say of pods that did not come, and readTaken of
	// seats that are looked for.
	readMissing, readTaken string
	// followed is what the seats were last restored by.
	followed followedState
}

// A followedState distinguishes states of a group in which other seats may be free.
type followedState struct {
	podGroup *PodGroup
	changes  uint64
	free     int
}

// isUnrecorded reports whether the PodGroup's status lacks the present seats of a group.
func (r *seatRecord) isUnrecorded() bool { return r.version != r.writtenVersion }

// A SeatRecord is what a PodGroup's status is to say of the seats of a group.
type SeatRecord struct {
	// Seats is empty if the group has no seats.
	Seats RecordedSeats
	// Reason and Message say why pods that are expected have no seats: reason.ExpectedMissing or
	// reason.SeatsTaken. They are empty if all have.
	Reason, Message string
	version         uint64
}

// SeatsToRecord returns what a PodGroup's status has to record before a pod of the group is bound. It
// returns nil if there is nothing to record.
func (g Seats) SeatsToRecord(key types.NamespacedName) *SeatRecord {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || s.podGroup == nil || !s.isUnrecorded() {
		return nil
	}
	s.update()
	r := &SeatRecord{Seats: RecordedSeats{}, version: s.version}
	switch {
	case s.whyMissing != "":
		r.Reason, r.Message = reason.ExpectedMissing, s.whyMissing
	case len(s.sought) > 0 && s.lost != "":
		r.Reason, r.Message = reason.SeatsTaken, s.lost
	}
	if len(s.free) == 0 && s.number(tentativeMembers) == 0 {
		return r
	}
	add := func(p place, n int) {
		if r.Seats[p.template] == nil {
			r.Seats[p.template] = map[string]int{}
		}
		r.Seats[p.template][p.node] += n
	}
	for _, t := range s.free {
		add(t.place(), 1)
	}
	for p, n := range s.places {
		add(p, n)
	}
	return r
}

// SeatsRecorded records that the PodGroup's status has the seats of a group that SeatsToRecord returned.
func (g Seats) SeatsRecorded(key types.NamespacedName, r *SeatRecord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil {
		s.recorded, s.writtenVersion = r.Seats, r.version
		if !s.matchedHere {
			taken := ""
			if r.Reason == reason.SeatsTaken {
				taken = r.Message
			}
			s.echoes, s.takenEchoes = append(s.echoes, r.Seats), append(s.takenEchoes, taken)
		}
		g.indexSeats(s)
	}
}

// UnrecordedSeats returns the groups whose seats have changed since they were recorded. A group that is
// matched and has not started is left out: its seats are recorded before its first bind.
func (g Seats) UnrecordedSeats() []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []types.NamespacedName
	for key, s := range g.seatedGroups {
		if s.isUnrecorded() && s.podGroup != nil && (s.started || s.number(assignedMembers) == 0) {
			keys = append(keys, key)
		}
	}
	return keys
}

// updateSeats brings the seats of a group in line with its members, its PodGroup and its record.
func (g *core) updateSeats(s *groupState) {
	if !s.started || s.podGroup == nil {
		return
	}
	g.followRecord(s)
	if g.synced {
		followSearch(s)
	}
	if len(s.free) > 0 {
		open := map[string]int{}
		for _, t := range templatesOf(s) {
			open[t.Name] = openSeats(s, t)
		}
		g.giveBackSeats(s, "fewer pods are expected", func(template string) int { return open[template] })
	}
	endSearch(s)
	if s.whyMissing != "" && !lacksExpected(s) {
		s.whyMissing = ""
		s.version++
	}
	if len(s.free) == 0 && len(s.recorded) > 0 && !s.isUnrecorded() && s.number(tentativeMembers) == 0 {
		s.version++ // the record has served its purpose
	}
	g.indexSeats(s)
}

// lacksExpected reports whether pods that were expected in the present stage of a group have no nodes.
func lacksExpected(s *groupState) bool {
	stage := stageOf(s)
	return slices.ContainsFunc(templatesOf(s), func(t Template) bool { return t.Stage == stage && openSeats(s, t) > 0 })
}

// followRecord gives a started group, which another process has matched, the seats that its PodGroup's
// status records and that no member has taken. No more are given than pods are expected. A scheduler
// that leads does so after its start, and one that does not follows its leader in this way.
func (g *core) followRecord(s *groupState) {
	if !g.synced || s.matchedHere || g.seatRules.SlotOf == nil {
		return
	}
	if s.readMissing != s.podGroup.ExpectedMissing {
		s.readMissing, s.whyMissing = s.podGroup.ExpectedMissing, s.podGroup.ExpectedMissing
	}
	news := !s.read.equal(s.podGroup.Seats)
	if i := slices.IndexFunc(s.echoes, s.podGroup.Seats.equal); i >= 0 {
		// This process may have written another record since. The status shows it later.
		s.echoes, news = s.echoes[i+1:], false
	}
	if s.read = s.podGroup.Seats; news && !s.recorded.equal(s.read) {
		s.seatRecord = seatRecord{
			recorded: s.read, read: s.read, version: s.version, writtenVersion: s.version,
			left: map[place]int{}, seen: map[place]int{}, readMissing: s.readMissing, readTaken: s.readTaken, echoes: s.echoes, takenEchoes: s.takenEchoes,
		}
		for template, nodes := range s.recorded {
			for node, n := range nodes {
				s.left[place{template, node}] = n
			}
		}
	}
	s.update()
	state := followedState{s.podGroup, s.templateChanges, len(s.free)}
	if len(s.left)+len(s.free) == 0 || s.followed == state {
		return
	}
	for p, n := range s.places {
		s.seen[p] = max(s.seen[p], n)
	}
	g.restoreSeats(s)
	state.free = len(s.free)
	s.followed = state
}

// followSearch has the seats looked for that a started group has lost, by the status of its PodGroup, if another
// process has matched the group.
func followSearch(s *groupState) {
	if s.matchedHere || s.readTaken == s.podGroup.SeatsTaken {
		return
	}
	s.readTaken = s.podGroup.SeatsTaken
	if i := slices.Index(s.takenEchoes, s.readTaken); i >= 0 {
		s.takenEchoes = s.takenEchoes[i+1:]
		return
	}
	if s.readTaken == "" {
		s.seatSearch = seatSearch{}
		return
	}
	if len(s.sought) > 0 {
		return
	}
	free, stage := map[string]int{}, stageOf(s)
	for _, t := range s.free {
		free[t.template]++
	}
	for _, t := range templatesOf(s) {
		if n := openSeats(s, t) - free[t.Name]; n > 0 && t.Stage <= stage {
			seek(s, t.Name, n)
			s.lost = s.readTaken
		}
	}
	if len(s.sought) == 0 {
		s.version++ // the status says so for no reason any more
	}
}

// restoreSeats gives a group the seats of its record that no member has taken.
func (g *core) restoreSeats(s *groupState) {
	open, used := map[string]int{}, map[place]int{}
	for _, t := range templatesOf(s) {
		open[t.Name] = openSeats(s, t)
	}
	s.free = slices.DeleteFunc(s.free, func(t *seat) bool {
		if p := t.place(); open[t.template] > 0 && s.left[p]-s.seen[p]-used[p] > 0 {
			used[p]++
			open[t.template]--
			return false
		}
		g.out.release(t.job, t.slot.Key)
		return true
	})
	var free []place
	for p, n := range s.left {
		if open[p.template] > 0 && n-s.seen[p]-used[p] > 0 {
			free = append(free, p)
		}
	}
	slices.SortFunc(free, func(a, b place) int {
		return cmp.Or(strings.Compare(a.template, b.template), strings.Compare(a.node, b.node))
	})
	job := match.NewJobID("seats", s.id(""))
	like := map[string]*corev1.Pod{}
	for _, t := range templatesOf(s) {
		if open[t.Name] > 0 {
			like[t.Name] = t.like(s)
		}
	}
	for _, p := range free {
		for range min(open[p.template], s.left[p]-s.seen[p]-used[p]) {
			open[p.template]--
			g.attempts++
			pod := *like[p.template]
			pod.Name = fmt.Sprintf("%s (expected on %s)", p.template, p.node)
			pod.UID = types.UID(fmt.Sprintf("seat/%s/%s/%d", s.id(""), p.template, g.attempts))
			slot := g.seatRules.SlotOf(&pod, p.node)
			if slot.Key = string(pod.UID); s.exclusivity == Exclusive {
				slot.Holder = s.key.String()
			}
			s.free = append(s.free, g.newSeat(standIn{&pod, p.template}, job, slot))
			g.out.book(s.key)
		}
	}
}

// SeatSlots returns the seats of a group that the API does not show as pods, for a matcher that has to be
// told of them.
func (g Seats) SeatSlots(key types.NamespacedName) []match.Job {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return nil
	}
	byJob := map[match.JobID][]match.Slot{}
	for _, t := range s.free {
		byJob[t.job] = append(byJob[t.job], t.slot)
	}
	for _, m := range s.members {
		if m.assignment != nil && m.assignment.seat != nil && !m.hasNode() {
			byJob[m.assignment.job] = append(byJob[m.assignment.job], m.assignment.slot)
		}
	}
	var jobs []match.Job
	for _, id := range slices.Sorted(maps.Keys(byJob)) {
		jobs = append(jobs, match.Job{ID: id, Slots: byJob[id]})
	}
	return jobs
}
