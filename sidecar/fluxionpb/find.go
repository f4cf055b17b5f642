package fluxionpb

import (
	"iter"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Search has the arguments of a Find.
type Search struct {
	Epoch    match.Epoch
	Criteria string
	// Now is the caller's clock.
	Now time.Time
}

// EncodeSearch encodes a search as one message. It fails for
// criteria that are not UTF-8, or larger than MaxMessage.
func EncodeSearch(s Search) (*FindRequest, error) {
	if err := CheckText("criteria", s.Criteria); err != nil {
		return nil, err
	}
	if err := checkSize(len(s.Criteria)); err != nil {
		return nil, fieldError("criteria", "%w", err)
	}
	return &FindRequest{Epoch: uint64(s.Epoch), Criteria: s.Criteria, Now: encodeTime(s.Now)}, nil
}

// DecodeSearch is the inverse of EncodeSearch. An error names the field and its value.
func DecodeSearch(m *FindRequest) (Search, error) {
	now, err := decodeTime("now", m.GetNow())
	return Search{Epoch: match.Epoch(m.GetEpoch()), Criteria: m.GetCriteria(), Now: now}, err
}

// FoundMessages encodes the result of Find as a stream of messages. If a set cannot be encoded, the
// stream ends with an error.
func FoundMessages(s *resource.Set) iter.Seq2[*FindResponse, error] {
	return func(yield func(*FindResponse, error) bool) {
		if s == nil {
			yield(nil, errNoR)
			return
		}
		text, err := s.Encode()
		if err != nil {
			yield(nil, fieldError("r", "%w", err))
			return
		}
		for len(text) > 0 {
			n := min(len(text), chunk)
			if !yield(&FindResponse{R: text[:n]}, nil) {
				return
			}
			text = text[n:]
		}
	}
}

// A FoundReader joins the messages of FoundMessages.
type FoundReader struct {
	text  []byte
	spent budget
}

// Add reads the next message. It fails once all messages together exceed MaxCall.
func (r *FoundReader) Add(m *FindResponse) error {
	if err := r.spent.spend(len(m.GetR())); err != nil {
		return err
	}
	r.text = append(r.text, m.GetR()...)
	return nil
}

// Found returns the result that was read.
func (r *FoundReader) Found() (*resource.Set, error) {
	if len(r.text) == 0 {
		return nil, errNoR
	}
	s, err := resource.ParseSet(r.text)
	if err != nil {
		return nil, fieldError("r", "%w", err)
	}
	return s, nil
}
