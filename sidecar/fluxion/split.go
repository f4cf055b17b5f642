package fluxion

import (
	"context"
)

// cancelJobs cancels all jobs that the library made for the request. The runs still say which slots
// go to which host.
func (p *attempt) cancelJobs() error {
	for _, job := range p.jobs {
		if err := p.engine.session.cancel(job); err != nil {
			return err
		}
	}
	p.jobs = nil
	return nil
}

// fail cancels all jobs that the library made for the request before err. It returns err, or the
// error of the cancel.
func (p *attempt) fail(err error) error {
	if undone := p.cancelJobs(); undone != nil {
		return undone
	}
	return err
}

// splitJobs gives every slot a separate job in the library, so that it can be released alone. It
// cancels the job of the match, and books each slot on its node, with the same vertices if the
// release supports that. The engine is locked, so no other request can take the room meanwhile.
func (p *attempt) splitJobs(ctx context.Context) error {
	for i := range p.runs {
		x := &p.runs[i]
		if x.count == 1 && len(x.answer.nodes) == 1 {
			continue
		}
		// Runs of one match have one job. A second cancel does nothing.
		if err := p.engine.session.cancel(x.jobs[0]); err != nil {
			return err
		}
		x.jobs = nil
	}
	for i := range p.runs {
		x := &p.runs[i]
		s := p.shape(x.shape)
		for nth := int64(len(x.jobs)); nth < x.count; nth++ {
			job, err := p.engine.rebook(ctx, x, nth, s)
			if err != nil {
				return err
			}
			p.jobs, x.jobs = append(p.jobs, job), append(x.jobs, job)
		}
	}
	return nil
}

// rebook books the nth slot of a run.
func (e *Engine) rebook(ctx context.Context, x *slotRun, nth int64, s *shape) (int64, error) {
	if job, ok, err := e.session.update(ctx, x.answer.slotR(x.host.node.number, nth, s.need)); ok || err != nil {
		return job, err
	}
	return e.book(ctx, x.host.node, s.units)
}
