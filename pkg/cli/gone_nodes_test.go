package cli

import (
	"strings"
	"testing"
)

func TestNodesOfGroups(t *testing.T) {
	cases := map[string]struct {
		args      string
		forbidden []string
		want      string // how the row ends
	}{
		"a group on a node that has gone":            {args: "groups -o wide --no-headers job/elastic", want: "node-0,node-9 (gone)"},
		"a group that has finished":                  {args: "groups -o wide --no-headers job/done", want: " node-1"},
		"a group that has finished without its pods": {args: "groups -o wide --no-headers job/cut", want: " -"},
		"the nodes may not be listed":                {args: "groups -o wide --no-headers job/elastic", forbidden: []string{"nodes"}, want: "node-[0,9]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if out, errOut, _ := (call{args: tc.args, objects: queued(), forbidden: tc.forbidden}).run(t); !strings.HasSuffix(strings.TrimRight(out, " \n"), tc.want) {
				t.Errorf("%q, %q; want that it ends in %q", out, errOut, tc.want)
			}
		})
	}
}
