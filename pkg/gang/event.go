package gang

import "slices"

// An Event is a kind of change that may help a group that was refused.
type Event int

const (
	// Released is that somebody gave resources back.
	Released Event = iota
	// NodeChanged is that a node came, went or changed.
	NodeChanged
	// PodChanged is that a pod came to a node or left one, which filters between pods
	// take note of.
	PodChanged
	// StorageChanged is that a volume, a claim or a storage class changed.
	StorageChanged
	// MatcherBack is that the engine answers again, or has a new graph.
	MatcherBack
	// ReservationEnded is that nodes are no longer reserved for a group that has waited for long.
	ReservationEnded
	// SharedPodGone is that a pod has gone which seemed to run on every node. It helps whom NodeChanged
	// helps, but a group that yields does not look for nodes again before its time: everybody can make
	// pods that come and go so. It may have been in the group's way, since a look takes such pods for
	// ones that stay: then nodes are found up to a minute later.
	SharedPodGone

	numEvents
)

// AllEvents lists all events.
func AllEvents() []Event {
	return []Event{Released, NodeChanged, PodChanged, StorageChanged, MatcherBack, ReservationEnded}
}

// ClusterEvents lists the events of the cluster. Freed is not among them: a group that
// gives back what it was given would wake its like, and these it again.
func ClusterEvents() []Event { return []Event{NodeChanged, PodChanged, StorageChanged} }

// Helps says whether an event ends the wait for one of some events.
func Helps(until []Event, ev Event) bool {
	if ev == SharedPodGone {
		ev = NodeChanged
	}
	return slices.Contains(until, ev)
}

// An eventSet is a set of events, a bit for each.
type eventSet uint32

func (s eventSet) has(ev Event) bool { return s&(1<<ev) != 0 }
