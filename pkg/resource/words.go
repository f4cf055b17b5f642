package resource

import (
	"hash/maphash"
	"math/bits"
	"strings"
)

// A words keeps the strings of a large text. Strings that repeat, such as types and names,
// are kept once, and all strings are in few blocks of memory. To bound the size of its
// table, it forgets strings that are rarely used, and keeps them again when they come again.
type words struct {
	seed  maphash.Seed
	known []string
	block strings.Builder
	size  int
}

// newWords returns a words for a text of this many bytes.
func newWords(text int) *words {
	const mostKnown, mostBlock, perWord = 4096, 64 << 10, 64
	known := 1 << bits.Len(uint(min(max(16, text/perWord), mostKnown)-1))
	return &words{seed: maphash.MakeSeed(), known: make([]string, known), size: min(text/2, mostBlock)}
}

// word returns b as a string that many callers may share.
func (w *words) word(b []byte) string {
	at := &w.known[maphash.Bytes(w.seed, b)&uint64(len(w.known)-1)]
	if *at != string(b) {
		*at = w.text(b)
	}
	return *at
}

// text returns b as a new string. Strings returned earlier stay valid,
// because the block is written only up to its capacity and so never moves.
func (w *words) text(b []byte) string {
	if w.block.Cap()-w.block.Len() < len(b) {
		w.block.Reset()
		w.block.Grow(max(w.size, len(b)))
	}
	from := w.block.Len()
	w.block.Write(b)
	return w.block.String()[from:]
}
