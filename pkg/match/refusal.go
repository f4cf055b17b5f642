package match

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors that callers tell apart. Any other error is unexpected.
var (
	// ErrBusy: the request fits the graph but not what is free now, or the engine found no placement
	// within its search budget.
	ErrBusy = errors.New("resources are busy")
	// ErrUnsatisfiable: the request would not fit even if only Shared slots held resources in the
	// whole graph.
	ErrUnsatisfiable = errors.New("request can never be satisfied")
	// ErrUnavailable: the engine does not answer, or its graph is not loaded yet.
	ErrUnavailable = errors.New("the matcher does not answer")
	// ErrLoading is also ErrUnavailable: the engine answers that it is loading its graph, and has done
	// nothing else. The caller waits: it calls Ready again, and does not load the graph anew.
	ErrLoading error = specialError{"the matcher is loading its graph", ErrUnavailable}
	// ErrConflict: the job already holds resources that it was given for a different request.
	ErrConflict = errors.New("the job already holds an allocation for a different request")
	// ErrStale: the call was made for another epoch of the graph.
	ErrStale = errors.New("stale epoch of the graph")
	// ErrInvalid: the arguments are wrong. What jobs hold matters only for Request.Ignore and for an
	// Update that reserves.
	ErrInvalid = errors.New("invalid request")
	// ErrPolicy is also ErrInvalid: the engine does not offer the policy that the request names. The
	// error lists the policies that the engine offers.
	ErrPolicy error = specialError{"the matcher does not offer the policy", ErrInvalid}
)

// A specialError is an error that is also another error of the contract.
type specialError struct {
	text string
	of   error
}

func (e specialError) Error() string { return e.text }

// Is makes it the other error too.
func (e specialError) Is(target error) bool { return target == e.of }

// A Code is the reason why a request was refused.
type Code string

const (
	// NoNode means: no node is usable. The graph has no nodes, or all of them are down or excluded by
	// constraints.
	NoNode Code = "NoNode"
	// TooLarge means: not a single slot fits on any usable node, even if only Shared slots held resources
	// there.
	TooLarge Code = "TooLarge"
	// TooFew means: some of the slots fit, but fewer than are wanted.
	TooFew Code = "TooFew"
	// NotFound means: the amounts would be enough, but no placement was found within the search budget.
	NotFound Code = "NotFound"
	// TooHard means: the search for a placement took more work than one request may take. The code tells
	// nothing about other requests.
	TooHard Code = "TooHard"
	// Overtaken means: a placement was found, but before it was booked others had taken its resources or the
	// graph had changed.
	Overtaken Code = "Overtaken"
)

// A Reason explains in numbers why a request was refused.
type Reason struct {
	Code Code `json:"code"`
	// Slot is the label of the first slot request that fails.
	Slot string `json:"slot,omitempty"`
	// Level is the type of vertex at which the slot request fails, for instance node or rack.
	Level string `json:"level"`
	// Vertex is the name of the vertex that came closest. It is empty if none can be named.
	Vertex string `json:"vertex,omitempty"`
	// Wanted is the minimum number of slots.
	Wanted int64 `json:"wanted"`
	// Found is the number of slots that fit.
	Found int64 `json:"found"`
	// Nodes is the number of nodes in the graph.
	Nodes int64 `json:"nodes"`
	// Down is the number of nodes that are down.
	Down int64 `json:"down,omitempty"`
	// Excluded is the number of nodes that are up but excluded by constraints.
	Excluded int64 `json:"excluded,omitempty"`
	// OtherHolder is the number of nodes that are up and not excluded, but belong to another holder as
	// a whole. Waiting helps.
	OtherHolder int64 `json:"whole,omitempty"`
	// InUse is the number of further nodes where others hold something, if whole nodes are wanted.
	// Waiting helps.
	InUse int64 `json:"inUse,omitempty"`
	// Shortages lists the pools that run short, by type.
	Shortages []Shortage `json:"shortages,omitempty"`
	// Blocker is the job whose end would help most in the Vertex that came closest. If there is no Vertex,
	// an engine may look at a part of the nodes, and name the job whose end helps most there. Blocker is
	// nil if the end of no single job would help.
	Blocker *Blocker `json:"end,omitempty"`
	// Promised is what reservations keep from the request. It is nil if they are not in the way. An engine
	// may leave it nil if the search for it would take too much work, and for a graph that was added.
	Promised *Promised `json:"promised,omitempty"`
	// WaitingHelps reports whether the request may fit once other jobs end.
	WaitingHelps bool `json:"waitingHelps"`
	// AllDisplaced reports whether the numbers count as if all units of Request.Displace were gone.
	AllDisplaced bool `json:"allDisplaced,omitempty"`
	// MayNeverFit means that the request may never fit: even if all jobs had
	// ended, no placement was found, but it is not proven that none exists.
	MayNeverFit bool `json:"mayNeverFit,omitempty"`
}

