package solver

import (
	"math"
	"testing"
)

func TestSumsAndProductsStayAtTheLargest(t *testing.T) {
	cases := map[string]struct{ got, want int64 }{
		"a sum":                {SatAdd(2, 3), 5},
		"the largest sum":      {SatAdd(math.MaxInt64-1, 1), math.MaxInt64},
		"a sum past it":        {SatAdd(math.MaxInt64, math.MaxInt64), math.MaxInt64},
		"a product":            {SatMul(6, 7), 42},
		"a product with 0":     {SatMul(math.MaxInt64, 0), 0},
		"the largest product":  {SatMul(math.MaxInt64, 1), math.MaxInt64},
		"a product past it":    {SatMul(math.MaxInt64/2, 3), math.MaxInt64},
		"a product far beyond": {SatMul(math.MaxInt64, math.MaxInt64), math.MaxInt64},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s = %d, want %d", name, tc.got, tc.want)
		}
	}
}
