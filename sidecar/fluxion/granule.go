package fluxion

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// maxUnits bounds the units of one type on one node: each is a vertex, and the
// library tells nodes apart by numbers that leave room for so many.
const maxUnits = 8192

// DefaultGranules returns the sizes of the units that pools are cut into, by the
// unit that they are counted in: 1 CPU of thousandths, 1 GiB of bytes. What is
// counted in any other unit is cut into ones.
func DefaultGranules() map[string]int64 {
	return map[string]int64{"m": 1000, "B": 1 << 30}
}

// granules tell how pools are cut, and how their types are called in the library.
type granules struct {
	byType map[string]int64
	byUnit map[string]int64
	// unit is what the nodes that were put count a type in.
	unit map[string]string
	// names are those of types in the library's graph, and kinds whose they are.
	names, types map[string]string
}

func newGranules(byType map[string]int64) granules {
	return granules{
		byType: byType, byUnit: DefaultGranules(),
		unit: make(map[string]string), names: make(map[string]string), types: make(map[string]string),
	}
}

// sizeOf returns the size of one unit of a type; unit is what it is counted in where
// no node has said so.
func (g *granules) sizeOf(kind, unit string) int64 {
	if n, ok := g.byType[kind]; ok {
		return n
	}
	if known, ok := g.unit[kind]; ok {
		unit = known
	}
	return max(1, g.byUnit[unit])
}

// down returns how many whole units an amount has; up how many it takes.
func (g *granules) down(kind string, n int64) int64 { return min(n/g.sizeOf(kind, ""), maxUnits) }

func (g *granules) up(kind string, n int64) int64 {
	size := g.sizeOf(kind, "")
	return n/size + min(1, n%size)
}

// name returns the name of a type in the library: there a slash would read as a
// step of a path, and colons and commas part filters. It does not end in a digit:
// a vertex is called after its type and number, and none may be called as another.
func (g *granules) name(kind string) string {
	if n, ok := g.names[kind]; ok {
		return n
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, kind)
	if reserved(name) {
		name = "of_" + name
	}
	if last := name[len(name)-1]; last >= '0' && last <= '9' {
		name += "_"
	}
	for g.types[name] != "" {
		name += "_"
	}
	g.names[kind], g.types[name] = name, kind
	return name
}

// reserved says whether a name has a meaning of its own in the library's graph.
func reserved(name string) bool {
	return name == "" || name == resource.TypeCluster || name == resource.TypeNode || name == jobspec.SlotType ||
		name == nodeBasename || strings.HasPrefix(name, levelType)
}

// needs returns amounts of units under the names of the library, in a fixed order.
func (g *granules) needs(units map[string]int64) []amount {
	need := make([]amount, 0, len(units))
	for kind, n := range units {
		if n > 0 {
			need = append(need, amount{g.name(kind), n})
		}
	}
	slices.SortFunc(need, func(a, b amount) int { return cmp.Compare(a.typeName, b.typeName) })
	return need
}

// roundUp returns a copy of a jobspec with the amounts of its slots rounded up to
// whole units. What is malformed is left as it is, for others to refuse.
func (g *granules) roundUp(js *jobspec.Jobspec) *jobspec.Jobspec {
	if js == nil {
		return nil
	}
	c := *js
	c.Resources = slices.Clone(js.Resources)
	for i := range c.Resources {
		r := &c.Resources[i]
		r.With = slices.Clone(r.With)
		for k := range r.With {
			w := &r.With[k]
			size := g.sizeOf(w.Type, w.Unit)
			n := w.Count.Min
			if n != w.Count.Max || n < 1 || n > math.MaxInt64-size {
				continue
			}
			w.Count = jobspec.Exactly((n + size - 1) / size * size)
		}
	}
	return &c
}

// plus adds two amounts of 0 or more; a sum past an int64 stays at its largest.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
