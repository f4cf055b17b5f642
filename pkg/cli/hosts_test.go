package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestNodesAreListedInShort(t *testing.T) {
	scattered := map[string]int{}
	for i := range 1000 {
		scattered[fmt.Sprintf("n%d", i*2)] = 1
	}
	for name, tc := range map[string]struct {
		on   map[string]int
		max  int
		want string
	}{
		"no nodes":                          {map[string]int{}, 8, ""},
		"one node":                          {map[string]int{"a": 2}, 8, "a: 2"},
		"nodes with numbers in a row":       {map[string]int{"n-08": 1, "n-09": 1, "n-10": 1}, 8, "n-[08-10]: 1"},
		"numbers without zeros before them": {map[string]int{"n9": 1, "n10": 1, "n2": 1}, 8, "n[2,9-10]: 1"},
		"nodes of different numbers":        {map[string]int{"n1": 1, "n2": 1, "n3": 2}, 8, "n[1-2]: 1, n3: 2"},
		"the same numbers of pods apart":    {map[string]int{"n1": 2, "n2": 1, "n3": 2}, 8, "n[1,3]: 2, n2: 1"},
		"more parts than fit":               {map[string]int{"n1": 1, "n2": 2, "n3": 3}, 2, "n1: 1, n2: 2, and 1 more"},
		"nodes named alike but for a word":  {map[string]int{"gpu-1": 1, "cpu-1": 1, "gpu-2": 1}, 8, "cpu-1,gpu-[1-2]: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := podsOnNodes(tc.on, tc.max); got != tc.want {
				t.Errorf("podsOnNodes(%v, %d) = %q, want %q", tc.on, tc.max, got, tc.want)
			}
		})
	}
	if got := podsOnNodes(scattered, 8); len(got) > maxHostText+30 || !strings.HasSuffix(got, " more: 1") {
		t.Errorf("nodes far apart are listed in %d bytes: %s", len(got), got)
	}
}
