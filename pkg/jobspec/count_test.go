package jobspec

import (
	"math"
	"testing"
)

func TestFloor(t *testing.T) {
	cases := map[string]struct {
		count Count
		n     int64
		want  int64
	}{
		"exactly as many":                      {Exactly(3), 3, 3},
		"more than enough":                     {Exactly(3), 9, 3},
		"too few":                              {Exactly(3), 2, 0},
		"none wanted":                          {Exactly(0), 5, 0},
		"a range takes all it can":             {Between(1, 8), 5, 5},
		"a range ends at its end":              {Between(1, 8), 50, 8},
		"a range without end":                  {Between(2, NoLimit), math.MaxInt64, math.MaxInt64},
		"steps count from the start":           {Count{1, 8, '+', 3}, 6, 4},
		"the last step may lie below the end":  {Count{1, 9, '+', 3}, 100, 7},
		"a range that runs backwards":          {Count{5, 2, '+', 1}, 9, 0},
		"doubling":                             {Count{3, 20, '*', 2}, 13, 12},
		"doubling ends at the end":             {Count{3, 20, '*', 2}, 100, 12},
		"times one stays":                      {Count{3, 20, '*', 1}, 13, 3},
		"doubling up to the largest":           {Count{1, math.MaxInt64, '*', 2}, math.MaxInt64, 1 << 62},
		"squares":                              {Count{2, 300, '^', 2}, 255, 16},
		"squares up to the end":                {Count{2, 256, '^', 2}, 1000, 256},
		"cubes":                                {Count{2, 30, '^', 3}, 30, 8},
		"powers of one stay":                   {Count{1, 30, '^', 2}, 30, 1},
		"an exponent that nothing survives":    {Count{2, math.MaxInt64, '^', math.MaxInt64}, math.MaxInt64, 2},
		"squares do not overflow":              {Count{2, math.MaxInt64, '^', 2}, math.MaxInt64, 1 << 32},
		"an operator that there is not":        {Count{1, 8, '-', 1}, 5, 0},
		"a negative start, which is no number": {Between(-5, 5), 3, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.count.Floor(tc.n); got != tc.want {
				t.Errorf("%+v.Floor(%d) = %d, want %d", tc.count, tc.n, got, tc.want)
			}
		})
	}
}

// FuzzFloor compares Floor with a search through all numbers.
func FuzzFloor(f *testing.F) {
	f.Add(uint8(1), uint8(8), uint8(0), uint8(3), uint8(6))
	f.Add(uint8(3), uint8(20), uint8(1), uint8(2), uint8(13))
	f.Add(uint8(2), uint8(255), uint8(2), uint8(2), uint8(100))
	f.Fuzz(func(t *testing.T, low, high, operator, operand, n uint8) {
		c := Count{int64(low), int64(high), "+*^"[operator%3], int64(operand)}
		if c.Validate() != nil {
			return
		}
		want := int64(0)
		for q := c.Min; q <= min(c.Max, int64(n)); {
			want = q
			switch c.Operator {
			case '+':
				q += c.Operand
			case '*':
				q *= c.Operand
			case '^':
				q = int64(math.Min(math.Pow(float64(q), float64(c.Operand)), 1e9))
			}
			if q == want { // 0 times anything
				break
			}
		}
		if got := c.Floor(int64(n)); got != want {
			t.Errorf("%+v.Floor(%d) = %d, want %d", c, n, got, want)
		}
	})
}
