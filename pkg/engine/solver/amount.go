package solver

import "math"

// SatAdd returns the sum of two amounts that are not negative; math.MaxInt64 if it overflows.
func SatAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// SatMul returns the product of two amounts that are not negative; math.MaxInt64 if it overflows.
func SatMul(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
