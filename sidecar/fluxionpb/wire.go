// Package fluxionpb is package match as a protocol: the messages and the service,
// and how values and errors are encoded. Client and server both encode and decode
// with this package alone, so what one encodes the other decodes unchanged.
package fluxionpb

import (
	"fmt"
	"unicode/utf8"
)

const (
	// MaxMessage is the largest message that either side accepts, in bytes.
	MaxMessage = 16 << 20
	// MaxCall bounds the bytes of all messages of one incoming stream together. It bounds the
	// memory that a server spends on a call.
	MaxCall = 1 << 30
	// MaxGraph is the largest text, in bytes, of a graph
	// that is added: about seven million vertices.
	MaxGraph = MaxCall
	// MaxMetrics is the largest text, in bytes, of a MetricsResponse.
	MaxMetrics = 256 << 10
	// chunk is the size in bytes at which a message of a stream is
	// sent. A message is larger only if a single slot or node is.
	chunk = 512 << 10
)

// fieldError returns the error for a field with an invalid value. The caller decides
// what the error means: match.ErrInvalid in a request, an unexpected error in an answer.
func fieldError(field, format string, a ...any) error {
	return fmt.Errorf("%s: %w", field, fmt.Errorf(format, a...))
}

// checkSize fails for a part of a message that could not be sent alone.
// The margin is for the rest of the message: tags, lengths, the epoch.
func checkSize(size int) error {
	const margin = 1 << 10
	if size > MaxMessage-margin {
		return fmt.Errorf("%d bytes, a message holds at most %d", size, MaxMessage-margin)
	}
	return nil
}

// CheckText fails for texts that are not UTF-8, because a message
// may not contain them. The error names the field and the value.
func CheckText(field string, texts ...string) error {
	for _, t := range texts {
		if !utf8.ValidString(t) {
			return fieldError(field, "%q is not UTF-8", t)
		}
	}
	return nil
}

// A budget counts the bytes of an incoming stream.
type budget int

// spend fails once the stream exceeds MaxCall.
func (b *budget) spend(size int) error {
	*b += budget(size)
	if *b > MaxCall {
		return fmt.Errorf("the messages of one call have more than %d bytes", MaxCall)
	}
	return nil
}
