package store

import "slices"

// blockNodes is the number of nodes in a block: consecutive nodes of an order.
const blockNodes = 64

// maxProfiles is the maximum number of profiles that a block index keeps.
const maxProfiles = 32

// A blockIndex divides an order of all nodes into blocks, so that a search may pass over a block in
// which no node has room. What is known of a block is computed when it is read, if the block has
// changed since it was computed last. So a change costs a few writes, however many nodes there are.
type blockIndex struct {
	// order has the positions in their order, and indexOf the inverse. Both are
	// nil if the order is by position.
	order, indexOf []int32
	// changed has by block the number of its last change. Numbers begin at 1.
	changed []uint64
	// maxima has the largest amounts of each column.
	maxima map[*column]*blockMaxima
	// profiles has what is known for amounts that were requested lately.
	profiles map[string]*profile
	// clock counts the uses of profiles.
	clock uint64
}

// A nodeSet is a set of nodes over which amounts are compared.
type nodeSet int

const (
	// allNodes has every node. The amount of a node is its capacity.
	allNodes nodeSet = iota
	// openNodes has the nodes that are up and have no holder. The amount of a node is what is free.
	openNodes
	// emptyNodes has the open nodes on which nobody holds a slot that is not shared.
	emptyNodes
	nodeSets
)

// blockMaxima has the largest amounts of one column by block, in each set of nodes.
type blockMaxima struct {
	// computed has by block the number of the change up to which the maxima are computed.
	computed []uint64
	max      [][nodeSets]int64
}

// A profile tells the blocks in which no node of a set has certain amounts together. Maxima do not
// tell that: one node may have the cores, and another one the memory.
type profile struct {
	// full has by block the number of the change at which no node had the amounts.
	full []uint64
	// used is the time of the last use.
	used uint64
}

// newBlockIndex returns the index for an order of nodes. It is the order of positions if order is
// nil.
func newBlockIndex(nodes int, order []int32, change uint64) *blockIndex {
	x := &blockIndex{order: order, maxima: make(map[*column]*blockMaxima), profiles: make(map[string]*profile)}
	if order != nil {
		x.indexOf = make([]int32, nodes)
		for i, at := range order {
			x.indexOf[at] = int32(i)
		}
	}
	x.resize(nodes, 0, change)
	return x
}

// resize sets the number of nodes. All blocks from the one of the node with index i on have changed.
func (x *blockIndex) resize(nodes, i int, change uint64) {
	blocks := (nodes + blockNodes - 1) / blockNodes
	x.changed = slices.Grow(x.changed[:min(blocks, len(x.changed))], blocks-min(blocks, len(x.changed)))[:blocks]
	for block := i / blockNodes; block < blocks; block++ {
		x.changed[block] = change
	}
}

// touch notes a change of the node at a position.
func (x *blockIndex) touch(at int, change uint64) {
	if x.indexOf != nil {
		at = int(x.indexOf[at])
	}
	x.changed[uint(at)/blockNodes] = change
}

// at returns the position of the node with index i.
func (x *blockIndex) at(i int) int {
	if x.order == nil {
		return i
	}
	return int(x.order[i])
}

// maximaOf returns the maxima of a column. Some of them may have to be computed.
func (x *blockIndex) maximaOf(c *column) *blockMaxima {
	m := x.maxima[c]
	if m == nil {
		m = &blockMaxima{}
		x.maxima[c] = m
	}
	if blocks := len(x.changed); len(m.computed) != blocks {
		m.computed, m.max = resizedKept(m.computed, blocks), resizedKept(m.max, blocks)
	}
	return m
}

// resizedKept returns a slice of n elements. It begins with the elements of s, and zeros follow.
func resizedKept[T any](s []T, n int) []T {
	if n <= len(s) {
		return s[:n:n]
	}
	return append(s, make([]T, n-len(s))...)
}

// profileOf returns the profile with this key. It replaces the profile that was not used for the
// longest time if there are too many.
func (x *blockIndex) profileOf(key []byte) *profile {
	x.clock++
	p := x.profiles[string(key)]
	if p == nil {
		if len(x.profiles) == maxProfiles {
			x.dropProfile()
		}
		p = &profile{}
		x.profiles[string(key)] = p
	}
	p.full, p.used = resizedKept(p.full, len(x.changed)), x.clock
	return p
}

// dropProfile drops the profile that was not used for the longest time.
func (x *blockIndex) dropProfile() {
	oldest, since := "", x.clock
	for key, p := range x.profiles {
		if p.used < since {
			oldest, since = key, p.used
		}
	}
	delete(x.profiles, oldest)
}

// compute computes the maxima of a column in a block.
func (x *blockIndex) compute(c *columns, of *column, m *blockMaxima, block int) {
	var most [nodeSets]int64
	for i := block * blockNodes; i < min(len(c.up), (block+1)*blockNodes); i++ {
		at := x.at(i)
		most[allNodes] = max(most[allNodes], of.Capacity[at])
		free, holders := of.Free[at], &c.exclusive[at]
		if free <= most[emptyNodes] || !c.up[at] || holders.Holders > 0 {
			continue
		}
		most[openNodes] = max(most[openNodes], free)
		if holders.WithoutHolder == 0 {
			most[emptyNodes] = max(most[emptyNodes], free)
		}
	}
	m.max[block], m.computed[block] = most, x.changed[block]
}
