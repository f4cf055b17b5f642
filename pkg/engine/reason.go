package engine

import (
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// refuse makes the error for a request that an attempt found no room for.
func (b *board) refuse(v view, o outcome, failed shortfall, root string) *match.Refusal {
	ever, short := o, failed
	if v != seeEver {
		ever, short = b.solve(seeEver)
	}
	if ever == impossible {
		return b.never(short, root)
	}
	if b.spent() {
		return b.tooHard(failed, root)
	}
	reason := b.reason(v, o, failed, root)
	reason.WaitingHelps, reason.MayNeverFit = true, ever == unknown
	if v != seeEver && reason.Down > 0 {
		up, _ := b.solve(seeUp)
		reason.WaitingHelps = up != impossible
	}
	if b.spent() {
		return b.tooHard(failed, root)
	}
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}

// never makes the error for a request that the whole graph has no room for.
func (b *board) never(failed shortfall, root string) *match.Refusal {
	return &match.Refusal{Err: match.ErrUnsatisfiable, Reason: b.reason(seeEver, impossible, failed, root)}
}

// tooHard makes the error for a request that the meter's steps are too few for.
func (b *board) tooHard(failed shortfall, root string) *match.Refusal {
	shape := &b.ask.shapes[failed.shape]
	return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
		Code: match.TooHard, Slot: shape.label, Level: root, Wanted: shape.count.Min,
		Nodes: int64(len(b.order)), WaitingHelps: true, MayNeverFit: true,
	}}
}

// reason puts a failed attempt into numbers.
func (b *board) reason(v view, o outcome, failed shortfall, root string) match.Reason {
	shape := &b.ask.shapes[failed.shape]
	at, level := b, root
	if failed.level != "" {
		level = failed.level
	}
	r := match.Reason{
		Slot: shape.label, Wanted: shape.count.Min, Found: failed.found,
		Nodes: int64(len(b.order)),
	}
	b.start(view{empty: true, up: v.up, now: v.now})
	empty := b.measure(failed.shape)
	b.countUnusable(&r, failed.shape, v.now)
	switch {
	case empty.usable == 0:
		r.Code, r.Level = match.NoNode, resource.TypeNode
	case !empty.fits:
		r.Code, r.Level = match.TooLarge, resource.TypeNode
	case o == impossible:
		r.Code, r.Level = match.TooFew, level
	default:
		r.Code, r.Level = match.NotFound, level
	}
	before := empty
	if apart := r.Code == match.TooFew || r.Code == match.NotFound; apart && failed.in != nil {
		r.Vertex, at = failed.in.name(), b.on(failed.in.order)
		at.start(v)
		before = at.measure(failed.shape)
	}
	if !v.empty && r.Code != match.TooLarge {
		at.start(v)
		before = at.measure(failed.shape)
		b.countHindered(&r, failed.shape)
	}
	if r.Code == match.TooFew {
		r.Shortages = at.runOut(v, failed, before)
	} else {
		r.Shortages = before.short()
	}
	return r
}

// countUnusable counts the nodes that a shape may not use: now, or at any time.
func (b *board) countUnusable(r *match.Reason, s int, present bool) {
	b.owe(len(b.order))
	for i, at := range b.order {
		always, now := b.permit(s, i)
		switch {
		case !b.up[at]:
			r.Down++
		case !always || present && !now:
			r.Excluded++
		}
	}
}

// countHindered counts the nodes that a shape could use in this view if they
// were not others'.
func (b *board) countHindered(r *match.Reason, s int) {
	b.owe(len(b.order))
	for i, at := range b.order {
		if _, now := b.permit(s, i); !b.up[at] || !now {
			continue
		}
		switch b.hinders(at) {
		case ofAnother:
			r.Whole++
		case inUse:
			r.InUse++
		case unhindered:
		}
	}
}

// runOut returns what shortages there are once as many slots were laid out as
// there is room for: on a pool that has enough for a slot on every node, and not
// for all slots, Nodes is 0. Before is what measure found with nothing laid out.
func (b *board) runOut(v view, failed shortfall, before measure) []match.Shortage {
	b.start(v)
	for s := range failed.shape {
		b.lay(s, b.ask.shapes[s].count.Min)
	}
	b.lay(failed.shape, failed.found)
	after := b.measure(failed.shape)
	var short []match.Shortage
	for i, s := range before.pools {
		if s.Nodes > 0 || after.pools[i].Nodes > 0 {
			short = append(short, s)
		}
	}
	return short
}

// A measure is what the nodes that a shape may use come to.
type measure struct {
	usable int
	fits   bool // one of them has room for a slot
	// pools are those that a slot needs, sorted by type, whether short or not.
	pools []match.Shortage
}

// short returns the pools that some node has too little of.
func (m measure) short() []match.Shortage {
	var short []match.Shortage
	for _, s := range m.pools {
		if s.Nodes > 0 {
			short = append(short, s)
		}
	}
	return short
}

// measure looks at every node that a shape may use.
func (b *board) measure(s int) measure {
	shape := &b.ask.shapes[s]
	short := make([]match.Shortage, len(shape.with))
	for at, k := range shape.with {
		n := b.ask.needs[k]
		short[at] = match.Shortage{Type: n.kind, Unit: n.counted, Wanted: shape.each[k]}
	}
	var m measure
	b.owe(len(b.order) * (1 + len(shape.with)))
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
	slices.SortFunc(short, func(x, y match.Shortage) int { return strings.Compare(x.Type, y.Type) })
	m.pools = short
	return m
}
