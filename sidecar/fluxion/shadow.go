package fluxion

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A pastAnswer is a request that got an allocation, and the request to the shadow that booked it.
type pastAnswer struct {
	request       [sha256.Size]byte
	shadowRequest match.Request
}

// fingerprint returns a hash of the parts of a request
// that make it the same when a caller repeats it.
func fingerprint(r *match.Request) ([sha256.Size]byte, error) {
	text, err := json.Marshal(struct {
		Jobspec        *jobspec.Jobspec
		Keys, Near     []string
		Policy, Holder string
		Duration       time.Duration
	}{r.Jobspec, append([]string{}, r.Keys...), append([]string{}, r.Near...), r.Policy, r.Holder, r.Duration})
	if err != nil {
		return [sha256.Size]byte{}, invalid("jobspec: %w", err)
	}
	return sha256.Sum256(text), nil
}

// repeat answers a request that was answered before. ok reports whether it was.
func (e *Engine) repeat(ctx context.Context, r *match.Request) (a *match.Allocation, ok bool, err error) {
	was, ok := e.answers[r.ID]
	if !ok || r.Op == match.Satisfiability || slices.Contains(r.Ignore, r.ID) {
		return nil, false, nil
	}
	now, err := fingerprint(r)
	if err != nil {
		return nil, false, err
	}
	if was.request != now {
		return nil, false, nil // The shadow reports a conflict.
	}
	again := was.shadowRequest
	again.Op, again.Now, again.Expected, again.Ignore, again.Ending = r.Op, r.Now, r.Expected, r.Ignore, r.Ending
	again.Replaces, again.ReplacesKeys = r.Replaces, r.ReplacesKeys
	a, err = e.shadow.Match(ctx, again)
	if err != nil {
		return nil, false, err
	}
	relabel(a.Slots)
	return a, true, nil
}

// matchShadow books a placement in the shadow, with exact amounts, and returns the shadow's
// answer. The shadow always has room, because exact amounts are at most the rounded ones.
func (p *attempt) matchShadow(ctx context.Context) (*match.Allocation, error) {
	booked := p.shadowRequest()
	a, err := p.engine.shadow.Match(context.WithoutCancel(ctx), booked)
	if err != nil {
		return nil, fmt.Errorf("match job %d: book what Fluxion gave out: %w: %v", p.request.ID, errDamaged, err) //nolint:errorlint // a refusal here is none of the request
	}
	if booked.Op == match.Allocate {
		now, err := fingerprint(p.request)
		if err != nil {
			return nil, err
		}
		p.engine.answers[p.request.ID] = pastAnswer{request: now, shadowRequest: booked}
	}
	relabel(a.Slots)
	return a, nil
}

// shadowRequest returns the request to the shadow. It has one
// slot request for each run, constrained to the run's host.
func (p *attempt) shadowRequest() match.Request {
	r := *p.request
	r.Near = nil
	js := &jobspec.Jobspec{Version: r.Jobspec.Version}
	js.Attributes.System.Fluence = make(map[string]jobspec.SlotAttributes, len(p.runs))
	r.Jobspec, r.Keys = js, nil
	next, nth := p.keys(), int64(0)
	for at, x := range p.runs {
		asked := &p.request.Jobspec.Resources[x.shape]
		slot := jobspec.Resource{
			Type: jobspec.SlotType, Label: label(at, asked.Label), Count: jobspec.Exactly(x.count), With: slices.Clone(asked.With),
		}
		js.Resources = append(js.Resources, slot)
		js.Attributes.System.Fluence[slot.Label] = jobspec.SlotAttributes{
			Constraints: &jobspec.Constraint{Op: jobspec.OpHostlist, Values: []string{x.host.name}},
		}
		for range x.count {
			r.Keys = append(r.Keys, next(x.shape, nth))
			nth++
		}
	}
	return r
}

// keys returns a function that returns the slot keys of a shape in
// order. If the request has no keys, the function numbers the slots.
func (p *attempt) keys() func(shape int, nth int64) string {
	if len(p.request.Keys) == 0 {
		return func(_ int, nth int64) string { return strconv.FormatInt(nth, 10) }
	}
	from := make([]int64, len(p.request.Jobspec.Resources))
	for i := 1; i < len(from); i++ {
		from[i] = from[i-1] + p.request.Jobspec.Resources[i-1].Count.Max
	}
	return func(shape int, _ int64) string {
		from[shape]++
		return p.request.Keys[from[shape]-1]
	}
}

// addSlots records the slots of an allocation with their jobs in the library.
func (p *attempt) addSlots(a *match.Allocation) {
	nth := 0
	for _, x := range p.runs {
		units := p.shape(x.shape).units
		for _, job := range x.jobs {
			from := &a.Slots[nth]
			nth++
			s := &slot{
				slotKey: slotKey{a.ID, from.Key}, holder: from.Holder, amounts: amountsOf(from.R), ownJob: job, units: units,
			}
			p.engine.addJobSlot(x.host.name, s)
		}
	}
}

// label returns the label of a run's slots in the shadow, where each run is a slot request.
func label(at int, of string) string { return strconv.Itoa(at) + "/" + of }

// relabel sets the labels of the shadow's slots to the labels of the request.
func relabel(slots []match.Slot) {
	for i := range slots {
		if _, of, ok := strings.Cut(slots[i].Label, "/"); ok {
			slots[i].Label = of
		}
	}
}
