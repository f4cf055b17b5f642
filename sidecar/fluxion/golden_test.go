package fluxion_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
	"github.com/flux-k8s/fluence/test/golden"
)

// A program is a library as the recorded cases call it:
// graph and jobspecs go to it unchanged, without the engine.
type program struct{ lib fluxion.Library }

// openProgram returns a function that opens programs over a library.
func openProgram(t *testing.T, open func() fluxion.Library) golden.Open {
	t.Helper()
	return func(graph, options []byte) (golden.Program, error) {
		p := program{open()}
		if text, err := p.call(func() error { return p.lib.InitContext(string(graph), string(options)) }); err != nil {
			p.lib.Destroy()
			return nil, fmt.Errorf("%w: %s", err, text)
		}
		t.Cleanup(p.lib.Destroy)
		return p, nil
	}
}

// call makes a call and returns its error text.
func (p program) call(f func() error) (string, error) {
	p.lib.ClearErrMsg()
	err := f()
	text := p.lib.GetErrMsg()
	p.lib.ClearErrMsg()
	return text, err
}

// numbers are the library's operations.
var numbers = map[string]int{
	golden.Allocate: 1, golden.AllocateWithSatisfy: 2, golden.AllocateOrElseReserve: 3,
	golden.WithoutAllocating: 5, golden.WithoutAllocatingFuture: 6,
}

// Match implements golden.Program. The binding does
// not return why there was no match, so each is busy.
func (p program) Match(op, jobspec string) golden.Answer {
	got := golden.Answer{Status: golden.Allocated}
	text, err := p.call(func() (err error) {
		got.Reserved, got.R, got.At, _, got.JobID, err = p.lib.Match(numbers[op], jobspec)
		return err
	})
	switch {
	case err != nil && text != "":
		return golden.Answer{Status: golden.Invalid, ErrMsg: text}
	case err != nil || got.R == "":
		return golden.Answer{Status: golden.Busy, ErrMsg: text}
	}
	if got.Reserved {
		got.Status, got.Reserved = golden.Reserved, false
	}
	if r, err := resource.ParseR([]byte(got.R)); err == nil {
		for _, v := range r.Vertices {
			mark := "s"
			if v.Exclusively {
				mark = "x"
			}
			got.Alloc = append(got.Alloc, fmt.Sprintf("%s[%d:%s]", v.Path, v.Amount, mark))
		}
	}
	return got
}

// Satisfy implements golden.Program.
func (p program) Satisfy(jobspec string) golden.Answer {
	sat := false
	text, err := p.call(func() (err error) {
		sat, _, err = p.lib.MatchSatisfy(jobspec)
		return err
	})
	switch {
	case err != nil && text != "":
		return golden.Answer{Status: golden.Invalid, ErrMsg: text}
	case sat:
		return golden.Answer{Status: golden.Satisfiable, Sat: true}
	}
	return golden.Answer{Status: golden.Unsatisfiable}
}

// Cancel implements golden.Program.
func (p program) Cancel(jobid uint64, noentOK bool) golden.Answer {
	_, err := p.call(func() error { return p.lib.Cancel(int64(jobid), noentOK) })
	return golden.Answer{OK: err == nil}
}

// Info implements golden.Program.
func (p program) Info(jobid uint64) golden.Answer {
	var got golden.Answer
	_, err := p.call(func() (err error) {
		got.Reserved, got.At, _, got.Mode, err = p.lib.Info(int64(jobid))
		return err
	})
	got.OK = err == nil
	return got
}

// playGolden plays the recorded cases with these ids, or all without any.
func playGolden(t *testing.T, open func() fluxion.Library, ids ...string) {
	t.Helper()
	cases := goldenCases(t)
	for i := range cases {
		if len(ids) > 0 && !slices.Contains(ids, cases[i].ID) {
			continue
		}
		t.Run(cases[i].ID, func(t *testing.T) {
			if err := golden.Play(&cases[i], openProgram(t, open)); err != nil {
				t.Errorf("%s: %v", cases[i].Title, err)
			}
		})
	}
}

// goldenCases reads the recorded cases. The binding does not return why there was no match, so each
// is busy.
func goldenCases(t *testing.T) []golden.Case {
	t.Helper()
	cases, err := golden.Load("../../test/testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		for k := range cases[i].Expect.Steps {
			want := &cases[i].Expect.Steps[k]
			switch {
			case cases[i].Steps[k].Op != golden.OpMatch:
			case want.Status == golden.Unsatisfiable:
				want.Status = golden.Busy
			case strings.Contains(want.ErrMsg, "traverser: Success"):
				// Whether such a refusal has a text depends on the thread.
				want.Status = golden.NoMatch
			}
		}
	}
	return cases
}

// The stand-in with which the engine is tested answers as the library does.
func TestTheStandInIsLikeFluxion(t *testing.T) {
	// Each case has a process of its own, because the first graph of a process closes the table of
	// its types.
	playGolden(t, func() fluxion.Library { return reapitest.NewProcess().Open(reapitest.V054) })
}

func TestAnErrorOfTheStandInHasItsReasonInTheText(t *testing.T) {
	_, err := openProgram(t, func() fluxion.Library { return reapitest.NewProcess().Open(reapitest.V054) })([]byte("{}"), []byte("{}"))
	if err == nil || errors.Unwrap(err) == nil || err.Error() == errors.Unwrap(err).Error() {
		t.Errorf("a graph of nothing fails with %v, want more than the binding's error", err)
	}
}
