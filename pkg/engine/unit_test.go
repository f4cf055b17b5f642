package engine_test

import (
	"errors"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// TestUnits matches in graphs with several units.
func TestUnits(t *testing.T) {
	pool := func(unit string) matchtest.Pool { return matchtest.Pool{Type: "disk", Amount: 1, Unit: unit} }
	cases := map[string]struct {
		nodes []string // the unit of each node, n1 first
		ask   string
		want  string // the nodes of two slots, or the error
	}{
		"equal units":                           {nodes: []string{"G", "G"}, ask: "G", want: "0@n1 1@n2"},
		"a node of another unit is passed over": {nodes: []string{"G", "T", "G"}, ask: "G", want: "0@n1 1@n3"},
		"a node without a unit fits":            {nodes: []string{"T", "", "G"}, ask: "G", want: "0@n2 1@n3"},
		"a request without a unit fits all":     {nodes: []string{"T", "G"}, want: "0@n1 1@n2"},
		"no node of that unit": {
			nodes: []string{"T", "T"}, ask: "G",
			want: `invalid request: disk is requested in unit "G", but the graph counts it in unit "T"`,
		},
		"too few of that unit": {
			nodes: []string{"G", "T"}, ask: "G",
			want: `request can never be satisfied: room for 1 of 2 slots of "a" (2 nodes); disk: 1G wanted per slot, at most 0G available, too little on 1 node`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t)
			for i, unit := range tc.nodes {
				if err := d.e.PutNode(t.Context(), d.epoch, matchtest.Node("n"+string(rune('1'+i)), nil, pool(unit))); err != nil {
					t.Fatalf("PutNode() = %v", err)
				}
			}
			a, err := d.e.Match(t.Context(), d.request(1, matchtest.Slots("a", 2, pool(tc.ask))))
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = written(a.Slots)
			}
			if got != tc.want {
				t.Errorf("Match() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAUnitGoesWithItsLastNode(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t,
		matchtest.Node("n1", nil, matchtest.Pool{Type: "disk", Amount: 1, Unit: "T"}),
		matchtest.Node("n2", nil, matchtest.Pool{Type: "disk", Amount: 1, Unit: "G"}),
	)
	if err := d.e.RemoveNode(t.Context(), d.epoch, "n2"); err != nil {
		t.Fatalf("RemoveNode() = %v", err)
	}
	_, err := d.e.Match(t.Context(), d.request(1, matchtest.Slots("a", 1, matchtest.Pool{Type: "disk", Amount: 1, Unit: "G"})))
	if !errors.Is(err, match.ErrInvalid) {
		t.Errorf("Match() = %v, want the error %q", err, match.ErrInvalid)
	}
}
