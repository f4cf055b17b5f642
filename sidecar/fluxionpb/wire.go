// Package fluxionpb is the contract of package match on the wire: the messages
// and the service that carry it, and how values, errors and addresses are
// written there. Client and server both read and write by this package alone,
// so what one writes the other reads back as it was.
package fluxionpb

import (
	"fmt"
	"unicode/utf8"
)

const (
	// MaxMessage is the largest message that either side takes, in bytes.
	MaxMessage = 16 << 20
	// MaxCall is how many bytes the messages of one incoming stream may have
	// together. It bounds the memory that a server spends on a call.
	MaxCall = 1 << 30
	// MaxGraph is how many bytes the text of a graph may have that is added: about
	// seven million vertices.
	MaxGraph = MaxCall
	// MaxMetrics is how many bytes the text of a MetricsResponse may have.
	MaxMetrics = 256 << 10
	// chunk is the size in bytes at which a message of a stream is sent off. A
	// message is larger only if a single slot or node is.
	chunk = 512 << 10
)

// fieldError is the error for a field that holds what it must not. Whether that is
// match.ErrInvalid, of a request, or unexpected, of an answer, is the caller's to
// say.
func fieldError(field, format string, a ...any) error {
	return fmt.Errorf("%s: %w", field, fmt.Errorf(format, a...))
}

// checkSize fails for a part of a message that could not be sent alone. The
// margin is for what stands around the part: tags, lengths, the epoch.
func checkSize(size int) error {
	const margin = 1 << 10
	if size > MaxMessage-margin {
		return fmt.Errorf("%d bytes, a message holds at most %d", size, MaxMessage-margin)
	}
	return nil
}

// CheckText fails for texts that the wire does not take, those that are not
// UTF-8. The error names the field and the value.
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

// spend fails when the stream has passed MaxCall.
func (b *budget) spend(size int) error {
	*b += budget(size)
	if *b > MaxCall {
		return fmt.Errorf("the messages of one call have more than %d bytes", MaxCall)
	}
	return nil
}
