package resource

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pool returns a share of a pool of a graph.
func pool(kind, unit string, amount int64) Share {
	return Share{Vertex: Vertex{
		UniqID: 7, Type: kind, Basename: kind, Name: kind + "0", Rank: 3, Size: 100, Unit: unit, Path: "/cluster0/n1/" + kind + "0",
	}, Amount: amount}
}

// amountOf returns a share that names a type and no vertex.
func amountOf(kind, unit string, amount int64) Share {
	return Share{Vertex: Vertex{Type: kind, Rank: NoRank, Size: amount, Unit: unit}, Amount: amount}
}

func TestCanonKeepsTypesUnitsAndAmounts(t *testing.T) {
	cases := map[string]struct{ shares, want []Share }{
		"nothing": {nil, []Share{}},
		"pools in another order": {
			[]Share{pool("pods", "", 1), pool("core", "m", 400)},
			[]Share{amountOf("core", "m", 400), amountOf("pods", "", 1)},
		},
		"two pools of a type": {
			[]Share{pool("core", "m", 400), pool("pods", "", 1), pool("core", "m", 100)},
			[]Share{amountOf("core", "m", 500), amountOf("pods", "", 1)},
		},
		"a sum that is too large": {
			[]Share{pool("memory", "B", math.MaxInt64), pool("memory", "B", 1)},
			[]Share{amountOf("memory", "B", math.MaxInt64)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var c Canon
			if diff := cmp.Diff(&Set{Vertices: tc.want}, c.Amounts(tc.shares)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCanonReturnsOneSetForEqualAmounts(t *testing.T) {
	a := []Share{pool("core", "m", 12), pool("pods", "", 1)}
	cases := map[string]struct {
		b    []Share
		same bool
	}{
		"equal":                        {[]Share{pool("pods", "", 1), pool("core", "m", 12)}, true},
		"another amount":               {[]Share{pool("core", "m", 13), pool("pods", "", 1)}, false},
		"another unit":                 {[]Share{pool("core", "", 12), pool("pods", "", 1)}, false},
		"another type":                 {[]Share{pool("gpu", "m", 12), pool("pods", "", 1)}, false},
		"fewer":                        {[]Share{pool("core", "m", 12)}, false},
		"digits that run into a type":  {[]Share{pool("core", "m", 1), pool("2pods", "", 1)}, false},
		"a type that looks like a key": {[]Share{pool(`core""12"pods`, "", 1)}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var c Canon
			if same := c.Amounts(a) == c.Amounts(tc.b); same != tc.same {
				t.Errorf("the same set: %t, want %t", same, tc.same)
			}
		})
	}
}

func TestCanonIsBounded(t *testing.T) {
	var c Canon
	for i := range 3 * maxCanonical {
		c.Amounts([]Share{pool(fmt.Sprint(i), "", 1)})
		if n := len(c.sets); n > maxCanonical {
			t.Fatalf("%d sets are kept, want at most %d", n, maxCanonical)
		}
	}
}
