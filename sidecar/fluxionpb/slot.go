package fluxionpb

import (
	"cmp"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var errNoR = errors.New("r: missing")

// encodeSlot encodes a slot. It also returns its size in bytes.
func encodeSlot(s *match.Slot) (*Slot, int, error) {
	err := cmp.Or(CheckText("key", s.Key), CheckText("label", s.Label), CheckText("node", s.Node), CheckText("holder", s.Holder))
	if err != nil {
		return nil, 0, err
	}
	if s.R == nil {
		return nil, 0, errNoR
	}
	text, err := s.R.Encode()
	if err != nil {
		return nil, 0, fieldError("r", "%w", err)
	}
	m := &Slot{Key: s.Key, Label: s.Label, Node: s.Node, R: text, Holder: s.Holder, Shared: s.Shared}
	size := proto.Size(m)
	return m, size, checkSize(size)
}

func decodeSlot(s *Slot) (match.Slot, error) {
	if len(s.GetR()) == 0 {
		return match.Slot{}, errNoR
	}
	r, err := resource.ParseSet(s.GetR())
	if err != nil {
		return match.Slot{}, fieldError("r", "%w", err)
	}
	return match.Slot{
		Key: s.GetKey(), Label: s.GetLabel(), Node: s.GetNode(), R: r, Holder: s.GetHolder(), Shared: s.GetShared(),
	}, nil
}
