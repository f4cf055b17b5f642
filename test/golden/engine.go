package golden

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// An engineProgram is a Program with an engine. It
// keeps the released jobs, which an engine forgets.
type engineProgram struct {
	ctx    context.Context
	engine match.GraphEngine
	epoch  match.Epoch
	write  func(*resource.Set) ([]byte, error)
	last   match.JobID
	gone   map[match.JobID]Answer
}

// OpenEngine loads a graph into an engine and returns it as a Program. It fails
// if the engine refuses the graph. write writes R in the format of the options.
// It also has to write an empty set for each refusal. If a format cannot
// represent an empty set, the refusal becomes an error, as in the library.
func OpenEngine(ctx context.Context, e match.GraphEngine, graph []byte, write func(*resource.Set) ([]byte, error)) (Program, error) {
	epoch, err := e.Reset(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.AddSubgraph(ctx, epoch, graph); err != nil {
		return nil, err
	}
	if err := e.Ready(ctx, epoch); err != nil {
		return nil, err
	}
	return &engineProgram{ctx: ctx, engine: e, epoch: epoch, write: write, gone: map[match.JobID]Answer{}}, nil
}

// ops are an engine's operations, by the library's. An
// engine always distinguishes busy from unsatisfiable.
var ops = map[string]match.Op{
	Allocate:                match.Allocate,
	AllocateWithSatisfy:     match.Allocate,
	AllocateOrElseReserve:   match.AllocateOrElseReserve,
	WithoutAllocating:       match.WithoutAllocating,
	WithoutAllocatingFuture: match.WithoutAllocatingFuture,
	OpSatisfy:               match.Satisfiability,
}

// refusal returns the answer for an error of an engine.
func refusal(err error) Answer {
	a := Answer{Status: "unexpected", ErrMsg: err.Error()}
	switch {
	case errors.Is(err, match.ErrBusy):
		a.Status = Busy
	case errors.Is(err, match.ErrUnsatisfiable):
		a.Status = Unsatisfiable
	case errors.Is(err, match.ErrInvalid):
		a.Status = Invalid
	}
	return a
}

// ask makes the call with a new job number.
func (p *engineProgram) ask(op, text string) (*match.Allocation, error) {
	j, err := jobspec.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", match.ErrInvalid, err)
	}
	p.last++
	return p.engine.Match(p.ctx, match.Request{
		Epoch: p.epoch, Op: ops[op], ID: p.last, Jobspec: j,
		Now: time.Unix(0, 0), Duration: j.Attributes.System.Duration,
	})
}

// Match implements Program.
func (p *engineProgram) Match(op, text string) Answer {
	a, err := p.ask(op, text)
	if err != nil {
		if _, unwritable := p.write(&resource.Set{}); unwritable != nil {
			return Answer{Status: Invalid, ErrMsg: err.Error() + ", written as R: " + unwritable.Error()}
		}
		return refusal(err)
	}
	r, err := p.write(a.R)
	if err != nil {
		if err := p.engine.Release(p.ctx, p.epoch, p.last); err != nil {
			return refusal(err)
		}
		return Answer{Status: Invalid, ErrMsg: err.Error()}
	}
	got := Answer{Status: Allocated, At: a.Start.Unix(), R: string(r)}
	if a.Reserved {
		got.Status = Reserved
	}
	if op != WithoutAllocating && op != WithoutAllocatingFuture {
		got.JobID = uint64(p.last)
	}
	for i := range a.R.Vertices {
		got.Alloc = append(got.Alloc, line(&a.R.Vertices[i]))
	}
	return got
}

func line(s *resource.Share) string {
	x := "s"
	if s.Exclusively {
		x = "x"
	}
	return fmt.Sprintf("%s[%d:%s]", s.Path, s.Amount, x)
}

// Satisfy implements Program.
func (p *engineProgram) Satisfy(text string) Answer {
	if _, err := p.ask(OpSatisfy, text); err != nil {
		return refusal(err)
	}
	return Answer{Status: Satisfiable, Sat: true}
}

// Cancel implements Program.
func (p *engineProgram) Cancel(id uint64, noentOK bool) Answer {
	held := p.Info(id)
	if !held.OK || held.Mode == modeCanceled {
		return Answer{OK: noentOK}
	}
	if err := p.engine.Release(p.ctx, p.epoch, match.JobID(id)); err != nil {
		return refusal(err)
	}
	p.gone[match.JobID(id)] = Answer{OK: true, Mode: modeCanceled, At: held.At}
	return Answer{OK: true}
}

const modeCanceled = "CANCELED"

// Info implements Program.
func (p *engineProgram) Info(id uint64) Answer {
	jobs, err := p.engine.Jobs(p.ctx, p.epoch)
	if err != nil {
		return refusal(err)
	}
	for _, j := range jobs {
		switch {
		case j.ID != match.JobID(id):
		case j.Reserved:
			return Answer{OK: true, Mode: "RESERVED", Reserved: true, At: j.Start.Unix()}
		default:
			return Answer{OK: true, Mode: "ALLOCATED", At: j.Start.Unix()}
		}
	}
	return p.gone[match.JobID(id)]
}
