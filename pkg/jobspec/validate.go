package jobspec

import (
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"
)

const (
	maxVersion       = 9999
	maxResourceDepth = 64
)

// Validate returns an error, which names field and value, if Parse would not accept
// the jobspec. See Parse and Count.Validate. Every slot must have a label, and every
// label in attributes.system.fluence must be the label of a slot. Validate does not
// check whether a resource type exists, because only the engine knows that.
func (j *Jobspec) Validate() error {
	if j.Version < 1 || j.Version > maxVersion {
		return in("version", fault("%d: not from 1 to %d", j.Version, maxVersion))
	}
	if len(j.Resources) == 0 {
		return in("resources", fault("asks for nothing"))
	}
	slots := map[string]struct{}{}
	if err := validateResources(j.Resources, slots, 0); err != nil {
		return in("resources", err)
	}
	for i := range j.Tasks {
		if err := j.Tasks[i].validate(); err != nil {
			return in("tasks", inItem(i, err))
		}
	}
	if err := validateRaws(j.Attributes.User); err != nil {
		return in("attributes", in("user", err))
	}
	if err := j.Attributes.System.validate(slots); err != nil {
		return in("attributes", in("system", err))
	}
	return nil
}

// validateResources checks a list of resources, and adds the labels of its slots to slots.
func validateResources(rs []Resource, slots map[string]struct{}, depth int) error {
	if len(rs) > 0 && depth >= maxResourceDepth {
		return fault("nested deeper than %d", maxResourceDepth)
	}
	for i := range rs {
		r := &rs[i]
		if err := r.validate(slots); err != nil {
			return inItem(i, err)
		}
		if err := validateResources(r.With, slots, depth+1); err != nil {
			return inItem(i, in("with", err))
		}
	}
	return nil
}

func (r *Resource) validate(slots map[string]struct{}) error {
	if r.Type == "" {
		return in("type", fault("is empty"))
	}
	if err := validateTexts(r.Type, r.Unit, r.Label, r.ID); err != nil {
		return err
	}
	if err := r.Count.Validate(); err != nil {
		return in("count", err)
	}
	if r.Type != SlotType {
		return nil
	}
	if r.Label == "" {
		return fault("a slot needs a label")
	}
	slots[r.Label] = struct{}{}
	return nil
}

func (t *Task) validate() error {
	if err := validateTexts(append([]string{t.Slot, t.Distribution}, t.Command...)...); err != nil {
		return err
	}
	c := t.Count
	if c.PerSlot < 0 || c.Total < 0 || (c.PerSlot > 0) == (c.Total > 0) {
		return in("count", fault("per_slot %d, total %d: one of the two is to be set", c.PerSlot, c.Total))
	}
	if err := validateRaws(t.Attributes); err != nil {
		return in("attributes", err)
	}
	return nil
}

func (s *System) validate(slots map[string]struct{}) error {
	if s.Duration < 0 || s.Duration > MaxDuration {
		return in("duration", fault("%v: not from 0 to %v", s.Duration, MaxDuration))
	}
	if s.ZeroDuration && s.Duration > 0 {
		return in("duration", fault("%v: not 0", s.Duration))
	}
	if err := validateTexts(s.Queue, s.Cwd); err != nil {
		return err
	}
	for key, text := range s.Environment {
		if err := validateTexts(key, text); err != nil {
			return in("environment", err)
		}
	}
	room := maxHosts
	if err := s.Constraints.validate(0, &room); err != nil {
		return in("constraints", err)
	}
	said := map[string][]string{}
	for _, label := range slices.Sorted(maps.Keys(s.Fluence)) {
		if err := s.Fluence[label].validate(label, slots, &room, said); err != nil {
			return in("fluence", in(label, err))
		}
	}
	for key := range s.Other {
		if slices.Contains(systemKeys, key) {
			return in(key, fault("is a field of its own, not one of the others"))
		}
	}
	return validateRaws(s.Other)
}

// systemKeys are the keys of attributes.system that are fields of System.
var systemKeys = []string{"duration", "queue", "cwd", "environment", "constraints", "fluence"}

func (s SlotAttributes) validate(label string, slots map[string]struct{}, room *int, said map[string][]string) error {
	if _, ok := slots[label]; !ok {
		return fault("no slot has this label")
	}
	if err := s.Constraints.validate(0, room); err != nil {
		return in("constraints", err)
	}
	if err := s.ConstraintsNow.validate(0, room); err != nil {
		return in("constraintsNow", err)
	}
	for _, level := range slices.Sorted(maps.Keys(s.MaxPerLevel)) {
		if n := s.MaxPerLevel[level]; n < 1 {
			return in("maxPerLevel", in(level, fault("%d: less than 1", n)))
		}
		if err := validateTexts(level); err != nil {
			return in("maxPerLevel", err)
		}
	}
	for i, l := range s.Limits {
		if err := l.validate(room, said); err != nil {
			return in("limits", inItem(i, err))
		}
	}
	return in("topology", s.Topology.validate())
}

// validateRaws returns an error for values that are not JSON,
// or that nest too deep for the document that contains them.
func validateRaws(m map[string]json.RawMessage) error {
	const enclosing = 8 // more than the number of levels above any of them
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if err := validateTexts(key); err != nil {
			return err
		}
		v, ok, err := readJSON(m[key])
		if err == nil && !ok {
			err = fault("is not JSON")
		}
		if err == nil && v.depth() > maxDepth-enclosing {
			err = fault("nested deeper than %d", maxDepth-enclosing)
		}
		if err != nil {
			return in(key, err)
		}
	}
	return nil
}

// depth returns the number of levels of a value. A scalar has one.
func (v value) depth() int {
	deepest := 0
	for _, item := range v.items {
		deepest = max(deepest, item.depth())
	}
	return deepest + 1
}

// validateTexts returns an error for a text that JSON cannot hold.
func validateTexts(texts ...string) error {
	for _, t := range texts {
		if !utf8.ValidString(t) {
			return fault("%s: not UTF-8", shorten(t))
		}
	}
	return nil
}
