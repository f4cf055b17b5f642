package traverser

import (
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/test/golden"
)

// TestSort checks that items are in the order in which libstdc++ leaves them, even with equal keys.
func TestSort(t *testing.T) {
	vectors, err := golden.SortVectors("../../test/testdata/golden/libstdcxx-sort.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 250 {
		t.Errorf("%d vectors, want 250", len(vectors))
	}
	count := map[string]int{}
	for i, v := range vectors {
		items := make([]item, len(v.Scores))
		for k, score := range v.Scores {
			items[k] = item{key: score, at: int32(k)}
			if v.Order == "greater" {
				items[k].key = -items[k].key
			}
		}
		sortItems(items)
		got := make([]int, len(items))
		for k, it := range items {
			got[k] = int(it.at)
		}
		if !slices.Equal(got, v.Result) {
			t.Errorf("vector %d (%s, %d scores, %s): %v, want %v", i, v.Kind, len(v.Scores), v.Order, got, v.Result)
		}
		count[v.Order]++
	}
	if len(count) != 2 || count["greater"] == 0 {
		t.Errorf("orders: %v, want greater and another", count)
	}
}
