package engine

import (
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// refuse makes the error for a request that an attempt found no room for now.
func (b *board) refuse(now outcome, failed shortfall, root string) error {
	if ever, short := b.solve(seeEver); ever == impossible {
		return b.never(short, root)
	}
	reason := b.reason(seeNow, now, failed, root)
	reason.WaitingHelps = true
	if reason.Down > 0 {
		up, _ := b.solve(seeUp)
		reason.WaitingHelps = up != impossible
	}
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}

// never makes the error for a request that the whole graph has no room for.
func (b *board) never(failed shortfall, root string) error {
	return &match.Refusal{Err: match.ErrUnsatisfiable, Reason: b.reason(seeEver, impossible, failed, root)}
}

// reason puts a failed attempt into numbers.
func (b *board) reason(v view, o outcome, failed shortfall, root string) match.Reason {
	shape := &b.ask.shapes[failed.shape]
	r := match.Reason{
		Slot: shape.label, Wanted: shape.count.Min, Found: failed.found,
		Nodes: int64(len(b.order)),
	}
	b.start(view{whole: true, up: v.up, now: v.now})
	empty := b.measure(failed.shape)
	for i := range b.order {
		always, now := b.permit(failed.shape, i)
		switch {
		case !b.up[b.order[i]]:
			r.Down++
		case !always || v.now && !now:
			r.Excluded++
		}
	}
	switch {
	case empty.usable == 0:
		r.Code, r.Level = match.NoNode, resource.TypeNode
	case !empty.fits:
		r.Code, r.Level = match.TooLarge, resource.TypeNode
	case o == impossible:
		r.Code, r.Level = match.TooFew, root
	default:
		r.Code, r.Level = match.NotFound, root
	}
	if v.whole || r.Code == match.TooLarge {
		r.Shortages = empty.shortages
		return r
	}
	b.start(v)
	r.Shortages = b.measure(failed.shape).shortages
	return r
}

// A measure is what the nodes that a shape may use come to.
type measure struct {
	usable    int
	fits      bool // one of them has room for a slot
	shortages []match.Shortage
}

// measure looks at every node that a shape may use. The board must be empty.
func (b *board) measure(s int) measure {
	shape := &b.ask.shapes[s]
	short := make([]match.Shortage, len(shape.with))
	for at, k := range shape.with {
		n := b.ask.needs[k]
		short[at] = match.Shortage{Type: n.kind, Unit: n.counted, Wanted: shape.each[k]}
	}
	var m measure
	for i := range b.order {
		if !b.usable(s, i) {
			continue
		}
		m.usable++
		row, fits := b.row(i), true
		for at, k := range shape.with {
			short[at].Most = max(short[at].Most, row[k])
			if row[k] < shape.each[k] {
				short[at].Nodes++
				fits = false
			}
		}
		m.fits = m.fits || fits
	}
	for _, s := range short {
		if s.Nodes > 0 {
			m.shortages = append(m.shortages, s)
		}
	}
	slices.SortFunc(m.shortages, func(x, y match.Shortage) int { return strings.Compare(x.Type, y.Type) })
	return m
}
