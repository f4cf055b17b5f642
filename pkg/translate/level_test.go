package translate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLevels(t *testing.T) {
	cases := map[string]struct {
		keys    []string
		want    []Level
		wantErr []string
	}{
		"no levels": {keys: nil, want: []Level{}},
		"the type follows the slash": {
			keys: []string{"topology.kubernetes.io/zone", "example.com/block", "rack"},
			want: []Level{
				{Type: "zone", Key: "topology.kubernetes.io/zone"},
				{Type: "block", Key: "example.com/block"},
				{Type: "rack", Key: "rack"},
			},
		},
		"an empty key":                    {keys: []string{"zone", ""}, wantErr: []string{"level 1", `""`}},
		"no label key":                    {keys: []string{"a/b/c"}, wantErr: []string{"level 0", `"a/b/c"`, "not a label key"}},
		"a key with a space":              {keys: []string{"rack "}, wantErr: []string{"level 0", `"rack "`}},
		"the same key twice":              {keys: []string{"rack", "rack"}, wantErr: []string{"level 1", `"rack"`, "level 0"}},
		"two keys of one type":            {keys: []string{"a.com/rack", "zone", "b.com/rack"}, wantErr: []string{"level 2", `"b.com/rack"`, `"a.com/rack"`}},
		"a type of the graph, node":       {keys: []string{"example.com/node"}, wantErr: []string{"level 0", `"node"`}},
		"a type of the graph, cluster":    {keys: []string{"cluster"}, wantErr: []string{`"cluster"`}},
		"a type of a jobspec, slot":       {keys: []string{"slot"}, wantErr: []string{`"slot"`}},
		"a pool, core":                    {keys: []string{"core"}, wantErr: []string{`"core"`}},
		"a pool, memory":                  {keys: []string{"example.com/memory"}, wantErr: []string{`"memory"`}},
		"a pool, pods":                    {keys: []string{"pods"}, wantErr: []string{`"pods"`}},
		"a pool, huge pages of some size": {keys: []string{"hugepages-2Mi"}, wantErr: []string{`"hugepages-2Mi"`}},
		"a pool, ephemeral-storage":       {keys: []string{"ephemeral-storage"}, wantErr: []string{`"ephemeral-storage"`}},
		"a resource that is a pool, cpu":  {keys: []string{"cpu"}, wantErr: []string{`"cpu"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseLevels(tc.keys)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ParseLevels(%q) (-want +got):\n%s", tc.keys, diff)
			}
			if (err != nil) != (tc.wantErr != nil) {
				t.Fatalf("ParseLevels(%q): error %v", tc.keys, err)
			}
			for _, part := range tc.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not name %s", err, part)
				}
			}
		})
	}
}
