package solver

import "math"

// SatAdd adds two amounts of 0 or more; a sum past an int64 stays at its largest.
func SatAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// SatMul multiplies two amounts of 0 or more; a product past an int64 stays at
// its largest.
func SatMul(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
