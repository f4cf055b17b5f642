package solver

// An Exclusivity summarizes who holds slots on a node, to decide
// which requesters may use the node. Shared slots are not counted.
type Exclusivity struct {
	// WithoutHolder is the number of slots that have no holder. A
	// request for whole nodes cannot use a node that has such slots.
	WithoutHolder int32
	// Holders is the number of holders; 2 means two or more.
	// Only an update can put several holders on one node.
	Holders int32
	// Holder is the name of the holder if there is only one.
	Holder string
}

// A Requester is the holder that a request is for.
type Requester struct {
	Holder string
	// Exclusive is set if the request wants whole nodes.
	Exclusive bool
}

// A Conflict is the reason why a requester may not use a node.
type Conflict int

const (
	// NoConflict means that the requester may use the node.
	NoConflict Conflict = iota
	// OtherHolder means that the node belongs to another holder.
	OtherHolder
	// InUse means that the request wants whole nodes, and the node has slots without a holder.
	InUse
)

// Conflict returns the reason why the requester may not use the node.
func (x *Exclusivity) Conflict(who Requester) Conflict {
	switch {
	case x.Holders > 1 || x.Holders == 1 && x.Holder != who.Holder:
		return OtherHolder
	case who.Exclusive && x.WithoutHolder > 0:
		return InUse
	}
	return NoConflict
}
