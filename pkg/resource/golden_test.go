package resource_test

import (
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/golden"
)

// graphFaults has the errors of ReadJGF for the graphs that Fluxion refuses.
var graphFaults = map[string]string{
	"g-no-nodes":      "graph has no nodes",
	"g-empty":         "graph has no root of containment",
	"g-no-type":       `vertex "3": no type`,
	"g-no-metadata":   `vertex "3": no metadata`,
	"g-int-id":        "id: 3: not a string",
	"g-edge-unknown":  `target: no vertex "999"`,
	"g-edge-nosource": "no source",
	"g-bad-size":      `vertex "3": size: "x": not a whole number`,
	"g-two-roots":     "is a second root of containment, after vertex 0",
	"g-same-path":     `has the containment path "/cluster0/node0/socket0/core0" and the rank of vertex 3`,
}

// TestReadJGFAgreesWithFluxion checks that ReadJGF accepts the graphs that Fluxion
// 0.54 accepts, and returns the right error for the graphs that Fluxion refuses.
func TestReadJGFAgreesWithFluxion(t *testing.T) {
	cases, err := golden.Load("../../test/testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range cases {
		name := strings.TrimSuffix(strings.TrimPrefix(c.Graph, "graphs/"), ".json")
		if c.Graph == "" || seen[name] {
			continue
		}
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			g, err := resource.ReadJGF(c.GraphText)
			// In other families the options may be the reason.
			refused := c.Family == "graph" && !c.Expect.Init.OK
			switch {
			case refused && (err == nil || !strings.HasSuffix(err.Error(), graphFaults[name])):
				t.Errorf("ReadJGF: %v, want %s", err, graphFaults[name])
			case !refused && err != nil:
				t.Errorf("ReadJGF: %v", err)
			case !refused && len(g.Vertices) == 0:
				t.Error("ReadJGF: no vertices")
			}
		})
	}
	for name := range graphFaults {
		if !seen[name] {
			t.Errorf("no case has the graph %s", name)
		}
	}
}
