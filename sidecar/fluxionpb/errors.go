package fluxionpb

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match"
)

// wire gives each error of the contract its code. A status of one of these codes
// is an error of the contract only if it carries a Failure: gRPC uses the same
// codes for errors of its own.
var wire = []struct {
	code codes.Code
	err  error
}{
	{codes.ResourceExhausted, match.ErrBusy},
	{codes.FailedPrecondition, match.ErrUnsatisfiable},
	{codes.Unavailable, match.ErrUnavailable},
	{codes.AlreadyExists, match.ErrConflict},
	{codes.Aborted, match.ErrStale},
	{codes.InvalidArgument, match.ErrInvalid},
}

// ToStatus writes the error of an engine. FromStatus reads it back with the same
// text; the errors of the contract, a *match.Refusal and its Reason are found in
// it as they were. All other errors keep their text alone.
func ToStatus(err error) *status.Status {
	if err == nil {
		return nil
	}
	says := validUTF8(err.Error())
	for _, w := range wire {
		if errors.Is(err, w.err) {
			return withFailure(w.code, says, err)
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, says)
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, says)
	}
	return status.New(codes.Unknown, says)
}

func withFailure(code codes.Code, says string, err error) *status.Status {
	f := &Failure{}
	if refusal, ok := errors.AsType[*match.Refusal](err); ok {
		f.Reason, f.Waited = encodeReason(&refusal.Reason), encodeDuration(refusal.Waited)
	}
	s, err := status.New(code, says).WithDetails(f)
	if err != nil {
		panic("fluxionpb: a Failure that cannot be written: " + err.Error())
	}
	return s
}

// FromStatus reads the status of a call. Where no answer came, in time or at all,
// the error is match.ErrUnavailable and says what happened, and where it did not come in time
// context.DeadlineExceeded as well; where the call was given up, it is context.Canceled. An error of the server that is none of the
// contract's is none of these either.
func FromStatus(s *status.Status) error {
	switch s.Code() {
	case codes.OK:
		return nil
	case codes.Unknown:
		return errors.New(s.Message())
	case codes.Canceled:
		return &remoteError{text: s.Message(), err: context.Canceled}
	case codes.DeadlineExceeded:
		return &timeoutError{text: s.Message()}
	default:
		return fromContractCode(s)
	}
}

// fromContractCode reads a status with a code that gRPC may have given, too: with a
// Failure it is the contract's.
func fromContractCode(s *status.Status) error {
	if f := failureOf(s); f != nil {
		for _, w := range wire {
			if w.code == s.Code() {
				return &remoteError{text: s.Message(), err: verdict(w.err, f)}
			}
		}
	}
	if s.Code() == codes.Unavailable {
		return fmt.Errorf("%w: %s", match.ErrUnavailable, s.Message())
	}
	return s.Err()
}

func failureOf(s *status.Status) *Failure {
	for _, d := range s.Details() {
		if f, ok := d.(*Failure); ok {
			return f
		}
	}
	return nil
}

func verdict(err error, f *Failure) error {
	if f.GetReason() == nil {
		return err
	}
	no := &match.Refusal{Err: err, Reason: decodeReason(f.GetReason())}
	if waited, err := decodeDuration("waited", f.GetWaited()); err == nil {
		no.Waited = waited
	}
	return no
}

// A told error is one that another process told of: it has the text that it had
// there.
type remoteError struct {
	text string
	err  error
}

func (t *remoteError) Error() string { return t.text }

func (t *remoteError) Unwrap() error { return t.err }

// A late error is that no answer came in time.
type timeoutError struct{ text string }

func (l *timeoutError) Error() string { return match.ErrUnavailable.Error() + ": " + l.text }

func (l *timeoutError) Unwrap() []error {
	return []error{match.ErrUnavailable, context.DeadlineExceeded}
}
