package fluxionpb

import (
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// jgfField is the number of AddSubgraphRequest.jgf.
const jgfField = 3

// Codec returns gRPC's own codec, except for AddSubgraphRequest: a message of this type is decoded
// into the memory of the message before. So reading a large graph leaves little garbage.
func Codec() encoding.CodecV2 {
	return reuseCodec{encoding.GetCodecV2(encodingproto.Name)}
}

type reuseCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c reuseCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*AddSubgraphRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return m.unmarshalReusing(buf.ReadOnlyData())
}

// unmarshalReusing decodes a message as proto.Unmarshal does, but puts its piece of text into the
// memory that m already has.
func (m *AddSubgraphRequest) unmarshalReusing(b []byte) error {
	var rest, text []byte
	for len(b) > 0 {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(num, typ, b[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		if num == jgfField && typ == protowire.BytesType {
			text, _ = protowire.ConsumeBytes(b[tag:])
		} else {
			rest = append(rest, b[:tag+size]...)
		}
		b = b[tag+size:]
	}
	kept := m.GetJgf()[:0]
	if err := proto.Unmarshal(rest, m); err != nil {
		return err
	}
	kept = append(kept, text...)
	m.Jgf = kept
	return nil
}
