package jobspec

// The resource types that version 1 has beside SlotType.
const (
	typeNode = "node"
	typeCore = "core"
	typeGPU  = "gpu"
)

// ValidateV1 fails, naming field and value, for a jobspec that RFC 25 (version 1)
// does not allow, though RFC 14 may: resources other than a slot or a node of
// slots, each of cores or of cores and gpus, in plain numbers of at least 1; not
// exactly one task, of that slot, once a slot or as often in all as there are nodes
// at least and slots at most; no duration. Parse, as Fluxion, does not demand it.
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

// validateV1 checks the only resource and returns how many nodes are asked for, 0
// where none are named, and the slot.
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

// slotV1 checks what is in a slot.
func (r *Resource) slotV1() error {
	held := map[string]bool{}
	for i := range r.With {
		c := &r.With[i]
		err := c.vertexV1(typeCore, typeGPU)
		switch {
		case err != nil:
		case held[c.Type]:
			err = in("type", fault("%s: is there twice", shorten(c.Type)))
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

// vertexV1 checks a vertex by itself, which has to be of one of these types.
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
