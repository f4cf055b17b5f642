package engine

import (
	"math"
	"slices"
	"strings"

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
	// limit is of a type. Like is the first limit with the same lists, or the limit itself.
	hosts []string
	cells map[string]int32
	like  int
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
	if at, there := a.names[l.name]; there {
		other := &a.limits[at]
		if other.kind != l.kind || other.most != l.most || !slices.Equal(other.hosts, l.hosts) {
			return invalid("two limits of the name %q say different things", l.name)
		}
		if !slices.Contains(s.limits, at) {
			s.limits = append(s.limits, at)
		}
		return nil
	}
	l.like = len(a.limits)
	if len(l.hosts) > 0 {
		lists := strings.Join(l.hosts, "\n")
		if at, there := a.lists[lists]; there && slices.Equal(a.limits[at].hosts, l.hosts) {
			l.like, l.cells = at, a.limits[at].cells
		} else if err := l.readHosts(); err != nil {
			return err
		} else {
			a.lists[lists] = l.like
		}
	}
	a.names[l.name] = len(a.limits)
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

const (
	// hostSteps is how many steps it counts to find the cell of a host.
	hostSteps = 16
	// maxCells is how many cells the limits of one request may have in all: up to 20 bytes each.
	maxCells = 1 << 22
)

// bind finds the cells of the limits, and of none where the ask has none. Where these are too
// many it is false, and no steps are left.
func (b *board) bind() bool {
	b.bounds = nil
	if !b.ask.limited {
		return true
	}
	lists, cells := 0, len(b.ask.limits)
	for k := range b.ask.limits {
		if l := &b.ask.limits[k]; l.cells != nil {
			if cells += len(l.hosts); l.like == k {
				lists++
				cells += len(b.nodes)
			}
		} else {
			cells += len(b.graph.partition(l.kind).vertices)
		}
	}
	if cells > maxCells || !b.charge(cells+hostSteps*lists*len(b.nodes)) {
		b.exhaust()
		return false
	}
	b.inside = grown(b.inside, lists*len(b.nodes))
	b.left, b.settled = b.left[:0], b.settled[:0]
	free := b.inside
	for k := range b.ask.limits {
		l := &b.ask.limits[k]
		if l.cells == nil {
			p := b.graph.partition(l.kind)
			b.bounds = b.addBound(p.of, len(p.vertices), l.most)
			continue
		}
		if l.like != k {
			b.bounds = b.addBound(b.bounds[l.like].of, len(l.hosts), l.most)
			continue
		}
		var of []int32
		of, free = free[:len(b.nodes):len(b.nodes)], free[len(b.nodes):]
		for at, n := range b.nodes {
			of[at] = -1
			if cell, there := l.cells[n.name()]; there {
				of[at] = cell
			}
		}
		b.bounds = b.addBound(of, len(l.hosts), l.most)
	}
	return true
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
	if !b.charge(3*len(b.order) + 2*int(x.cells+y.cells)) {
		return false
	}
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
	if !b.charge(len(b.left)) {
		return false
	}
	b.start(v)
	b.sums = grown(b.sums, len(b.left))
	clear(b.sums)
	wanted, free := make([]int64, len(b.bounds)), make([]int64, len(b.bounds))
	for s := range b.ask.shapes {
		shape := &b.ask.shapes[s]
		if len(shape.limits) == 0 {
			continue
		}
		if !b.charge(len(b.order) * b.steps(s)) {
			return false
		}
		least := shape.count.Min
		for _, k := range shape.limits {
			wanted[k] = plus(wanted[k], least)
		}
		for i, at := range b.order {
			n := b.fits(s, i, least)
			for _, k := range shape.limits {
				x := &b.bounds[k]
				if c := x.of[at]; c >= 0 {
					b.sums[x.base+c] = plus(b.sums[x.base+c], n)
				} else {
					free[k] = plus(free[k], n)
				}
			}
		}
	}
	for k := range b.bounds {
		x := &b.bounds[k]
		for c := range x.cells {
			free[k] = plus(free[k], min(b.sums[x.base+c], x.full(c)))
		}
		if wanted[k] > free[k] {
			return !b.spent()
		}
	}
	return false
}
