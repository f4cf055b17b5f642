package model

import (
	"fmt"
)

// A share is a vertex as it is written into a result.
type share struct {
	*vertex
	needs int64
	x     bool
	label string
	depth int
	up    *edge // the edge by which it was reached; nil for the root
}

func (s share) String() string {
	x := "s"
	if s.x {
		x = "x"
	}
	return fmt.Sprintf("%s[%d:%s]", s.paths[containment], s.needs, x)
}

// A booking walks the marked edges and books the vertices.
type booking struct {
	*attempt
	job    uint64
	dry    bool // writes the result but books nothing
	out    []share
	walked map[*vertex]bool
}

func (b *booking) span(n int64) span { return span{b.at, b.end, n, b.job} }

// book books u and what is marked below it. touched reports whether anything
// was exclusive. book adds the booked amounts of tracked types to sums.
func (b *booking) book(u *vertex, up *edge, m mark, shadow bool, depth int, sums map[string]int64) (touched bool) {
	b.walked[u] = true
	shadow = shadow || b.shadow[u.typ]
	exclusive := m.x || shadow
	below := map[string]int64{}
	for _, e := range u.out {
		child, chosen := b.marks[e]
		if b.walked[e.to] || !chosen && !shadow {
			continue
		}
		if shadow {
			child.needs, child.x = e.to.size, true
		}
		if b.book(e.to, e, child, shadow, depth+1, below) {
			touched = true
			if !b.dry {
				e.weigh()
			}
		}
	}
	touched = touched || exclusive
	if !touched {
		return false
	}
	if !b.dry {
		if exclusive {
			u.own = append(u.own, b.span(m.needs))
		}
		u.used = append(u.used, b.span(1))
		u.track(b, below)
	}
	for t, n := range below {
		sums[t] += n
	}
	if exclusive && b.g.tracked[u.typ] {
		sums[u.typ] += m.needs
	}
	if m.label == "" {
		m.label = u.label
	}
	if !b.dry {
		u.label = m.label
	}
	b.out = append(b.out, share{u, m.needs, exclusive, m.label, depth, up})
	return true
}

// track books the amounts below u in its totals: all types together, if any of them was booked.
func (u *vertex) track(b *booking, below map[string]int64) {
	any := false
	for t := range u.below {
		_, booked := below[t]
		any = any || booked
	}
	if !any {
		return
	}
	for t, total := range u.below {
		total.spans = append(total.spans, b.span(below[t]))
		total.ever = true
	}
}

// weigh sets the edge's weight to what its child has
// left at time 0 of the last type that the child tracks.
func (e *edge) weigh() {
	if len(e.to.order) == 0 {
		return
	}
	last := e.to.below[e.to.order[len(e.to.order)-1]]
	left := last.size - last.peak(0, 1)
	if left > 0 || last.ever {
		e.weight = uint64(max(0, left))
	}
}
