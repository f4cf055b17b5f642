package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
)

// maxEnds bounds how many jobs are looked at for the one whose end would help most.
const maxEnds = 64

// helpfulEnd returns the job whose end would have most more slots fit of the shape that
// failed, in the domain that came closest; nil where that of none would. Those that run
// on every node do not end. Of very many jobs only those with most slots there are
// looked at, and where the work of the match is used up none is named.
func (e *Engine) helpfulEnd(b *board, h *horizon, failed shortfall) *match.End {
	if b.spent() {
		return nil
	}
	held := make(map[match.JobID][]*slot)
	for _, at := range failed.in.order {
		if !b.charge(hostSteps) {
			return nil
		}
		for s := range e.hosts[b.nodes[at].name()].heeded() {
			if !b.charge(sortSteps) {
				return nil
			}
			if e.jobs[s.job] != nil && !s.stays() {
				held[s.job] = append(held[s.job], s)
			}
		}
	}
	jobs := slices.SortedFunc(maps.Keys(held), func(x, y match.JobID) int {
		return cmp.Or(cmp.Compare(len(held[y]), len(held[x])), cmp.Compare(x, y))
	})
	if len(jobs) > maxEnds {
		jobs = jobs[:maxEnds]
	}
	slices.Sort(jobs)
	part := b.on(failed.in.order)
	found := part.least(failed.shape)
	var best *match.End
	for _, id := range jobs {
		steps := 0
		for _, s := range held[id] {
			steps += 2 * h.stepsOf(s.node)
		}
		if !b.charge(steps) {
			return nil
		}
		for _, s := range held[id] {
			h.hosts[s.node].drop(s, &e.graph.columns)
			h.coverAgain(s.node)
		}
		if more := part.least(failed.shape) - found; !b.spent() && more > 0 && (best == nil || more > best.More) {
			best = &match.End{Job: id, More: more}
		}
		for _, s := range held[id] {
			h.hosts[s.node].add(s, &e.graph.columns)
			h.coverAgain(s.node)
		}
	}
	if b.spent() {
		return nil
	}
	return best
}

// stepsOf is how many steps it counts to cover a host anew after what it holds has changed.
func (h *horizon) stepsOf(name string) int {
	at := h.hosts[name]
	if _, ok := h.covered[at]; !ok {
		return coverSteps
	}
	return coverSteps * (1 + len(at.slots) - at.ignored + len(h.promises.nodes[name]))
}

// coverAgain covers a host anew if it is covered, after what it holds has changed.
func (h *horizon) coverAgain(name string) {
	if _, ok := h.covered[h.hosts[name]]; ok {
		h.cover(name)
	}
}

// least lays out as many slots as there is room for of the least of a shape, those
// before it laid out, and returns how many there are.
func (b *board) least(shape int) int64 {
	b.start(seeNow)
	for s := range shape {
		b.lay(s, b.ask.shapes[s].count.Min)
	}
	return b.lay(shape, b.ask.shapes[shape].count.Min)
}
