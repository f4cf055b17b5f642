package jobspec

// Version 1 has these resource types besides SlotType.
const (
	typeNode = "node"
	typeCore = "core"
	typeGPU  = "gpu"
)

// ValidateV1 returns an error, which names field and value, if RFC 25 (version
// 1) does not allow the jobspec. RFC 14 may allow it all the same. Parse does
// not call ValidateV1, because Fluxion does not demand version 1 either.
//
// The only resource must be a slot, or a node with a slot. A slot has cores, or cores
// and gpus. All counts are plain numbers of at least 1. There is exactly one task,
// and it runs in that slot. It runs once per slot, or in total at least as often as
// there are nodes and at most as often as there are slots. A duration must be set.
func (j *Jobspec) ValidateV1() error {
	if err := j.Validate(); err != nil {
		return err
	}
	if j.Version != 1 {
		return in("version", fault("%d: not 1", j.Version))
	}
	if len(j.Resources) != 1 {
		return in("resources", fault("has %d items, version 1 has one", len(j.Resources)))
	}
	nodes, slot, err := j.Resources[0].validateV1()
	if err != nil {
		return in("resources", inItem(0, err))
	}
	if len(j.Tasks) != 1 {
		return in("tasks", fault("has %d items, version 1 has one", len(j.Tasks)))
	}
	if err := j.Tasks[0].validateV1(nodes, slot); err != nil {
		return in("tasks", inItem(0, err))
	}
	if s := &j.Attributes.System; s.Duration == 0 && !s.ZeroDuration {
		return in("attributes", in("system", fault("no duration, which version 1 demands")))
	}
	return nil
}

// validateV1 checks the only resource. It returns the slot,
// and how many nodes are asked for; 0 if no nodes are named.
func (r *Resource) validateV1() (nodes int64, slot *Resource, err error) {
	if err := r.vertexV1(typeNode, SlotType); err != nil {
		return 0, nil, err
	}
	if r.Type == SlotType {
		return 0, r, r.slotV1()
	}
	if len(r.With) != 1 {
		return 0, nil, in("with", fault("has %d items, a node of version 1 has one slot", len(r.With)))
	}
	slot = &r.With[0]
	if err = slot.vertexV1(SlotType); err == nil {
		err = slot.slotV1()
	}
	if err != nil {
		err = in("with", inItem(0, err))
	}
	return r.Count.Min, slot, err
}

// slotV1 checks the resources in a slot.
func (r *Resource) slotV1() error {
	held := map[string]bool{}
	for i := range r.With {
		c := &r.With[i]
		err := c.vertexV1(typeCore, typeGPU)
		switch {
		case err != nil:
		case held[c.Type]:
			err = in("type", fault("%s: appears twice", shorten(c.Type)))
		case len(c.With) > 0:
			err = in("with", fault("nothing is inside a %s in version 1", c.Type))
		}
		if err != nil {
			return in("with", inItem(i, err))
		}
		held[c.Type] = true
	}
	if !held[typeCore] {
		return in("with", fault("no core, which a slot of version 1 has"))
	}
	return nil
}

// vertexV1 checks a vertex, but not its children. The vertex must have one of these types.
func (r *Resource) vertexV1(types ...string) error {
	known := false
	for _, t := range types {
		known = known || r.Type == t
	}
	switch {
	case !known:
		return in("type", fault("%s: version 1 has only %v here", shorten(r.Type), types))
	case !r.Count.plain():
		return in("count", fault("a range, version 1 has only plain numbers"))
	case r.Count.Min < 1:
		return in("count", fault("%d: less than 1", r.Count.Min))
	case r.ID != "":
		return in("id", fault("%s: version 1 has no ids", shorten(r.ID)))
	case r.Exclusive != nil && r.Type != typeNode:
		return in("exclusive", fault("%t: version 1 has it only on a node", *r.Exclusive))
	}
	return nil
}

func (t *Task) validateV1(nodes int64, slot *Resource) error {
	each, total := (t.Count.Total-1)/max(nodes, 1)+1, t.Count.Total
	switch {
	case len(t.Command) == 0:
		return in("command", fault("is empty"))
	case t.Slot != slot.Label:
		return in("slot", fault("%s: the slot's label is %s", shorten(t.Slot), shorten(slot.Label)))
	case t.Distribution != "":
		return in("distribution", fault("%s: version 1 has none", shorten(t.Distribution)))
	case len(t.Attributes) > 0:
		return in("attributes", fault("a task of version 1 has none"))
	case total == 0 && t.Count.PerSlot != 1:
		return in("count", in("per_slot", fault("%d: not 1", t.Count.PerSlot)))
	case total > 0 && each > slot.Count.Min:
		return in("count", in("total", fault("%d: more than there are slots", total)))
	case total > 0 && total < nodes:
		return in("count", in("total", fault("%d: fewer than the %d nodes", total, nodes)))
	}
	return nil
}
