package engine

import (
	"math"
	"testing"
)

func TestTallyIsExactPastAnInt64(t *testing.T) {
	var sum tally
	for range 5 {
		sum.add(math.MaxInt64)
	}
	sum.add(3)
	for range 5 {
		if got := sum.leaves(math.MaxInt64); got != 0 {
			t.Errorf("leaves(%d) = %d, want 0", int64(math.MaxInt64), got)
		}
		sum.sub(math.MaxInt64)
	}
	for size, want := range map[int64]int64{0: 0, 2: 0, 3: 0, 4: 1, math.MaxInt64: math.MaxInt64 - 3} {
		if got := sum.leaves(size); got != want {
			t.Errorf("leaves(%d) = %d, want %d", size, got, want)
		}
	}
}

func TestSumsAndProductsStayAtTheLargest(t *testing.T) {
	cases := map[string]struct{ got, want int64 }{
		"a sum":                {plus(2, 3), 5},
		"the largest sum":      {plus(math.MaxInt64-1, 1), math.MaxInt64},
		"a sum past it":        {plus(math.MaxInt64, math.MaxInt64), math.MaxInt64},
		"a product":            {times(6, 7), 42},
		"a product with 0":     {times(math.MaxInt64, 0), 0},
		"the largest product":  {times(math.MaxInt64, 1), math.MaxInt64},
		"a product past it":    {times(math.MaxInt64/2, 3), math.MaxInt64},
		"a product far beyond": {times(math.MaxInt64, math.MaxInt64), math.MaxInt64},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s = %d, want %d", name, tc.got, tc.want)
		}
	}
}

func TestBelow(t *testing.T) {
	cases := map[string]struct{ path, node, want string }{
		"a pool":                          {"/cluster0/n1/core0", "n1", "core0"},
		"a pool with a slash in its name": {"/cluster0/n1/nvidia.com/gpu0", "n1", "nvidia.com/gpu0"},
		"deeper down":                     {"/cluster0/r1/n1/socket0/core0", "n1", "socket0/core0"},
		"the name is part of another":     {"/cluster0/n10/n1/core0", "n1", "core0"},
		"the node itself":                 {"/cluster0/n1", "n1", ""},
		"another node":                    {"/cluster0/n2/core0", "n1", ""},
		"no path":                         {"", "n1", ""},
		"no name":                         {"/cluster0//core0", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := below(tc.path, tc.node); got != tc.want {
				t.Errorf("below(%q, %q) = %q, want %q", tc.path, tc.node, got, tc.want)
			}
		})
	}
}