// Terse returns what the refusal of a terse request has of a reason: how many slots were found, where, and the
// code.
func (r Reason) Terse() Reason {
	return Reason{
		Code: r.Code, Slot: r.Slot, Level: r.Level, Vertex: r.Vertex, Wanted: r.Wanted, Found: r.Found, Nodes: r.Nodes,
		WaitingHelps: r.WaitingHelps, MayNeverFit: r.MayNeverFit,
	}
}

// A Blocker is a job whose end would make room for more slots.
type Blocker struct {
	// Job is the job that holds the room.
	Job JobID `json:"job"`
	// MoreSlots is the number of slots that would fit in addition to Reason.Found if Job ended.
	MoreSlots int64 `json:"more"`
}

// A Promised is what reservations keep from a request that was refused for now.
type Promised struct {
	// Job is the job whose reservation begins first, of those that take room on nodes that the request may use.
	Job JobID `json:"job"`
	// MoreSlots is the number of slots that would fit in addition to Reason.Found if reservations did not
	// count.
	MoreSlots int64 `json:"more"`
	// From is when the reservation of Job begins. A request that ends by then finds the additional slots.
	From time.Time `json:"from"`
}

// A Shortage is one type of pool that keeps slots from fitting.
type Shortage struct {
	// Type is the type of the pool's vertices in the graph.
	Type string `json:"type"`
	// Unit is the unit of the pool in the graph.
	Unit string `json:"unit,omitempty"`
	// Wanted is the amount that one slot needs.
	Wanted int64 `json:"wanted"`
	// MaxOnNode is the largest amount that is available on one of the Nodes or, if Nodes is zero, on one
	// usable node, of Reason.Vertex if that is set. It is what is free now or, if Code is TooLarge, what
	// is free while only Shared slots are held.
	MaxOnNode int64 `json:"most"`
	// Nodes is the number of usable nodes that have less than Wanted. Zero means that each node has
	// enough for one slot, but that the pool runs out before all slots are placed.
	Nodes int64 `json:"nodes"`
}

// String renders the reason with the type names, units and slot labels of the graph and the
// request.
func (r Reason) String() string {
	var b strings.Builder
	slot, one := "slots", "slot"
	if r.Slot != "" {
		slot, one = fmt.Sprintf("slots of %q", r.Slot), fmt.Sprintf("slot of %q", r.Slot)
	}
	switch r.Code {
	case NoNode:
		fmt.Fprintf(&b, "no node may be used for %d %s", r.Wanted, slot)
	case TooLarge:
		fmt.Fprintf(&b, "no node is large enough for one %s, %d wanted", one, r.Wanted)
	case TooFew:
		fmt.Fprintf(&b, "room for %d of %d %s", r.Found, r.Wanted, slot)
	case NotFound:
		fmt.Fprintf(&b, "no placement found for %d %s", r.Wanted, slot)
	case TooHard:
		fmt.Fprintf(&b, "the search for a placement of %d %s exceeded the work limit of one request", r.Wanted, slot)
	case Overtaken:
		fmt.Fprintf(&b, "a placement of %d %s was found, but its nodes were taken or changed before it could be booked", r.Wanted, slot)
	}
	if r.Vertex != "" {
		fmt.Fprintf(&b, " in %s %s", r.Level, r.Vertex)
	}
	b.WriteString(" (" + countNodes(r.Nodes))
	if r.Down > 0 {
		fmt.Fprintf(&b, ", %d down", r.Down)
	}
	if r.Excluded > 0 {
		fmt.Fprintf(&b, ", %d excluded", r.Excluded)
	}
	if r.OtherHolder > 0 {
		fmt.Fprintf(&b, ", %d held whole by another holder", r.OtherHolder)
	}
	if r.InUse > 0 {
		fmt.Fprintf(&b, ", %d in use but wanted whole", r.InUse)
	}
	b.WriteByte(')')
	for _, s := range r.Shortages {
		fmt.Fprintf(&b, "; %s: %d%s wanted per slot, at most %d%s available, ", s.Type, s.Wanted, s.Unit, s.MaxOnNode, s.Unit)
		if s.Nodes == 0 {
			b.WriteString("runs out before all slots are placed")
		} else {
			b.WriteString("too little on " + countNodes(s.Nodes))
		}
	}
	return b.String()
}

func countNodes(n int64) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// A Refusal is the error of a Match that found no room.
type Refusal struct {
	// Err is ErrBusy or ErrUnsatisfiable.
	Err    error
	Reason Reason
	// Waited is how long the Match waited for other calls.
	Waited time.Duration
}

// SetWaited records in the answer to a Match how long the Match waited for other calls. The answer
// is a, or a *Refusal in err.
func SetWaited(a *Allocation, err error, waited time.Duration) {
	if no, refused := errors.AsType[*Refusal](err); refused {
		no.Waited = waited
	}
	if a != nil {
		a.Waited = waited
	}
}

// Error returns the verdict and the reason.
func (r *Refusal) Error() string { return r.Err.Error() + ": " + r.Reason.String() }

// Unwrap returns the verdict.
func (r *Refusal) Unwrap() error { return r.Err }
