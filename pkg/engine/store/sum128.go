package store

import "math/bits"

// A tally adds up amounts exactly. What is held of a pool may pass an int64,
// since an Update never fails for lack of room; two words cannot be filled by
// any number of slots that fits in memory.
type sum128 struct{ high, low uint64 }

// add puts an amount of 0 or more on top.
func (t *sum128) add(amount int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(amount), 0)
	t.high += carry
}

// sub takes off an amount that was added before.
func (t *sum128) sub(amount int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(amount), 0)
	t.high -= borrow
}

// remaining returns what remains of size: 0 where more than it is held.
func (t *sum128) remaining(size int64) int64 {
	if t.high > 0 || t.low >= uint64(size) {
		return 0
	}
	return size - int64(t.low)
}
