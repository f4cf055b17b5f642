package jobspec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Encode returns the jobspec as compact JSON. The text is always the same for the same
// jobspec: fields are in the order of RFC 14, other keys are sorted, and empty fields are
// left out. Parse reads the same jobspec back, except that empty maps and lists become
// nil. Encode fails if Validate does, or if the text would be larger than MaxSize.
func (j *Jobspec) Encode() ([]byte, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, 1024), `{"version":`...)
	b = strconv.AppendInt(b, int64(j.Version), 10)
	b = appendResources(append(b, `,"resources":`...), j.Resources)
	b = append(b, `,"tasks":`...)
	b = appendList(b, j.Tasks, appendTask)
	b = append(b, `,"attributes":{`...)
	if len(j.Attributes.User) > 0 {
		b = appendMap(append(b, `"user":`...), j.Attributes.User, appendMessage)
	}
	b = appendKey(b, "system")
	b = appendSystem(b, &j.Attributes.System)
	b = append(b, "}}"...)
	if len(b) > MaxSize {
		return nil, fmt.Errorf("jobspec has %d bytes, at most %d are read", len(b), MaxSize)
	}
	return b, nil
}

func appendResources(b []byte, rs []Resource) []byte { return appendList(b, rs, appendResource) }

func appendResource(b []byte, r Resource) []byte {
	b = appendText(append(b, `{"type":`...), r.Type)
	b = appendCount(append(b, `,"count":`...), r.Count, r.Unit)
	b = appendField(b, "unit", r.Unit)
	b = appendField(b, "label", r.Label)
	b = appendField(b, "id", r.ID)
	if r.Exclusive != nil {
		b = strconv.AppendBool(appendKey(b, "exclusive"), *r.Exclusive)
	}
	if len(r.With) > 0 {
		b = appendResources(appendKey(b, "with"), r.With)
	}
	return append(b, '}')
}

// appendCount writes a plain number as such if maxPlain allows it, and a range otherwise.
func appendCount(b []byte, c Count, unit string) []byte {
	if c.plain() && (unit != "" || c.Min <= maxPlain) {
		return strconv.AppendInt(b, c.Min, 10)
	}
	b = strconv.AppendInt(append(b, `{"min":`...), c.Min, 10)
	if c.Max != NoLimit || c.Operator != '+' || c.Operand != 1 {
		b = strconv.AppendInt(append(b, `,"max":`...), c.Max, 10)
		b = append(b, `,"operator":"`...)
		b = append(b, c.Operator)
		b = strconv.AppendInt(append(b, `","operand":`...), c.Operand, 10)
	}
	return append(b, '}')
}

func appendTask(b []byte, t Task) []byte {
	b = appendList(append(b, `{"command":`...), t.Command, appendText)
	b = appendText(append(b, `,"slot":`...), t.Slot)
	if t.Count.Total > 0 {
		b = strconv.AppendInt(append(b, `,"count":{"total":`...), t.Count.Total, 10)
	} else {
		b = strconv.AppendInt(append(b, `,"count":{"per_slot":`...), t.Count.PerSlot, 10)
	}
	b = append(b, '}')
	b = appendField(b, "distribution", t.Distribution)
	if len(t.Attributes) > 0 {
		b = appendMap(appendKey(b, "attributes"), t.Attributes, appendMessage)
	}
	return append(b, '}')
}

func appendSystem(b []byte, s *System) []byte {
	b = append(b, '{')
	if s.Duration != 0 || s.ZeroDuration {
		b = appendSeconds(appendKey(b, "duration"), s.Duration)
	}
	b = appendField(b, "queue", s.Queue)
	b = appendField(b, "cwd", s.Cwd)
	if len(s.Environment) > 0 {
		b = appendMap(appendKey(b, "environment"), s.Environment, appendText)
	}
	if s.Constraints != nil {
		b = appendConstraint(appendKey(b, "constraints"), *s.Constraints)
	}
	if len(s.Fluence) > 0 {
		b = appendMap(appendKey(b, "fluence"), s.Fluence, appendSlotAttributes)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Other)) {
		b = appendMessage(appendKey(b, key), s.Other[key])
	}
	return append(b, '}')
}

func appendSlotAttributes(b []byte, s SlotAttributes) []byte {
	b = append(b, '{')
	if s.Constraints != nil {
		b = appendConstraint(appendKey(b, "constraints"), *s.Constraints)
	}
	if s.ConstraintsNow != nil {
		b = appendConstraint(appendKey(b, "constraintsNow"), *s.ConstraintsNow)
	}
	if len(s.MaxPerLevel) > 0 {
		b = appendMap(appendKey(b, "maxPerLevel"), s.MaxPerLevel, func(b []byte, n int64) []byte {
			return strconv.AppendInt(b, n, 10)
		})
	}
	if len(s.Limits) > 0 {
		b = appendList(appendKey(b, "limits"), s.Limits, appendLimit)
	}
	if s.Topology != nil {
		b = appendTopology(appendKey(b, "topology"), s.Topology)
	}
	return append(b, '}')
}

func appendConstraint(b []byte, c Constraint) []byte {
	b = append(b, '{')
	switch c.Op {
	case "":
	case OpAnd, OpOr, OpNot:
		b = appendList(appendKey(b, c.Op), c.Args, appendConstraint)
	default:
		b = appendList(appendKey(b, c.Op), c.Values, appendText)
	}
	return append(b, '}')
}

// appendSeconds writes a time to the nanosecond, without trailing zeros.
func appendSeconds(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	if ns := d % time.Second; ns != 0 {
		b = fmt.Appendf(b, ".%09d", int64(ns))
		b = bytes.TrimRight(b, "0")
	}
	return b
}

// appendMessage writes a value in its compact form. Validate has checked the value.
func appendMessage(b []byte, m json.RawMessage) []byte {
	v, _, _ := readJSON(m)
	b, _ = appendRaw(b, v)
	return b
}
