// Package jobspec holds a request for resources as the Flux project writes it:
// RFC 14 (canonical jobspec), with the constraints of RFC 31.
//
// The types are plain data. Nothing in them refers to a resource graph or to
// Kubernetes.
package jobspec

import (
	"encoding/json"
	"time"
)

// SlotType is the resource type that marks a task slot (RFC 14, "Slots"): the
// indivisible unit in which resources are counted out.
const SlotType = "slot"

// A Jobspec is one request (RFC 14). Its version is 1 or, as Fluxion reads it,
// any whole number up to 9999.
type Jobspec struct {
	Version    int
	Resources  []Resource
	Tasks      []Task
	Attributes Attributes
}

// A Resource is a vertex of the request graph (RFC 14, "Resources").
type Resource struct {
	Type  string
	Count Count
	// Unit is the unit that Count is in, for instance "m" or "B"; empty for
	// things that are counted.
	Unit string
	// Label names a slot; tasks and slot attributes refer to it. Required on
	// type slot.
	Label string
	ID    string
	// Exclusive is nil where the request does not say.
	Exclusive *bool
	With      []Resource
}

// A Count is a whole number or a range of them (RFC 14, "Count"). A plain
// number n is {n, n, '+', 1}.
type Count struct {
	Min int64
	Max int64
	// Operator steps from one acceptable count to the next: '+', '*' or '^'.
	Operator byte
	Operand  int64
}

// Exactly returns the count that accepts n alone.
func Exactly(n int64) Count { return Between(n, n) }

// Between returns the count that accepts every number from low to high.
func Between(low, high int64) Count { return Count{Min: low, Max: high, Operator: '+', Operand: 1} }

// A Task says what runs in a slot (RFC 14, "Tasks"). Matching ignores it.
type Task struct {
	Command      []string
	Slot         string
	Count        TaskCount
	Distribution string
	Attributes   map[string]json.RawMessage
}

// A TaskCount says how many tasks run: so many a slot, or so many in all. One
// of the two is set.
type TaskCount struct {
	PerSlot int64
	Total   int64
}

// Attributes are what a request says beside its resources (RFC 14,
// "Attributes").
type Attributes struct {
	User   map[string]json.RawMessage
	System System
}

// System holds attributes.system. Keys that this package does not know are
// kept in Other and written back.
type System struct {
	// Duration is how long the resources are wanted; 0 is no known end.
	Duration time.Duration
	// ZeroDuration says that a Duration of 0 is written down, as RFC 25 demands.
	ZeroDuration bool

	Queue       string
	Cwd         string
	Environment map[string]string
	Constraints *Constraint
	// Fluence holds what RFC 14 has no words for, by slot label
	// (attributes.system.fluence).
	Fluence map[string]SlotAttributes
	Other   map[string]json.RawMessage
}

// SlotAttributes narrow where the slots of one label may stand.
type SlotAttributes struct {
	// Constraints hold for good: they count in a verdict of "never" too.
	Constraints *Constraint
	// ConstraintsNow hold for the present only: a verdict of "never" is given
	// without them.
	ConstraintsNow *Constraint
	// MaxPerLevel bounds the slots of this label below any one vertex of a
	// type, for instance {"node": 1}.
	MaxPerLevel map[string]int64
	// Limits bound the slots of this label further.
	Limits []Limit
	// Topology says how the slots stand together; nil where that does not matter.
	Topology *Topology
}

// The operators of a Constraint (RFC 31).
const (
	OpProperties = "properties"
	OpHostlist   = "hostlist"
	OpRanks      = "ranks"
	OpAnd        = "and"
	OpOr         = "or"
	OpNot        = "not"
)

// A Constraint is a condition on a node vertex (RFC 31): one operator with
// either values or further constraints. The zero Constraint holds everywhere.
type Constraint struct {
	Op string
	// Values are the operands of properties, hostlist and ranks. All of the
	// properties must be there ("^p": must not be); hosts and ranks are
	// alternatives. A value of hostlist or ranks may be a range, as "a[0-9]".
	Values []string
	// Args are the operands of and, or and not. not is true unless all hold.
	Args []Constraint
}
