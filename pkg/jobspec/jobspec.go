// Package jobspec holds a request for resources in the format of the Flux
// project: RFC 14 (canonical jobspec), with the constraints of RFC 31.
//
// The types are plain data. They do not refer to a resource graph or to Kubernetes.
package jobspec

import (
	"encoding/json"
	"time"
)

// SlotType is the resource type of a task slot (RFC 14, "Slots"). A slot is
// the indivisible unit of a request: resources are given in whole slots.
const SlotType = "slot"

// A Jobspec is one request (RFC 14). Its version is a whole number from 1 to 9999, as in Fluxion.
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
	// Unit is the unit of Count, for instance "m" or "B". It
	// is empty for resources that are counted one by one.
	Unit string
	// Label is the name of a slot. Tasks and slot attributes refer to it. A slot must have one.
	Label string
	ID    string
	// Exclusive is nil if the request does not set it.
	Exclusive *bool
	With      []Resource
}

// A Count is a whole number or a range of whole numbers
// (RFC 14, "Count"). A plain number n is {n, n, '+', 1}.
type Count struct {
	Min int64
	Max int64
	// Operator is the step from one acceptable count to the next: '+', '*' or '^'.
	Operator byte
	Operand  int64
}

// Exactly returns the count that accepts only n.
func Exactly(n int64) Count { return Between(n, n) }

// Between returns the count that accepts every number from low to high.
func Between(low, high int64) Count { return Count{Min: low, Max: high, Operator: '+', Operand: 1} }

// A Task describes what runs in a slot (RFC 14, "Tasks"). Matching ignores tasks.
type Task struct {
	Command      []string
	Slot         string
	Count        TaskCount
	Distribution string
	Attributes   map[string]json.RawMessage
}

// A TaskCount is the number of tasks that run, either
// per slot or in total. Exactly one of the two is set.
type TaskCount struct {
	PerSlot int64
	Total   int64
}

// Attributes are what a request has besides its resources and tasks (RFC 14, "Attributes").
type Attributes struct {
	User   map[string]json.RawMessage
	System System
}

// System has the attributes of attributes.system. Keys that this package
// does not know are kept in Other, and Encode writes them again.
type System struct {
	// Duration is the time for which the resources are wanted. Zero means no known end.
	Duration time.Duration
	// ZeroDuration is set if the text has a duration of 0, as RFC 25 requires it.
	ZeroDuration bool

	Queue       string
	Cwd         string
	Environment map[string]string
	Constraints *Constraint
	// Fluence has, by slot label, the attributes that
	// RFC 14 cannot express (attributes.system.fluence).
	Fluence map[string]SlotAttributes
	Other   map[string]json.RawMessage
}

// SlotAttributes restrict where the slots of one label may be placed.
type SlotAttributes struct {
	// Constraints hold at any time. They also count in a verdict of "never".
	Constraints *Constraint
	// ConstraintsNow hold only at present. A verdict of "never" ignores them.
	ConstraintsNow *Constraint
	// MaxPerLevel has, by type of vertex, the largest number of slots of
	// this label below any one vertex of the type, for instance {"node": 1}.
	MaxPerLevel map[string]int64
	// Limits are further bounds on the number of slots of this label.
	Limits []Limit
	// Topology is how the slots are distributed. It is nil if that does not matter.
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

// A Constraint is a condition on a node vertex (RFC 31). It has one operator, and
// either values or further constraints. The zero Constraint holds everywhere.
type Constraint struct {
	Op string
	// Values are the operands of properties, hostlist and ranks. A node must have all the
	// properties, or lack the property p if the value is "^p". It must be in one of the
	// hostlists or ranks. A value of hostlist or ranks may be a range, such as "a[0-9]".
	Values []string
	// Args are the operands of "and", "or" and "not". "not" holds if not all of its operands hold.
	Args []Constraint
}
