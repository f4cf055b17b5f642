package fluxion

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// maxUnits bounds the units of one type on one node. Each unit is a vertex.
// It is less than nodeStride, which separates the numbers of nodes.
const maxUnits = 8192

// DefaultGranules returns the sizes of the granules into which pools are cut, by the unit of
// measure: 1 CPU for thousandths of a core, 1 GiB for bytes. For any other unit of measure a
// granule is 1. A granule of huge pages is a page.
func DefaultGranules() map[string]int64 {
	return map[string]int64{"m": 1000, "B": 1 << 30}
}

// hugePages begins the names of the types of huge pages. The size of a page follows.
const hugePages = "hugepages-"

// granules has the granule sizes of pools, and the names of their types in the library.
type granules struct {
	byType map[string]int64
	byUnit map[string]int64
	// measure is the unit of measure in which the nodes count a type.
	measure map[string]string
	names   typeNames
}

func newGranules(byType map[string]int64, names typeNames) granules {
	return granules{byType: byType, byUnit: DefaultGranules(), measure: make(map[string]string), names: names}
}

// sizeOf returns the granule size of a type. unit is the unit of measure of the type if no node has
// given one.
func (g *granules) sizeOf(poolType, unit string) int64 {
	if n, ok := g.byType[poolType]; ok {
		return n
	}
	if n := pageSize(poolType); n > 0 {
		return n
	}
	if known, ok := g.measure[poolType]; ok {
		unit = known
	}
	return max(1, g.byUnit[unit])
}

// pageSize returns the size of the pages of a type such as hugepages-2Mi, in bytes. It is 0 for all
// other types.
func pageSize(poolType string) int64 {
	size, ok := strings.CutPrefix(poolType, hugePages)
	if !ok {
		return 0
	}
	for _, unit := range []struct {
		suffix string
		bytes  int64
	}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}} {
		if digits, ok := strings.CutSuffix(size, unit.suffix); ok {
			if n, err := strconv.ParseInt(digits, 10, 32); err == nil && n > 0 {
				return n * unit.bytes
			}
		}
	}
	return 0
}

// roundDown returns an amount in granules, rounded down, at most maxUnits.
func (g *granules) roundDown(poolType string, n int64) int64 {
	return min(n/g.sizeOf(poolType, ""), maxUnits)
}

// roundUp returns an amount in granules, rounded up.
func (g *granules) roundUp(poolType string, n int64) int64 {
	size := g.sizeOf(poolType, "")
	return n/size + min(1, n%size)
}

// needs returns the units with the library's names of their types, in a fixed order. The name of a
// type that no node has had is "".
func (g *granules) needs(units map[string]int64) []unitCount {
	need := make([]unitCount, 0, len(units))
	for poolType, n := range units {
		if n > 0 {
			need = append(need, unitCount{g.names[poolType], n})
		}
	}
	slices.SortFunc(need, func(a, b unitCount) int { return cmp.Compare(a.typeName, b.typeName) })
	return need
}

// roundJobspec returns a copy of a jobspec with the amounts of its slots rounded up to whole
// granules. Malformed parts stay as they are, so that the shadow rejects them.
func (g *granules) roundJobspec(js *jobspec.Jobspec) *jobspec.Jobspec {
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

// plus adds two amounts of 0 or more. A sum that exceeds an int64 is math.MaxInt64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
