package resource

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"
)

// maxCanonical bounds the sets that a Canon knows, because users choose their amounts.
const maxCanonical = 4096

// A Canon returns the same Set for equal sets of amounts, so that the many pods with equal requests
// need the memory of one Set. The zero Canon is ready for use. It is safe for concurrent use.
type Canon struct {
	mu   sync.Mutex
	sets map[string]*Set
}

// Amounts returns a set with only the types, units and amounts of shares, sorted by type. The amounts
// of one type are added up, to math.MaxInt64 at most. No amount may be negative. Its shares name no vertices, and their size is their amount. Callers must
// not change the set.
func (c *Canon) Amounts(shares []Share) *Set {
	s := &Set{Vertices: make([]Share, 0, len(shares))}
	for i := range shares {
		from := &shares[i]
		n := slices.IndexFunc(s.Vertices, func(v Share) bool { return v.Type == from.Type && v.Unit == from.Unit })
		if n < 0 {
			n = len(s.Vertices)
			s.Vertices = append(s.Vertices, Share{Vertex: Vertex{Type: from.Type, Rank: NoRank, Unit: from.Unit}})
		}
		s.Vertices[n].Amount += min(from.Amount, math.MaxInt64-s.Vertices[n].Amount)
		s.Vertices[n].Size = s.Vertices[n].Amount
	}
	slices.SortStableFunc(s.Vertices, func(a, b Share) int { return cmp.Compare(a.Type, b.Type) })
	var key []byte
	for i := range s.Vertices {
		v := &s.Vertices[i]
		key = strconv.AppendQuote(key, v.Type)
		key = strconv.AppendQuote(key, v.Unit)
		key = strconv.AppendInt(key, v.Amount, 10)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.sets[string(key)]; known != nil {
		return known
	}
	if c.sets == nil || len(c.sets) >= maxCanonical {
		c.sets = map[string]*Set{}
	}
	c.sets[string(key)] = s
	return s
}
