package solver

// An Exclusivity says who holds slots on a node, as far as it decides who else may be
// given some. Shared slots do not count.
type Exclusivity struct {
	// WithoutHolder counts the slots of no holder: they keep the node from being whole.
	WithoutHolder int32
	// Holders counts the holders, of which only an update brings together several.
	Holders int32
	// Holder is the one, if there is just one.
	Holder string
}

// A Requester is the one for whom slots are laid out.
type Requester struct {
	Holder string
	// Exclusive says that nodes are wanted whole.
	Exclusive bool
}

// A Conflict is what keeps a requester from a node.
type Conflict int

const (
	// NoConflict says that nothing does.
	NoConflict Conflict = iota
	// OtherHolder says that the node belongs to another holder.
	OtherHolder
	// InUse says that others hold something where the node is wanted whole.
	InUse
)

// Conflict says what keeps a requester from the node.
func (x *Exclusivity) Conflict(who Requester) Conflict {
	switch {
	case x.Holders > 1 || x.Holders == 1 && x.Holder != who.Holder:
		return OtherHolder
	case who.Exclusive && x.WithoutHolder > 0:
		return InUse
	}
	return NoConflict
}
