package fluxion_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

// An odd library is a stand-in some of whose answers are changed.
type odd struct {
	fluxion.Library
	number uint64 // the number of every job, if not 0
	sure   bool   // answers that every jobspec can be satisfied
	doubt  bool   // returns an error after every cancel
}

func (o odd) Match(op int, jobspec string) (reserved bool, r string, at int64, overhead float64, jobid uint64, err error) {
	reserved, r, at, overhead, jobid, err = o.Library.Match(op, jobspec)
	if o.number != 0 && err == nil {
		jobid = o.number
	}
	return reserved, r, at, overhead, jobid, err
}

func (o odd) MatchSatisfy(jobspec string) (sat bool, overhead float64, err error) {
	sat, overhead, err = o.Library.MatchSatisfy(jobspec)
	if o.sure {
		return true, overhead, nil
	}
	return sat, overhead, err
}

func (o odd) Cancel(jobid int64, noentOK bool) error {
	err := o.Library.Cancel(jobid, noentOK)
	if o.doubt {
		return errors.New("doubt")
	}
	return err
}

// oddRig is a rig over a stand-in that change has changed.
func oddRig(t *testing.T, change func(*odd)) *rig {
	t.Helper()
	p := reapitest.NewProcess()
	e, err := fluxion.New(fluxion.Options{
		Epoch: func() match.Epoch { return 1 },
		Open: func() fluxion.Library {
			o := odd{Library: p.Open(reapitest.V046)}
			change(&o)
			return o
		},
	})
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	t.Cleanup(e.Close)
	r := &rig{Engine: e, process: p}
	if r.epoch, err = e.Reset(t.Context()); err != nil {
		t.Fatalf("Reset() = %v", err)
	}
	r.put(t, four()...)
	if err := e.Ready(t.Context(), r.epoch); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
	return r
}

func TestANumberThatComesTwiceIsNoJob(t *testing.T) {
	r := oddRig(t, func(o *odd) { o.number = 7 })
	r.places(t, 1, cores(1), "a")
	if a, err := r.Match(t.Context(), r.ask(2, cores(1))); err == nil || !strings.Contains(err.Error(), "job number 7 twice") {
		t.Errorf("Match() = %v, %v, want an error that names the number", a, err)
	}
}

// An error of a cancel counts only if the job still holds something.
func TestACancelThatFailedAndDidItsWorkCostsNothing(t *testing.T) {
	r := oddRig(t, func(o *odd) { o.doubt = true })
	r.places(t, 1, cores(5), "a a a a b")
	r.release(t, 1)
	r.places(t, 2, cores(1), "a")
	r.loads(t, 1)
}

// The verdict never is given only if Fluxion is not sure of the contrary.
func TestFluxionCanOverruleNever(t *testing.T) {
	r := oddRig(t, func(o *odd) { o.sure = true })
	reason := r.refuses(t, 1, cores(9), match.ErrBusy)
	if reason.Code != match.NotFound || !reason.WaitingHelps {
		t.Errorf("the reason is %+v, want %s, and that waiting helps", reason, match.NotFound)
	}
	// Fluxion cannot be sure of what it does not see.
	js := matchtest.Constrain(cores(9), "w", boundByNode(4))
	r.refuses(t, 1, js, match.ErrUnsatisfiable)
}

func TestANodeThatMovesIsDrawnAnew(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	r.put(t, matchtest.Node("a", [][2]string{{"rack", "r"}}, matchtest.Cores(4), matchtest.Memory(8)))
	r.places(t, 1, cores(1), "a")
	r.loads(t, 2)
}

// Release 0.54.0 adds a text to a refusal, depending on what an earlier call has left on its thread.
func TestARefusalWithTheTextOfSuccessIsNoDamage(t *testing.T) {
	r := newRig(t, reapitest.V054, four()...)
	r.process.ErrnoIsZero = true
	r.places(t, 1, matchtest.Slots("w", 5, matchtest.MilliCores(250)), "a a a a b")
	// There is room in exact amounts, so that the library is asked.
	asked := r.process.Calls["Match"]
	r.refuses(t, 2, matchtest.Slots("w", 4, matchtest.MilliCores(250)), match.ErrBusy)
	if got := r.process.Calls["Match"] - asked; got != 1 {
		t.Errorf("the library was asked %d times, want once", got)
	}
	r.places(t, 2, cores(3), "b b b")
	r.loads(t, 1)
}
