package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

func TestJobspec(t *testing.T) {
	never := &jobspec.Constraint{Op: jobspec.OpNot, Args: []jobspec.Constraint{{Op: jobspec.OpHostlist, Values: []string{"n1"}}}}
	cases := map[string]struct {
		shapes []ShapeRequest
		want   string
	}{
		"one shape, so many": {
			shapes: []ShapeRequest{{Label: "a", Amounts: Amounts{"core": 500, "memory": 1024, "pods": 1}, Min: 4, Max: 4}},
			want: `{"version":9999,"resources":[{"type":"slot","count":4,"label":"a","with":[` +
				`{"type":"core","count":500,"unit":"m"},{"type":"memory","count":1024,"unit":"B"},{"type":"pods","count":1}]}],` +
				`"tasks":[{"command":["pod"],"slot":"a","count":{"per_slot":1}}],"attributes":{"system":{}}}`,
		},
		"two shapes, one a range and narrowed": {
			shapes: []ShapeRequest{
				{Label: "leader", Amounts: Amounts{"core": 4000, "pods": 1}, Min: 1, Max: 1},
				{Label: "worker", Amounts: Amounts{"nvidia.com/gpu": 1, "pods": 1}, Min: 2, Max: 8, Attributes: jobspec.SlotAttributes{
					Constraints: never, MaxPerLevel: map[string]int64{"node": 1},
				}},
			},
			want: `{"version":9999,"resources":[` +
				`{"type":"slot","count":1,"label":"leader","with":[{"type":"core","count":4000,"unit":"m"},{"type":"pods","count":1}]},` +
				`{"type":"slot","count":{"min":2,"max":8,"operator":"+","operand":1},"label":"worker","with":[{"type":"nvidia.com/gpu","count":1},{"type":"pods","count":1}]}],` +
				`"tasks":[{"command":["pod"],"slot":"leader","count":{"per_slot":1}},{"command":["pod"],"slot":"worker","count":{"per_slot":1}}],` +
				`"attributes":{"system":{"fluence":{"worker":{"constraints":{"not":[{"hostlist":["n1"]}]},"maxPerLevel":{"node":1}}}}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			js := Jobspec(tc.shapes)
			if err := js.Validate(); err != nil {
				t.Fatalf("the jobspec is not valid: %v", err)
			}
			text, err := js.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := jobspec.Parse(text)
			if err != nil {
				t.Fatalf("the jobspec's own text is refused: %v\n%s", err, text)
			}
			want, err := jobspec.Parse([]byte(tc.want))
			if err != nil {
				t.Fatalf("the text wanted is no jobspec: %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Jobspec (-want +got):\n%s", diff)
			}
		})
	}
}
