package solver

import (
	"math"
	"testing"
)

func TestSumsAndProductsStayAtTheLargest(t *testing.T) {
	cases := map[string]struct{ got, want int64 }{
		"a sum":                {Plus(2, 3), 5},
		"the largest sum":      {Plus(math.MaxInt64-1, 1), math.MaxInt64},
		"a sum past it":        {Plus(math.MaxInt64, math.MaxInt64), math.MaxInt64},
		"a product":            {Times(6, 7), 42},
		"a product with 0":     {Times(math.MaxInt64, 0), 0},
		"the largest product":  {Times(math.MaxInt64, 1), math.MaxInt64},
		"a product past it":    {Times(math.MaxInt64/2, 3), math.MaxInt64},
		"a product far beyond": {Times(math.MaxInt64, math.MaxInt64), math.MaxInt64},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s = %d, want %d", name, tc.got, tc.want)
		}
	}
}
