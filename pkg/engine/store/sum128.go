package store

import "math/bits"

// A sum128 is an exact sum of amounts in 128 bits. An int64 would be too small
// for what is held of a pool, because an Update never fails for lack of room. 128
// bits cannot overflow, because there is not enough memory for that many slots.
type sum128 struct{ high, low uint64 }

// add adds an amount of 0 or more.
func (t *sum128) add(amount int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(amount), 0)
	t.high += carry
}

// sub subtracts an amount that was added before.
func (t *sum128) sub(amount int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(amount), 0)
	t.high -= borrow
}

// remaining returns size less the sum, or 0 if the sum is larger.
func (t *sum128) remaining(size int64) int64 {
	if t.high > 0 || t.low >= uint64(size) {
		return 0
	}
	return size - int64(t.low)
}
