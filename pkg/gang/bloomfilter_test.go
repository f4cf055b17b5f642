package gang

import (
	"fmt"
	"testing"
)

func TestNodeBloomFilter(t *testing.T) {
	var none *NodeBloomFilter
	if none.Has("n") {
		t.Error("a filter of nothing has a node")
	}
	var f NodeBloomFilter
	for i := range 1000 {
		f.Add(fmt.Sprintf("in-%d", i))
	}
	wrong := 0
	for i := range 1000 {
		if !f.Has(fmt.Sprintf("in-%d", i)) {
			t.Fatalf("node in-%d was added, and it is not there", i)
		}
		if f.Has(fmt.Sprintf("out-%d", i)) {
			wrong++
		}
	}
	// A thousand of 16,384 bits are set, or a few less.
	if wrong > 150 {
		t.Errorf("%d of 1000 nodes are taken for such that were added, want about 60", wrong)
	}
}
