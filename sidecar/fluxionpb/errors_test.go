package fluxionpb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// contract has every error of the contract except those that are another error too.
// A new error must be added here and to the table of codes.
var contract = []error{
	match.ErrBusy, match.ErrUnsatisfiable, match.ErrUnavailable, match.ErrConflict, match.ErrStale, match.ErrInvalid,
}

// travel encodes and decodes an error: gRPC keeps only the bytes of a status.
func travel(t *testing.T, err error) error {
	t.Helper()
	sent := fluxionpb.ToStatus(err).Proto()
	return fluxionpb.FromStatus(status.FromProto(sent))
}

// among returns which of these errors err is.
func among(of []error, err error) []error {
	return slices.DeleteFunc(slices.Clone(of), func(e error) bool { return !errors.Is(err, e) })
}

func TestErrorsOfTheContractTravelWhole(t *testing.T) {
	for _, want := range contract {
		t.Run(want.Error(), func(t *testing.T) {
			in := fmt.Errorf("job 7: %w (100%% of %q)", want, "grün\n")
			got := travel(t, in)
			if got.Error() != in.Error() {
				t.Errorf("text: got %q, want %q", got, in)
			}
			if is := among(contract, got); !slices.Equal(is, []error{want}) {
				t.Errorf("%q is %q, want %q alone", got, is, want)
			}
			if _, ok := errors.AsType[*match.Refusal](got); ok {
				t.Errorf("%q became a refusal", got)
			}
		})
	}
}

// An engine that answers that it is unavailable is loading its graph. A connection that is lost is not.
func TestLoadingIsToldFromSilence(t *testing.T) {
	for _, answer := range []error{match.ErrLoading, match.ErrUnavailable} {
		in := fmt.Errorf("job 7: %w", answer)
		if got := travel(t, in); !errors.Is(got, match.ErrLoading) || !errors.Is(got, match.ErrUnavailable) || got.Error() != in.Error() {
			t.Errorf("%q became %q, want that it is loading", in, got)
		}
	}
	if lost := fluxionpb.FromStatus(status.New(codes.Unavailable, "connection refused")); errors.Is(lost, match.ErrLoading) {
		t.Errorf("%q is taken for an answer", lost)
	}
}

func TestAPolicyThatIsNotOfferedTravels(t *testing.T) {
	in := fmt.Errorf("%w %q: must be one of low, lonode", match.ErrPolicy, "first")
	if got := travel(t, in); !errors.Is(got, match.ErrPolicy) || !errors.Is(got, match.ErrInvalid) || got.Error() != in.Error() {
		t.Errorf("%q became %q", in, got)
	}
}

func TestRefusalsTravelWithTheirReason(t *testing.T) {
	full := match.Reason{
		Code: match.TooFew, Slot: "workers", Level: "rack", Vertex: "rack7", Wanted: 512, Found: 500,
		Nodes: 5000, Down: 3, Excluded: 17, OtherHolder: 6, InUse: 7, WaitingHelps: true, AllDisplaced: true,
		Shortages: []match.Shortage{
			{Type: "core", Unit: "m", Wanted: 4000, MaxOnNode: 3500, Nodes: 4980},
			{Type: "memory", Unit: "B", Wanted: 1 << 40, MaxOnNode: 1 << 39, Nodes: 1},
		},
		Blocker:  &match.Blocker{Job: 1<<63 + 5, MoreSlots: 12},
		Promised: &match.Promised{Job: 1<<63 + 6, MoreSlots: 13, From: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)},
	}
	cases := map[string]match.Refusal{
		"every field is set":     {Err: match.ErrBusy, Reason: full},
		"no field is set":        {Err: match.ErrUnsatisfiable},
		"never, for want of any": {Err: match.ErrUnsatisfiable, Reason: match.Reason{Code: match.NoNode, Level: "node", Wanted: 1}},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			in := fmt.Errorf("match job 7: %w", &want)
			got := travel(t, in)
			refusal, ok := errors.AsType[*match.Refusal](got)
			if !ok {
				t.Fatalf("%v is no refusal", got)
			}
			if diff := cmp.Diff(want.Reason, refusal.Reason); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
			if got.Error() != in.Error() || refusal.Error() != want.Error() {
				t.Errorf("texts: got %q and %q, want %q and %q", got, refusal, in, &want)
			}
			if !errors.Is(got, want.Err) {
				t.Errorf("%v is not %v", got, want.Err)
			}
		})
	}
}

func TestAnErrorOutsideOfTheContractIsUnexpected(t *testing.T) {
	in := errors.New("vertex 12 has two parents")
	got := travel(t, in)
	if got.Error() != in.Error() {
		t.Errorf("text: got %q, want %q", got, in)
	}
	if is := among(append([]error{context.Canceled, context.DeadlineExceeded}, contract...), got); len(is) > 0 {
		t.Errorf("%q became %q", got, is)
	}
}

func TestNoErrorIsNoError(t *testing.T) {
	if err := travel(t, nil); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestTextsThatAreNotUTF8LoseALetterAndNotTheError(t *testing.T) {
	in := &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooFew, Slot: "a\xffb"}}
	got := travel(t, fmt.Errorf("job \xff: %w", in))
	refusal, ok := errors.AsType[*match.Refusal](got)
	if !ok || refusal.Reason.Slot != "a\uFFFDb" || !strings.HasPrefix(got.Error(), "job \uFFFD: ") {
		t.Errorf("got %q", got)
	}
}

// gRPC uses the codes of the contract for its own errors.
func TestStatusesOfGRPCsOwnMaking(t *testing.T) {
	cases := map[string]struct {
		code codes.Code
		want []error
	}{
		"the connection is lost":            {codes.Unavailable, []error{match.ErrUnavailable}},
		"the deadline has passed":           {codes.DeadlineExceeded, []error{context.DeadlineExceeded, match.ErrUnavailable}},
		"the call was given up":             {codes.Canceled, []error{context.Canceled}},
		"a message is too large":            {codes.ResourceExhausted, nil},
		"a method is not known":             {codes.Unimplemented, nil},
		"a message cannot be read":          {codes.Internal, nil},
		"a proxy in between found no route": {codes.FailedPrecondition, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := fluxionpb.FromStatus(status.New(tc.code, "what happened"))
			if got == nil || !strings.Contains(got.Error(), "what happened") {
				t.Errorf("got %v, which does not say what happened", got)
			}
			if is := among(append([]error{context.Canceled, context.DeadlineExceeded}, contract...), got); !slices.Equal(is, tc.want) {
				t.Errorf("%q is %q, want %q", got, is, tc.want)
			}
		})
	}
}

func TestAnEngineThatGaveUpIsToldFromOneThatFailed(t *testing.T) {
	if got := travel(t, fmt.Errorf("match: %w", context.Canceled)); !errors.Is(got, context.Canceled) {
		t.Errorf("cancelled: got %v", got)
	}
	if got := travel(t, fmt.Errorf("match: %w", context.DeadlineExceeded)); !errors.Is(got, match.ErrUnavailable) || !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("out of time: got %v", got)
	}
}
