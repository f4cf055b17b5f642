package match

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors a caller tells apart. All else is unexpected.
var (
	// ErrBusy: the request fits the graph but not what is free now, or no place
	// was found within the engine's search budget.
	ErrBusy = errors.New("resources are busy")
	// ErrUnsatisfiable: the request would not fit if nobody held anything of the whole
	// graph but what is Shared.
	ErrUnsatisfiable = errors.New("request can never be satisfied")
	// ErrUnavailable: the engine does not answer, or its graph is not loaded yet.
	ErrUnavailable = errors.New("the matcher does not answer")
	// ErrConflict: the job already holds something that was asked for otherwise.
	ErrConflict = errors.New("job holds another allocation")
	// ErrStale: the call was built on another epoch of the graph.
	ErrStale = errors.New("another epoch of the graph")
	// ErrInvalid: the arguments are wrong, whatever the graph holds.
	ErrInvalid = errors.New("invalid request")
)

// A Code says what kind of shortage stands in the way.
type Code string

const (
	// NoNode says that no node may be used at all; there are none, or all are down or
	// ruled out by constraints.
	NoNode Code = "NoNode"
	// TooLarge says that no node that may be used could hold a single slot, though empty
	// of all but what is Shared.
	TooLarge Code = "TooLarge"
	// TooFew says that there is room for some of the slots, not for as many as wanted.
	TooFew Code = "TooFew"
	// NotFound says that by amounts the slots could fit, but no placement was found within
	// the search budget.
	NotFound Code = "NotFound"
	// TooHard says that to look for a placement took more work than one request may have.
	// Another request is not kept from being looked at for that.
	TooHard Code = "TooHard"
	// Overtaken says that a placement was found, and that by then others had taken it or the
	// graph had changed.
	Overtaken Code = "Overtaken"
)

// A Reason says in numbers why a request found no room.
type Reason struct {
	Code Code `json:"code"`
	// Slot is the label of the slot request that fails first.
	Slot string `json:"slot,omitempty"`
	// Level is the type of vertex at which it fails, for instance node or rack,
	// and Vertex the name of the one that came closest, if one can be named.
	Level  string `json:"level"`
	Vertex string `json:"vertex,omitempty"`
	// Wanted is the number of slots needed at the least, and Found how many of
	// them there is room for.
	Wanted int64 `json:"wanted"`
	Found  int64 `json:"found"`
	// Nodes counts the nodes of the graph; Down those of them that are down, and
	// Excluded those that are up but ruled out by constraints.
	Nodes    int64 `json:"nodes"`
	Down     int64 `json:"down,omitempty"`
	Excluded int64 `json:"excluded,omitempty"`
	// OtherHolder counts the nodes that are neither down nor ruled out, and that belong
	// to another holder as a whole; InUse those beside that others hold something
	// of, where whole nodes are wanted. Neither are usable for the present, and
	// waiting helps with both.
	OtherHolder int64 `json:"whole,omitempty"`
	InUse       int64 `json:"inUse,omitempty"`
	// Shortages lists the pools that run short, by type.
	Shortages []Shortage `json:"shortages,omitempty"`
	// Blocker is the one job whose end would help most where the request came closest;
	// nil if the end of none would help.
	Blocker *Blocker `json:"end,omitempty"`
	// WaitingHelps says whether the request can come to fit when others finish.
	WaitingHelps bool `json:"waitingHelps"`
	// MayNeverFit says that no placement was found in the graph without its jobs
	// either, and that none is there was not proven.
	MayNeverFit bool `json:"mayNeverFit,omitempty"`
}

// An End is what the end of a job would do for a request.
type Blocker struct {
	// Job holds the room, and More slots would fit there beside those Found.
	Job       JobID `json:"job"`
	MoreSlots int64 `json:"more"`
}

// A Shortage is one kind of pool that keeps slots from fitting.
type Shortage struct {
	// Type and Unit are the pool's, as in the graph.
	Type string `json:"type"`
	Unit string `json:"unit,omitempty"`
	// Wanted is the amount that one slot needs, Most the largest amount that any
	// usable node, of the Vertex if one is named, has left for it: free now or, where
	// Code is TooLarge, free of all but what is Shared.
	Wanted  int64 `json:"wanted"`
	MaxFree int64 `json:"most"`
	// Nodes counts the usable nodes there that have less than Wanted. 0 says that every
	// node has enough for a slot, but not for as many as would have to stand there.
	Nodes int64 `json:"nodes"`
}

// String renders the reason in the graph's own words.
func (r Reason) String() string {
	var b strings.Builder
	slot := "slots"
	if r.Slot != "" {
		slot = fmt.Sprintf("slots of %q", r.Slot)
	}
	switch r.Code {
	case NoNode:
		fmt.Fprintf(&b, "no node may be used for %d %s", r.Wanted, slot)
	case TooLarge:
		fmt.Fprintf(&b, "no node is large enough for one of %d %s", r.Wanted, slot)
	case TooFew:
		fmt.Fprintf(&b, "room for %d of %d %s", r.Found, r.Wanted, slot)
	case NotFound:
		fmt.Fprintf(&b, "no placement found for %d %s", r.Wanted, slot)
	case TooHard:
		fmt.Fprintf(&b, "too much work to look for a placement of %d %s", r.Wanted, slot)
	case Overtaken:
		fmt.Fprintf(&b, "the placement found for %d %s was taken or changed meanwhile", r.Wanted, slot)
	}
	if r.Vertex != "" {
		fmt.Fprintf(&b, " in %s %s", r.Level, r.Vertex)
	}
	for _, s := range r.Shortages {
		fmt.Fprintf(&b, ", %s: %d%s wanted, %d%s at the most on a node, short on %d", s.Type, s.Wanted, s.Unit, s.MaxFree, s.Unit, s.Nodes)
	}
	fmt.Fprintf(&b, " (%d nodes", r.Nodes)
	if r.Down > 0 {
		fmt.Fprintf(&b, ", %d down", r.Down)
	}
	if r.Excluded > 0 {
		fmt.Fprintf(&b, ", %d excluded", r.Excluded)
	}
	if r.OtherHolder > 0 {
		fmt.Fprintf(&b, ", %d of another holder", r.OtherHolder)
	}
	if r.InUse > 0 {
		fmt.Fprintf(&b, ", %d in use and wanted whole", r.InUse)
	}
	b.WriteByte(')')
	return b.String()
}

// A Refusal is the error of a Match that found no room.
type Refusal struct {
	// Err is ErrBusy or ErrUnsatisfiable.
	Err    error
	Reason Reason
	// Waited is as in Allocation.
	Waited time.Duration
}

// SetWaited notes on the answer to a Match how long it waited for other calls.
func SetWaited(a *Allocation, err error, waited time.Duration) {
	if no, refused := errors.AsType[*Refusal](err); refused {
		no.Waited = waited
	}
	if a != nil {
		a.Waited = waited
	}
}

// Error names the verdict and the reason.
func (r *Refusal) Error() string { return r.Err.Error() + ": " + r.Reason.String() }

// Unwrap returns the verdict.
func (r *Refusal) Unwrap() error { return r.Err }
