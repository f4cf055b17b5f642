package resource

import (
	"hash/maphash"
	"math/bits"
	"strings"
)

// A words keeps the strings of a large text: those that repeat, as types and
// names do, once each, and all of them in few pieces of memory. It forgets rarely
// used ones and then keeps them again, so that its own size is bounded.
type words struct {
	seed  maphash.Seed
	known []string
	block strings.Builder
	size  int
}

// newWords is sized for a text of so many bytes.
func newWords(text int) *words {
	const mostKnown, mostBlock, perWord = 4096, 64 << 10, 64
	known := 1 << bits.Len(uint(min(max(16, text/perWord), mostKnown)-1))
	return &words{seed: maphash.MakeSeed(), known: make([]string, known), size: min(text/2, mostBlock)}
}

// word returns b as a string that many a caller may share.
func (w *words) word(b []byte) string {
	at := &w.known[maphash.Bytes(w.seed, b)&uint64(len(w.known)-1)]
	if *at != string(b) {
		*at = w.text(b)
	}
	return *at
}

// text returns b as a string of its own. The block never moves what it has
// given out: it is written only up to its capacity.
func (w *words) text(b []byte) string {
	if w.block.Cap()-w.block.Len() < len(b) {
		w.block.Reset()
		w.block.Grow(max(w.size, len(b)))
	}
	from := w.block.Len()
	w.block.Write(b)
	return w.block.String()[from:]
}
