package engine

import "github.com/flux-k8s/fluence/pkg/jobspec"

// A view says what an attempt counts on.
type view struct {
	// empty: nodes are nobody's and pools hold what stays alone, as if nobody else
	// held anything.
	empty bool
	// up: nodes that are down are left out.
	up bool
	// now: constraints that hold for the present count.
	now bool
}

// The views that verdicts are made of.
var (
	seeNow  = view{up: true, now: true}
	seeUp   = view{empty: true, up: true}
	seeEver = view{empty: true}
)

// A run is a number of slots of one shape on one node, by their indexes.
type run struct {
	shape, node int
	count       int64
}

// A board is where an attempt lays out slots. Rows are filled when they are
// first looked at, so that a request that fits at once costs little.
type board struct {
	*workspace
	ask *ask
	// nodes are those of the graph, order the positions of those of the board in the
	// order in which they are to be used. Elsewhere on the board a node is its index
	// in order.
	nodes []*node
	order []int32
	up    []bool
	// tenancies say whose the nodes are, nil where that hinders nobody; tenant is
	// the one for whom slots are laid out.
	tenancies []tenancy
	tenant    tenant
	view      view
	runs      []run
	// bounds are those of the ask's limits; graph is where the nodes stand.
	bounds []bound
	graph  *graph
	// quest is what found a place for the topology.
	quest *quest
}

// A workspace is memory that one match leaves to the next.
type workspace struct {
	room    []int64 // what is left, by position of a node and need
	filled  []int32 // by position: the attempt that a row was filled for
	attempt int32
	permits []uint8 // by shape and position: what is known of the constraints
	allowances
	runs []run
	// walk counts the walks that measured distances.
	walk     uint64
	order    []int32
	distance []int
	// marked says that the distances are of this match.
	marked bool
}

// What is known of a node and a shape.
const (
	known uint8 = 1 << iota
	allowedAlways
	allowedNow
)

// newBoard returns a board for one match.
func (w *workspace) newBoard(a *ask, g *graph, order []int32, who tenant) *board {
	nodes := len(order)
	w.room = grown(w.room, nodes*len(a.needs))
	w.filled = grown(w.filled, nodes)
	w.permits = grown(w.permits, nodes*len(a.shapes))
	clear(w.filled)
	clear(w.permits)
	w.attempt = 0
	b := &board{
		workspace: w, ask: a, nodes: g.nodes, order: order, up: g.columns.up,
		tenancies: g.columns.hindering(who), tenant: who, runs: w.runs[:0], graph: g,
	}
	b.bind()
	return b
}

func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// start begins an attempt with nothing laid out.
func (b *board) start(v view) {
	b.view = v
	b.attempt++
	b.runs = b.runs[:0]
}

// node returns the node at an index of the order.
func (b *board) node(i int) *node { return b.nodes[b.order[i]] }

// row returns what is left on a node, by need: 0 of a pool that it lacks or
// counts in another unit.
func (b *board) row(i int) []int64 {
	width := len(b.ask.needs)
	at := int(b.order[i])
	row := b.room[at*width : (at+1)*width : (at+1)*width]
	if b.filled[at] == b.attempt {
		return row
	}
	b.filled[at] = b.attempt
	for k := range b.ask.needs {
		row[k] = 0
		for _, c := range b.ask.needs[k].columns {
			if b.view.empty {
				row[k] = plus(row[k], c.most[at])
			} else {
				row[k] = plus(row[k], c.free[at])
			}
		}
	}
	return row
}

// permit says whether the constraints of a shape hold on a node: those for
// good, and all.
func (b *board) permit(s, i int) (always, now bool) {
	shape := &b.ask.shapes[s]
	if len(shape.always)+len(shape.now) == 0 {
		return true, true
	}
	p := &b.permits[s*len(b.nodes)+int(b.order[i])]
	if *p == 0 {
		*p = known
		about := b.node(i).at.about
		if holds(shape.always, about.Name, about.Rank, about.Properties) {
			*p |= allowedAlways
			if holds(shape.now, about.Name, about.Rank, about.Properties) {
				*p |= allowedNow
			}
		}
	}
	return *p&allowedAlways != 0, *p&allowedNow != 0
}

func holds(all []jobspec.Condition, name string, rank int64, properties map[string]string) bool {
	for _, c := range all {
		if !c(name, rank, properties) {
			return false
		}
	}
	return true
}

// hinders says what keeps the tenant from the node at a position.
func (b *board) hinders(at int32) hindrance {
	if b.tenancies == nil || b.view.empty {
		return unhindered
	}
	return b.tenancies[at].hinders(b.tenant)
}

// usable says whether slots of a shape may stand on a node.
func (b *board) usable(s, i int) bool {
	at := b.order[i]
	if b.view.up && !b.up[at] || b.hinders(at) != unhindered {
		return false
	}
	always, now := b.permit(s, i)
	return now || always && !b.view.now
}
