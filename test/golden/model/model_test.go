package model

import (
	"maps"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/test/golden"
)

func recorded(t *testing.T) []golden.Case {
	t.Helper()
	cases, err := golden.Load("../../testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestGolden(t *testing.T) {
	count := map[string]int{}
	for _, c := range recorded(t) {
		t.Run(c.ID, func(t *testing.T) {
			if err := golden.Play(&c, Open); err != nil {
				t.Errorf("%s: %v", c.Title, err)
				return
			}
			count[c.Family]++
		})
	}
	for _, family := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%-12s %d cases as recorded", family, count[family])
	}
}

// The formats for people are not part of the comparison. Here they must be exactly the same.
func TestSimpleTexts(t *testing.T) {
	compared := map[string]int{}
	for _, c := range recorded(t) {
		format := c.Format()
		if format != "simple" && format != "pretty_simple" && format != "nope" {
			continue
		}
		got := c
		if err := golden.Record(&got, Open); err != nil {
			t.Fatal(err)
		}
		for i, want := range c.Expect.Steps {
			if want.R == "" {
				continue
			}
			compared[format]++
			if r := got.Expect.Steps[i].R; r != want.R {
				t.Errorf("%s, step %d: %q, want %q", c.ID, i, r, want.R)
			}
		}
	}
	for _, format := range []string{"simple", "pretty_simple", "nope"} {
		if compared[format] == 0 {
			t.Errorf("no text in format %s", format)
		}
	}
}
