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
	// Timeout is for how long room is kept after the last pod has left. It is shorter than Total,
	// which is for how long room is kept after the first pod has left.
	Timeout, Total time.Duration
}

// RestartOf returns the Restart of a pod's group. It returns false if no room is kept for the pod's successor:
// the group has not started, does not ask for it by group.RestartTimeoutAnnotation, is suspended or has
// ended, or its namespace gets no seats.
func (g Lister) RestartOf(uid types.UID, now time.Time) (Restart, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || !m.hasNode() {
		return Restart{}, false
	}
	s := m.group
	if !s.started || s.podGroup == nil || s.podGroup.Ended || s.podGroup.Suspended {
		return Restart{}, false
	}
	timeout, _ := g.restartTimeout(s)
	if timeout <= 0 || g.whyNoSeats(s, now) != "" {
		return Restart{}, false
	}
	return Restart{Key: s.key, Priority: m.priority(), Timeout: timeout, Total: g.seatRules.ExpectTotal}, true
}

// restartTimeout returns for how long the room of a pod is kept that is made again. It is 0 without the annotation.
// The error says that the annotation is ignored, in words fit for a user.
func (r *rules) restartTimeout(s *groupState) (time.Duration, error) {
	value := expectAnnotations(s).Restart
	if value == "" {
		return 0, nil
	}
	timeout, err := group.ParseExpectTime(group.RestartTimeoutAnnotation, value, r.seatRules.ExpectTimeout)
	if err != nil {
		return 0, fmt.Errorf("no room is kept for pods that are made again: %w", err)
	}
	return timeout, nil
}

// NoteKept notes that room was kept for pods since a time, and was not used. It counts as
// seats that were given back unused.
func (g Seats) NoteKept(r Restart, since time.Time, pods int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seats.unused = append(g.seats.unused, unusedSeats{r.Key.Namespace, since, r.Timeout, r.Total, pods})
}
