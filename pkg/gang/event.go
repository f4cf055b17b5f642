package gang

import "slices"

// An Event is a kind of change that may help a refused group.
type Event int

const (
	// Released means that resources were released.
	Released Event = iota
	// NodeChanged means that a node came, went or changed.
	NodeChanged
	// PodChanged means that a pod came to a node or left
	// one. Filters that compare pods depend on that.
	PodChanged
	// StorageChanged means that a volume, a claim or a storage class changed.
	StorageChanged
	// MatcherBack means that the matcher answers again, or has a new graph.
	MatcherBack
	// ReservationEnded means that nodes are no longer
	// reserved for a group that has waited for long.
	ReservationEnded
	// DaemonPodGone means that a pod that seemed to run on every node has gone. It helps the groups
	// that NodeChanged helps. But it does not hasten the next attempt of a group that yields,
	// because anyone can make pods that come and go. If such a pod was a blocker of a group that
	// yields, this group finds its nodes only at its next regular attempt, up to a minute later.
	DaemonPodGone

	numEvents
)

// AllEvents returns all events except DaemonPodGone, which Helps treats as NodeChanged.
func AllEvents() []Event {
	return []Event{Released, NodeChanged, PodChanged, StorageChanged, MatcherBack, ReservationEnded}
}

// ClusterEvents returns the changes of the cluster. Released is not among them: otherwise two
// groups that are refused and release their nodes would activate each other again and again.
func ClusterEvents() []Event { return []Event{NodeChanged, PodChanged, StorageChanged} }

// Helps reports whether an event is one of the events
// in until. DaemonPodGone counts as NodeChanged.
func Helps(retryOn []Event, ev Event) bool {
	if ev == DaemonPodGone {
		ev = NodeChanged
	}
	return slices.Contains(retryOn, ev)
}

// An eventSet is a set of events, with a bit for each.
type eventSet uint32

func (s eventSet) has(ev Event) bool { return s&(1<<ev) != 0 }
