package gang

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A Restart says for how long the room of a pod that fails or is deleted is
// kept for the pod that the group's owner makes in its place.
type Restart struct {
	Key      types.NamespacedName
	Priority int32
	// Timeout is for how long room is kept after the last pod has left. Total, which is not shorter,
	// is for how long the room of a pod is kept after it has left.
	Timeout, Total time.Duration
	// Pods is for how many pods room is kept at most.
	Pods int
}

// RestartOf returns the Restart of a pod's group. It returns false if no room is kept for the pod's successor:
// the group has not started, does not ask for it by group.RestartTimeoutAnnotation, is suspended or has
// ended, or its namespace gets no seats. No room is kept of a pod that was created on its node either.
func (g Lister) RestartOf(uid types.UID, now time.Time) (Restart, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || !m.keepsNode() || !m.group.started {
		return Restart{}, false
	}
	timeout, _ := g.restartTimeout(m)
	if timeout <= 0 || !g.keepsRoom(m.group, now) {
		return Restart{}, false
	}
	return Restart{
		Key: m.group.key, Priority: m.priority(), Timeout: timeout, Total: max(timeout, g.seatRules.ExpectTotal), Pods: m.group.minimum(),
	}, true
}

// keepsRoom reports whether room may be kept for pods of a group that are made again.
func (g Lister) keepsRoom(s *groupState, now time.Time) bool {
	return s.podGroup != nil && !s.podGroup.Ended && !s.podGroup.Suspended && g.whyNoSeats(s, now) == ""
}

// Lacks returns how many of the pods that a group requires have no node. It returns 0 if no room may be kept
// for them any more: see RestartOf.
func (g Lister) Lacks(key types.NamespacedName, now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || !g.keepsRoom(s, now) {
		return 0
	}
	return max(0, s.minimum()-s.number(placedMembers))
}

// restartTimeout returns for how long the room of a member is kept that is made again, by the annotation of the PodGroup
// or of the member. It is 0 without the annotation. The error says that the annotation is ignored, in words fit for a user.
func (r *rules) restartTimeout(m *member) (time.Duration, error) {
	value := m.pod.Annotations[group.RestartTimeoutAnnotation]
	if pg := m.group.podGroup; pg != nil && pg.Expect.Restart != "" {
		value = pg.Expect.Restart
	}
	if value == "" {
		return 0, nil
	}
	if len(templatesOf(m.group)) > 0 {
		// Room would be kept for the first pods alone. The pods that follow them would find none.
		return 0, fmt.Errorf("annotation %s: %q: is ignored, because the owner of the group makes some of its pods only after others", group.RestartTimeoutAnnotation, value)
	}
	timeout, err := group.ParseExpectTime(group.RestartTimeoutAnnotation, value, r.seatRules.ExpectTimeout)
	if err != nil {
		return 0, fmt.Errorf("no room is kept for pods that are made again: %w", err)
	}
	return timeout, nil
}

// NoteKept notes that room was kept for pods since a time, and was given up unused. It counts as
// seats that were given back unused.
func (g Seats) NoteKept(r Restart, since time.Time, pods int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seats.unused = append(g.seats.unused, unusedSeats{r.Key.Namespace, since, r.Timeout, r.Total, pods})
}
