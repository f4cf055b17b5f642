package model

import (
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/test/golden"
)

func TestSort(t *testing.T) {
	vectors, err := golden.SortVectors("../../testdata/golden/libstdcxx-sort.json")
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		got := make([]int, len(v.Scores))
		for i := range got {
			got[i] = i
		}
		sortLike(got, func(a, b int) bool {
			if v.Order == "greater" {
				a, b = b, a
			}
			return v.Scores[a] < v.Scores[b]
		})
		if !slices.Equal(got, v.Result) {
			t.Errorf("vector %d (%s, %d scores, %s) is not sorted as libstdc++ does", i, v.Kind, len(v.Scores), v.Order)
		}
	}
}
