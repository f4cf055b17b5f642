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
	// effort bounds what the searches of this match may still look at.
	effort int
	// marked says that the distances are of this match.
	marked bool
	meter
	// sums is memory for what fits by cell.
	sums []int64
}

// What is known of a node and a shape.
const (
	known uint8 = 1 << iota
	allowedAlways
	allowedNow
)

const (
	// maxRoom is how many bytes there may be in the memory of one match for what is left on
	// nodes, and in each other part that grows with the nodes and the shapes.
	maxRoom = 1 << 26
	// keptRoom is how many bytes of such a part one match leaves to the next.
	keptRoom = 1 << 22
	// bytesPerStep is how many bytes are cleared in a step, and needsPerStep of how many needs
	// it is read what is left.
	bytesPerStep = 64
	needsPerStep = 4
)

// newBoard returns a board for one match. It has no nodes and no steps are left where it
// would be too large.
func (w *workspace) newBoard(a *ask, g *graph, order []int32, who tenant) *board {
	w.attempt = 0
	w.effort = 2 * searchBudget
	b := &board{
		workspace: w, ask: a, nodes: g.nodes, order: order, up: g.columns.up,
		tenancies: g.columns.hindering(who), tenant: who, runs: w.runs[:0], graph: g,
	}
	nodes := len(order)
	if !b.affords(8*nodes*len(a.needs)) || !b.affords(nodes*len(a.shapes)) || !b.bind() {
		b.order, b.bounds = nil, nil
		return b
	}
	w.room = grown(w.room, nodes*len(a.needs))
	w.filled = grown(w.filled, nodes)
	w.permits = grown(w.permits, nodes*len(a.shapes))
	clear(w.filled)
	clear(w.permits)
	return b
}

// affords charges for memory of so many bytes. It is false where that is too much.
func (w *workspace) affords(bytes int) bool {
	if bytes > maxRoom {
		w.exhaust()
	}
	return !w.spent() && w.charge(bytes/bytesPerStep)
}

// tidy lets go of what one match needed much of.
func (w *workspace) tidy() {
	w.room, w.filled, w.permits = kept(w.room, 8), kept(w.filled, 4), kept(w.permits, 1)
	w.left, w.settled, w.inside = kept(w.left, 8), kept(w.settled, 4), kept(w.inside, 4)
	w.sums, w.runs = kept(w.sums, 8), kept(w.runs, 24)
}

// kept returns memory to go on with, of elements of so many bytes.
func kept[T any](s []T, size int) []T {
	if cap(s)*size > keptRoom {
		return nil
	}
	return s
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
	b.remain -= len(b.ask.needs) / needsPerStep // the next charge looks at what is left
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
		if !b.charge(shape.conditions) {
			return false, false
		}
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
