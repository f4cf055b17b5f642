package gang

import "hash/maphash"

// A NodeBloomFilter is a set of nodes that takes the same memory however many they are, for there may be
// many such sets: a Bloom filter with one hash function. It may have a node that nobody added. Nil
// has none.
type NodeBloomFilter struct{ bits [256]uint64 }

var nodeSeed = maphash.MakeSeed()

// at returns where the bit of a node is.
func (f *NodeBloomFilter) at(node string) (word *uint64, bit uint64) {
	h := maphash.String(nodeSeed, node) % uint64(64*len(f.bits))
	return &f.bits[h/64], 1 << (h % 64)
}

// Add adds a node.
func (f *NodeBloomFilter) Add(node string) {
	word, bit := f.at(node)
	*word |= bit
}

// Has says whether a node was added, or is taken for one that was.
func (f *NodeBloomFilter) Has(node string) bool {
	if f == nil {
		return false
	}
	word, bit := f.at(node)
	return *word&bit != 0
}
