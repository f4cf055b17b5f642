package model

import (
	"maps"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/test/golden"
)

func TestGolden(t *testing.T) {
	cases, err := golden.Load("../../../test/testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i := range cases {
		c := &cases[i]
		t.Run(c.ID, func(t *testing.T) {
			if err := golden.Play(c, Open); err != nil {
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
