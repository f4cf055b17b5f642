package fluxionpb

import (
	"errors"
	"fmt"
	"iter"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// AllocationMessages encodes an allocation as a stream of messages.
// If a part cannot be encoded, the stream ends with an error.
func AllocationMessages(a *match.Allocation) iter.Seq2[*MatchResponse, error] {
	return func(yield func(*MatchResponse, error) bool) {
		m := &MatchResponse{Allocation: &Allocation{
			Id:       uint64(a.ID),
			Reserved: a.Reserved,
			At:       encodeTime(a.Start),
			End:      encodeTime(a.End),
			Waited:   encodeDuration(a.Waited),
		}}
		for _, u := range a.Displaced {
			m.Allocation.Displaced = append(m.Allocation.Displaced, int32(u))
		}
		var text []byte
		if a.R != nil {
			var err error
			if text, err = a.R.Encode(); err != nil {
				yield(nil, fieldError("r", "%w", err))
				return
			}
		}
		for len(text) > chunk {
			m.R, text = text[:chunk], text[chunk:]
			if !yield(m, nil) {
				return
			}
			m = &MatchResponse{}
		}
		m.R = text
		size := len(text)
		for i := range a.Slots {
			s, n, err := encodeSlot(&a.Slots[i])
			if err != nil {
				yield(nil, fieldError(fmt.Sprintf("slots[%d]", i), "%w", err))
				return
			}
			if size > 0 && size+n > chunk {
				if !yield(m, nil) {
					return
				}
				m, size = &MatchResponse{}, 0
			}
			m.Slots, size = append(m.Slots, s), size+n
		}
		yield(m, nil)
	}
}

// An AllocationReader joins the messages of AllocationMessages.
type AllocationReader struct {
	// WithoutR leaves out R of the allocation. The slots keep theirs.
	WithoutR bool

	about *Allocation
	text  []byte
	slots []match.Slot
}

// Add reads the next message. An error names the field and its value.
func (r *AllocationReader) Add(m *MatchResponse) error {
	if (m.GetAllocation() != nil) != (r.about == nil) {
		return errors.New("allocation: must be set in the first message only")
	}
	if r.about == nil {
		r.about = m.GetAllocation()
	}
	if !r.WithoutR {
		r.text = append(r.text, m.GetR()...)
	}
	for _, s := range m.GetSlots() {
		slot, err := decodeSlot(s)
		if err != nil {
			return fieldError(fmt.Sprintf("slots[%d]", len(r.slots)), "%w", err)
		}
		r.slots = append(r.slots, slot)
	}
	return nil
}

// Allocation returns the allocation that was read. An error names the field and its value.
func (r *AllocationReader) Allocation() (*match.Allocation, error) {
	if r.about == nil {
		return nil, errors.New("allocation: missing")
	}
	at, err := decodeTime("at", r.about.GetAt())
	if err != nil {
		return nil, err
	}
	end, err := decodeTime("end", r.about.GetEnd())
	if err != nil {
		return nil, err
	}
	waited, err := decodeDuration("waited", r.about.GetWaited())
	if err != nil {
		return nil, err
	}
	a := &match.Allocation{
		ID: match.JobID(r.about.GetId()), Slots: r.slots, Reserved: r.about.GetReserved(), Start: at, End: end, Waited: waited,
	}
	for _, u := range r.about.GetDisplaced() {
		if n := len(a.Displaced); u < 0 || n > 0 && int(u) <= a.Displaced[n-1] {
			return nil, fieldError("displaced", "%d: must be at least 0 and above the index before", u)
		}
		a.Displaced = append(a.Displaced, int(u))
	}
	if len(r.text) > 0 {
		if a.R, err = resource.ParseSet(r.text); err != nil {
			return nil, fieldError("r", "%w", err)
		}
	}
	return a, nil
}
