package engine

import (
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A limit bounds how many slots stand below any one vertex of a type, or on the nodes
// of any one list.
type limit struct {
	// name is what shapes share the limit by; empty for one of a shape by itself.
	name string
	kind string
	// hosts are hostlists, and cells has by host the number of its list; nil where the
	// limit is of a type.
	hosts []string
	cells map[string]int32
	most  int64
}

// narrowBy has a shape keep a limit that it shares with all shapes that name it.
func (a *ask) narrowBy(s *shape, from jobspec.Limit) error {
	switch {
	case from.Name == "":
		return invalid("a limit without a name")
	case from.Level == "" && len(from.Hosts) == 0:
		return invalid("%q: neither level nor hosts", from.Name)
	case from.Level != "" && len(from.Hosts) > 0:
		return invalid("%q: level and hosts: one of them only", from.Name)
	case from.Most < 0:
		return invalid("%q: most: %d is less than 0", from.Name, from.Most)
	}
	l := limit{name: from.Name, kind: from.Level, hosts: from.Hosts, most: from.Most}
	if at := slices.IndexFunc(a.limits, func(other limit) bool { return other.name == l.name }); at >= 0 {
		other := &a.limits[at]
		if other.kind != l.kind || other.most != l.most || !slices.Equal(other.hosts, l.hosts) {
			return invalid("two limits of the name %q say different things", l.name)
		}
		if !slices.Contains(s.limits, at) {
			s.limits = append(s.limits, at)
		}
		return nil
	}
	if len(l.hosts) > 0 {
		if err := l.readHosts(); err != nil {
			return err
		}
	}
	a.bound(s, l)
	return nil
}

// readHosts fails for a host in two lists.
func (l *limit) readHosts() error {
	l.cells = make(map[string]int32)
	for i, text := range l.hosts {
		list, err := hostlist.Parse(text)
		if err != nil {
			return invalid("%q: hosts: %w", l.name, err)
		}
		for host := range list.Names() {
			if was, there := l.cells[host]; there && was != int32(i) {
				return invalid("%q: hosts: %q is in two of the lists", l.name, host)
			}
			l.cells[host] = int32(i)
		}
	}
	return nil
}

// bound has a shape keep a limit that no shape before has.
func (a *ask) bound(s *shape, l limit) {
	s.limits = append(s.limits, len(a.limits))
	a.limits = append(a.limits, l)
	a.limited = true
}

// A bound is a limit on a board: so many slots in each of its cells.
type bound struct {
	// of is by position of a node its cell; -1 for a node that is not bounded.
	of   []int32
	most int64
	// each is by cell, where that is not most for all.
	each []int64
	// cells is how many there are, and base where their allowances begin.
	cells, base int32
}

// Allowances are by bound and cell how many slots may still be laid out there. Like
// rows they are filled when they are first looked at.
type allowances struct {
	left    []int64
	settled []int32 // the attempt that an allowance was filled for
	inside  []int32 // memory for the cells of hosts
}

// bind finds the cells of the limits, and of none where the ask has none.
func (b *board) bind() {
	b.bounds = nil
	if !b.ask.limited {
		return
	}
	b.inside = grown(b.inside, len(b.ask.limits)*len(b.nodes))
	b.left, b.settled = b.left[:0], b.settled[:0]
	for k := range b.ask.limits {
		l := &b.ask.limits[k]
		if l.cells == nil {
			p := b.graph.partition(l.kind)
			b.bounds = b.addBound(p.of, len(p.vertices), l.most)
			continue
		}
		of := b.inside[k*len(b.nodes) : (k+1)*len(b.nodes)]
		for at, n := range b.nodes {
			of[at] = -1
			if cell, there := l.cells[n.name()]; there {
				of[at] = cell
			}
		}
		b.bounds = b.addBound(of, len(l.hosts), l.most)
	}
}

// addBound returns the bounds with one more.
func (b *board) addBound(of []int32, cells int, most int64) []bound {
	base := len(b.left)
	b.left = append(b.left, make([]int64, cells)...)
	b.settled = append(b.settled, make([]int32, cells)...)
	return append(b.bounds, bound{of: of, most: most, cells: int32(cells), base: int32(base)})
}

// allowed returns how many slots a bound allows on the node at a position.
func (b *board) allowed(k int, at int32) int64 {
	c := b.bounds[k].of[at]
	if c < 0 {
		return math.MaxInt64
	}
	return b.allowedIn(k, c)
}

// allowedIn returns how many slots a bound allows in a cell.
func (b *board) allowedIn(k int, c int32) int64 {
	x := &b.bounds[k]
	if b.settled[x.base+c] == b.attempt {
		return b.left[x.base+c]
	}
	return x.full(c)
}

// full is what a bound allows in a cell where nothing is laid out.
func (x *bound) full(c int32) int64 {
	if x.each != nil {
		return x.each[c]
	}
	return x.most
}

// spend counts n slots on the node at a position.
func (b *board) spend(k int, at int32, n int64) {
	x := &b.bounds[k]
	c := x.of[at]
	if c < 0 {
		return
	}
	if at := x.base + c; b.settled[at] != b.attempt {
		b.settled[at], b.left[at] = b.attempt, x.full(c)
	}
	b.left[x.base+c] -= n
}

// nested says whether of any two cells of a shape's limits that share nodes one
// lies in the other: then to fill up node by node lays out the most that there can
// be.
func (b *board) nested(s int) bool {
	limits := b.ask.shapes[s].limits
	for i, k := range limits {
		for _, other := range limits[:i] {
			if !b.nest(&b.bounds[k], &b.bounds[other]) {
				return false
			}
		}
	}
	return true
}

// nest says so of two limits.
func (b *board) nest(x, y *bound) bool {
	inY, inX := b.alike(x, y), b.alike(y, x)
	for _, at := range b.order {
		if c, d := x.of[at], y.of[at]; c >= 0 && d >= 0 && !inY[c] && !inX[d] {
			return false
		}
	}
	return true
}

// alike says of the cells of a limit whether all nodes of each are in one cell of
// another, or all in none.
func (b *board) alike(x, y *bound) []bool {
	first, alike := make([]int32, x.cells), make([]bool, x.cells)
	seen := make([]bool, x.cells)
	for _, at := range b.order {
		switch c := x.of[at]; {
		case c < 0:
		case !seen[c]:
			seen[c], alike[c], first[c] = true, true, y.of[at]
		case first[c] != y.of[at]:
			alike[c] = false
		}
	}
	return alike
}

// overbound says whether the shapes that keep one limit want more slots than it
// allows on the nodes that they may use, with each shape counted as if it were
// alone.
func (b *board) overbound(v view) bool {
	if len(b.bounds) == 0 {
		return false
	}
	b.start(v)
	for k := range b.bounds {
		x := &b.bounds[k]
		wanted, free := int64(0), int64(0)
		cells := make(map[int32]int64)
		for s := range b.ask.shapes {
			if !slices.Contains(b.ask.shapes[s].limits, k) {
				continue
			}
			least := b.ask.shapes[s].count.Min
			wanted = plus(wanted, least)
			for i, at := range b.order {
				if n := b.fits(s, i, least); x.of[at] >= 0 {
					cells[x.of[at]] = plus(cells[x.of[at]], n)
				} else {
					free = plus(free, n)
				}
			}
		}
		for c, n := range cells {
			free = plus(free, min(n, x.full(c)))
		}
		if wanted > free {
			return true
		}
	}
	return false
}
