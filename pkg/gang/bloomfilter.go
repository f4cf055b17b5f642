package gang

import "hash/maphash"

// A NodeBloomFilter is a set of nodes: a Bloom filter with one hash function.
// It takes 2 KiB however many nodes it has, because there may be many such
// sets. It may seem to have a node that was not added. Nil has no nodes.
type NodeBloomFilter struct{ bits [256]uint64 }

// nodeSeed is the seed of the hash function.
var nodeSeed = maphash.MakeSeed()

// at returns the word and the bit of a node.
func (f *NodeBloomFilter) at(node string) (word *uint64, bit uint64) {
	h := maphash.String(nodeSeed, node) % uint64(64*len(f.bits))
	return &f.bits[h/64], 1 << (h % 64)
}

// Add adds a node.
func (f *NodeBloomFilter) Add(node string) {
	word, bit := f.at(node)
	*word |= bit
}

// Has reports whether a node was added. It may also return true for a node that was not added.
func (f *NodeBloomFilter) Has(node string) bool {
	if f == nil {
		return false
	}
	word, bit := f.at(node)
	return *word&bit != 0
}
