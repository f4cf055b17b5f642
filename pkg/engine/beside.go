package engine

import (
	"context"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// longTries is how often a match may go on beside the graph: what is found there may be
// overtaken.
const longTries = 2

// A beside is a match that takes more work than the engine is held for. It goes on with a
// copy of what it looks at, beside the graph.
type beside struct {
	space  *workspace
	ask    *ask
	graph  *graph
	tenant tenant
	view   view
	root   string
	// nodes are the graph's that were copied, and parents those that they stood below then.
	nodes   []*node
	parents []*vertex
	// runs is what was found. They name nodes by their positions in the copy.
	runs []run
}

// setAside copies what a request looks at. The graph may change from then on. All that is found
// beside the graph for one match, one after the other, has longWork in common.
func (e *Engine) setAside(ctx context.Context, r *match.Request, a *ask, v view, before *beside) *beside {
	a, g := a.apart(&e.graph)
	w := &workspace{order: slices.Clone(e.inOrder(r)), marked: e.space.marked}
	if w.marked {
		w.distance = slices.Clone(e.space.distance)
	}
	steps := e.lengthy
	if before != nil {
		steps = max(0, before.space.remain)
	}
	w.allow(ctx, steps)
	s := &beside{space: w, ask: a, graph: g, tenant: tenantOf(r), view: v, root: e.rootType(), nodes: slices.Clone(e.graph.nodes)}
	for _, n := range s.nodes {
		s.parents = append(s.parents, n.at.parent)
	}
	return s
}

// apart copies an ask and what it reads of the graph.
func (a *ask) apart(of *graph) (*ask, *graph) {
	part := *a
	part.needs = slices.Clone(a.needs)
	for i := range part.needs {
		n := &part.needs[i]
		n.columns = slices.Clone(n.columns)
		for k, c := range n.columns {
			n.columns[k] = &column{unit: c.unit, nodes: c.nodes, most: slices.Clone(c.most), free: slices.Clone(c.free)}
		}
	}
	g := newGraph()
	g.columns.up, g.columns.tenancies = slices.Clone(of.columns.up), slices.Clone(of.columns.tenancies)
	g.columns.owned = of.columns.owned
	for k := range a.limits {
		if l := &a.limits[k]; l.cells == nil {
			g.partitions[l.kind] = of.partition(l.kind)
		}
	}
	if a.topology != nil {
		for _, x := range aims(a.topology) {
			g.partitions[x.kind] = of.partition(x.kind)
		}
	}
	vertices, nodes := make([]vertex, len(of.nodes)), make([]node, len(of.nodes))
	g.nodes = make([]*node, len(of.nodes))
	for i, n := range of.nodes {
		vertices[i].about = n.at.about
		nodes[i] = node{at: &vertices[i], position: i}
		g.nodes[i] = &nodes[i]
	}
	return &part, &g
}

// unlimited returns the ask without what was heeded when a place was found for it.
func (a *ask) unlimited() *ask {
	part := *a
	part.limits, part.limited, part.topology = nil, false, nil
	part.shapes = slices.Clone(a.shapes)
	for i := range part.shapes {
		part.shapes[i].limits = nil
	}
	return &part
}

// find does what was set aside, for one match at a time. It fails as the match does.
func (e *Engine) find(ctx context.Context, s *beside, waited *time.Duration) error {
	select {
	case e.long <- struct{}{}:
	default:
		called := time.Now()
		select {
		case e.long <- struct{}{}:
			*waited += time.Since(called)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() {
		e.settleWork(&s.space.meter)
		<-e.long
	}()
	b := s.space.newBoard(s.ask, s.graph, s.space.order, s.tenant)
	o, failed := b.complete(s.view, nil)
	if o == placed {
		s.runs = b.runs
		for i := range s.runs {
			s.runs[i].node = int(b.order[s.runs[i].node])
		}
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	no := b.refuse(s.view, o, failed, s.root)
	if err := ctx.Err(); err != nil {
		return err
	}
	return no
}

// overtaken makes the error for a request for which what was found beside the graph was taken
// or changed meanwhile, each time.
func (s *beside) overtaken() *match.Refusal {
	shape := &s.ask.shapes[0]
	return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{
		Code: match.Overtaken, Slot: shape.label, Level: s.root, Wanted: shape.count.Min,
		Nodes: int64(len(s.nodes)), WaitingHelps: true,
	}}
}

// complete lays out as many slots of every shape as there can be, or what was found beside
// the graph. Where that does not fit any more the meter is spent.
func (b *board) complete(v view, found *beside) (outcome, shortfall) {
	if found != nil {
		if !b.layAgain(found) {
			b.exhaust()
			return unknown, shortfall{}
		}
		return placed, shortfall{}
	}
	o, failed := b.solve(v)
	if o == placed {
		b.extend()
	}
	return o, failed
}

// layAgain lays out what was found beside the graph. It is false if the graph has changed so
// that it does not fit any more.
func (b *board) layAgain(s *beside) bool {
	if b.spent() {
		return false
	}
	index := make([]int, len(b.nodes))
	for i, at := range b.order {
		index[at] = i
	}
	b.start(s.view)
	for _, r := range s.runs {
		n := s.nodes[r.node]
		if n.position >= len(b.nodes) || b.nodes[n.position] != n || n.at.parent != s.parents[r.node] {
			return false // it has left, or stands elsewhere
		}
		r.node = index[n.position]
		if b.fits(r.shape, r.node, r.count) < r.count {
			return false
		}
		b.take(r.shape, r.node, r.count)
		b.runs = append(b.runs, r)
	}
	return true
}
