package fluxion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Direct passes one graph and jobspecs to the library as they are, without nodes, granules and the
// embedded engine. It is for the command line. It is not safe for concurrent use.
type Direct struct {
	open    func() Library
	options string
	epoch   match.Epoch
	session *session
}

// NewDirect returns a Direct without a graph. The options are the library's, a JSON object, except
// that R is always asked for as JGF. It fails if they are no object.
func NewDirect(open func() Library, options []byte) (*Direct, error) {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	if o == nil {
		return nil, errors.New("options: not an object")
	}
	o["match_format"] = json.RawMessage(`"jgf"`)
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return &Direct{open: open, options: string(text)}, nil
}

// Reset drops the graph.
func (d *Direct) Reset(context.Context) (match.Epoch, error) {
	if d.session != nil {
		d.session.close()
		d.session = nil
	}
	d.epoch++
	return d.epoch, nil
}

// AddSubgraph loads the graph, in JGF. It fails if there is a graph already.
func (d *Direct) AddSubgraph(_ context.Context, _ match.Epoch, jgf []byte) error {
	if d.session != nil {
		return invalid("the graph was loaded already")
	}
	s, err := openSession(d.open(), string(jgf), d.options)
	if err != nil {
		return err
	}
	d.session = s
	return nil
}

// Ready does nothing: the graph is loaded by AddSubgraph.
func (d *Direct) Ready(context.Context, match.Epoch) error { return nil }

// directOps has the library's numbers of the operations.
var directOps = map[match.Op]int{
	match.Allocate: matchAllocate, match.AllocateOrElseReserve: 3, match.WithoutAllocating: 5, match.WithoutAllocatingFuture: 6,
}

// Match asks the library. A refusal is match.ErrBusy or match.ErrUnsatisfiable, without a reason,
// because the library gives none. Only the operation, the jobspec, the duration and the time of the
// request are read. The library has no clock, so any time but 0 is match.ErrInvalid.
func (d *Direct) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	if d.session == nil {
		return nil, match.ErrLoading
	}
	if r.Now.Unix() != 0 {
		return nil, invalid("now: %d: Fluxion's library matches at time 0 alone", r.Now.Unix())
	}
	jobspec, err := r.Jobspec.Encode()
	if err != nil {
		return nil, err
	}
	if r.Op == match.Satisfiability {
		return &match.Allocation{ID: r.ID}, d.satisfy(ctx, string(jobspec))
	}
	op, known := directOps[r.Op]
	if !known {
		return nil, invalid("unknown operation %d", r.Op)
	}
	a, answer := &match.Allocation{ID: r.ID}, ""
	text, err := d.session.call(ctx, func() error {
		reserved, allocated, at, _, _, err := d.session.lib.Match(op, string(jobspec))
		a.Reserved, a.Start, answer = reserved, time.Unix(at, 0).UTC(), allocated
		return err
	})
	switch {
	case isRefusal(answer, text, err):
		if err := d.satisfy(ctx, string(jobspec)); err != nil {
			return nil, err
		}
		return nil, match.ErrBusy
	case err != nil:
		return nil, err
	}
	if a.R, err = resource.ParseR([]byte(answer)); err != nil {
		return nil, fmt.Errorf("read R: %w", err)
	}
	if r.Duration > 0 {
		a.End = a.Start.Add(r.Duration)
	}
	a.R.Start, a.R.Expiration = a.Start, a.End
	return a, nil
}

// satisfy fails with match.ErrUnsatisfiable if the empty graph has no room for a jobspec.
func (d *Direct) satisfy(ctx context.Context, jobspec string) error {
	sat := false
	text, err := d.session.call(ctx, func() (err error) {
		sat, _, err = d.session.lib.MatchSatisfy(jobspec)
		return err
	})
	switch {
	case err != nil && text != "":
		return err
	case err != nil || !sat:
		return match.ErrUnsatisfiable
	}
	return nil
}
