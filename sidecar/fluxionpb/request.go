package fluxionpb

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// EncodeRequest encodes a request as one message. It fails for a request
// without a jobspec, with an invalid one, or larger than MaxMessage.
func EncodeRequest(r match.Request) (*MatchRequest, error) {
	op, err := encodeCode("op", ops, r.Op)
	if err != nil {
		return nil, err
	}
	if r.Jobspec == nil {
		return nil, fieldError("jobspec", "missing")
	}
	if err := errors.Join(
		CheckText("keys", r.Keys...), CheckText("near", r.Near...), CheckText("policy", r.Policy),
		CheckText("holder", r.Holder), CheckText("replaces_keys", r.ReplacesKeys...),
	); err != nil {
		return nil, err
	}
	text, err := r.Jobspec.Encode()
	if err != nil {
		return nil, fieldError("jobspec", "%w", err)
	}
	m := &MatchRequest{
		Epoch:        uint64(r.Epoch),
		Op:           op,
		Id:           uint64(r.ID),
		Jobspec:      text,
		Keys:         r.Keys,
		Now:          encodeTime(r.Now),
		Duration:     encodeDuration(r.Duration),
		Policy:       r.Policy,
		Holder:       r.Holder,
		Near:         r.Near,
		Terse:        r.Terse,
		Replaces:     uint64(r.Replaces),
		ReplacesKeys: r.ReplacesKeys,
	}
	for i := range r.Expected {
		s, _, err := encodeSlot(&r.Expected[i])
		if err != nil {
			return nil, fieldError(expectedAt(i), "%w", err)
		}
		m.Expected = append(m.Expected, s)
	}
	for _, id := range r.Ignore {
		m.Ignore = append(m.Ignore, uint64(id))
	}
	for i, s := range r.Ending {
		if err := CheckText(endingAt(i), s.Keys...); err != nil {
			return nil, err
		}
		m.Ending = append(m.Ending, &SlotRef{Id: uint64(s.Job), Keys: s.Keys})
	}
	if m.Displace, err = encodeUnits(r.Displace); err != nil {
		return nil, err
	}
	if err := checkSize(proto.Size(m)); err != nil {
		return nil, fieldError("request", "%w", err)
	}
	return m, nil
}

// DecodeRequest is the inverse of EncodeRequest. An error names the field
// and its value. The jobspec of a request that it returns is valid.
func DecodeRequest(m *MatchRequest) (match.Request, error) {
	var r match.Request
	op, err := decodeCode("op", ops, m.GetOp())
	if err != nil {
		return r, err
	}
	if len(m.GetJobspec()) == 0 {
		return r, fieldError("jobspec", "missing")
	}
	js, err := jobspec.Parse(m.GetJobspec())
	if err != nil {
		return r, fieldError("jobspec", "%w", err)
	}
	now, err := decodeTime("now", m.GetNow())
	if err != nil {
		return r, err
	}
	duration, err := decodeDuration("duration", m.GetDuration())
	if err != nil {
		return r, err
	}
	r = match.Request{
		Epoch:        match.Epoch(m.GetEpoch()),
		Op:           op,
		ID:           match.JobID(m.GetId()),
		Jobspec:      js,
		Keys:         m.GetKeys(),
		Now:          now,
		Duration:     duration,
		Policy:       m.GetPolicy(),
		Holder:       m.GetHolder(),
		Near:         m.GetNear(),
		Terse:        m.GetTerse(),
		Replaces:     match.JobID(m.GetReplaces()),
		ReplacesKeys: m.GetReplacesKeys(),
	}
	for i, s := range m.GetExpected() {
		slot, err := decodeSlot(s)
		if err != nil {
			return match.Request{}, fieldError(expectedAt(i), "%w", err)
		}
		r.Expected = append(r.Expected, slot)
	}
	for _, id := range m.GetIgnore() {
		r.Ignore = append(r.Ignore, match.JobID(id))
	}
	for _, s := range m.GetEnding() {
		r.Ending = append(r.Ending, match.SlotRef{Job: match.JobID(s.GetId()), Keys: s.GetKeys()})
	}
	if r.Displace, err = decodeUnits(m.GetDisplace()); err != nil {
		return match.Request{}, err
	}
	return r, nil
}

// encodeUnits encodes the units that a request may displace. It fails if there are more than match.MaxUnits.
func encodeUnits(units []match.Unit) ([]*Unit, error) {
	if len(units) == 0 {
		return nil, nil
	}
	if err := checkUnits(len(units)); err != nil {
		return nil, err
	}
	encoded, values := make([]*Unit, len(units)), make([]Unit, len(units))
	for i := range units {
		u, m := &units[i], &values[i]
		m.Class, m.Protected, m.Cost = u.Class, u.Protected, u.Cost
		for _, s := range u.Slots {
			if err := CheckText(fmt.Sprintf("displace[%d].slots.keys", i), s.Keys...); err != nil {
				return nil, err
			}
			m.Slots = append(m.Slots, &SlotRef{Id: uint64(s.Job), Keys: s.Keys})
		}
		encoded[i] = m
	}
	return encoded, nil
}

// decodeUnits is the inverse of encodeUnits.
func decodeUnits(encoded []*Unit) ([]match.Unit, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	if err := checkUnits(len(encoded)); err != nil {
		return nil, err
	}
	units := make([]match.Unit, len(encoded))
	for i, m := range encoded {
		units[i] = match.Unit{Class: m.GetClass(), Protected: m.GetProtected(), Cost: m.GetCost()}
		for _, s := range m.GetSlots() {
			units[i].Slots = append(units[i].Slots, match.SlotRef{Job: match.JobID(s.GetId()), Keys: s.GetKeys()})
		}
	}
	return units, nil
}

func checkUnits(n int) error {
	if n > match.MaxUnits {
		return fieldError("displace", "%d units, at most %d", n, match.MaxUnits)
	}
	return nil
}

func endingAt(i int) string { return fmt.Sprintf("ending[%d].keys", i) }

func expectedAt(i int) string { return fmt.Sprintf("expected[%d]", i) }
