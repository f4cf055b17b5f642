package fluxionpb

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match"
)

// errorCodes has the code of each error of the contract. A status with one of these codes is an
// error of the contract only if it carries a Failure, because gRPC uses the same codes for its own
// errors. Of two errors with one code the first is decoded: an engine that answers that it is
// unavailable is loading its graph.
var errorCodes = []struct {
	code codes.Code
	err  error
}{
	{codes.ResourceExhausted, match.ErrBusy},
	{codes.FailedPrecondition, match.ErrUnsatisfiable},
	{codes.Unavailable, match.ErrLoading},
	{codes.Unavailable, match.ErrUnavailable},
	{codes.AlreadyExists, match.ErrConflict},
	{codes.Aborted, match.ErrStale},
	{codes.Unimplemented, match.ErrPolicy},
	{codes.InvalidArgument, match.ErrInvalid},
}

// ToStatus encodes the error of an engine. FromStatus decodes it with the
// same text. The decoded error still matches the errors of the contract, a
// *match.Refusal and its Reason. Of all other errors only the text is kept.
func ToStatus(err error) *status.Status {
	if err == nil {
		return nil
	}
	says := validUTF8(err.Error())
	for _, w := range errorCodes {
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

// FromStatus decodes the status of a call.
//
//   - No answer is match.ErrUnavailable, with the cause in its text.
//   - No answer in time is match.ErrUnavailable and context.DeadlineExceeded.
//   - A cancelled call is context.Canceled.
//   - An error of the contract is that error.
//   - Any other error of the server is none of these.
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

// fromContractCode decodes a status with a code that gRPC
// uses, too. With a Failure it is an error of the contract.
func fromContractCode(s *status.Status) error {
	if f := failureOf(s); f != nil {
		for _, w := range errorCodes {
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

// A remoteError is an error of another process, with the text that it had there.
type remoteError struct {
	text string
	err  error
}

func (t *remoteError) Error() string { return t.text }

func (t *remoteError) Unwrap() error { return t.err }

// A timeoutError means that no answer came in time.
type timeoutError struct{ text string }

func (l *timeoutError) Error() string { return match.ErrUnavailable.Error() + ": " + l.text }

func (l *timeoutError) Unwrap() []error {
	return []error{match.ErrUnavailable, context.DeadlineExceeded}
}
