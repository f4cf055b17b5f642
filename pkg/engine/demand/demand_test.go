package demand

import (
	"errors"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

func TestReadRefuses(t *testing.T) {
	yes := true
	slot := func(change func(r *jobspec.Resource)) *jobspec.Jobspec {
		js := matchtest.Slots("a", 1, matchtest.Cores(1))
		change(&js.Resources[0])
		return js
	}
	cases := map[string]struct {
		jobspec *jobspec.Jobspec
		wantErr string
	}{
		"no jobspec": {wantErr: "no jobspec"},
		"a node at the top": {
			jobspec: slot(func(r *jobspec.Resource) { r.Type = "node" }),
			wantErr: `"node" at the top level of the jobspec: this engine supports only slots there`,
		},
		"an exclusive slot": {
			jobspec: slot(func(r *jobspec.Resource) { r.Exclusive = &yes }),
			wantErr: `slot "a": exclusive is not supported by this engine`,
		},
		"an exclusive pool": {
			jobspec: slot(func(r *jobspec.Resource) { r.With[0].Exclusive = &yes }),
			wantErr: `slot "a": core: exclusive is not supported by this engine`,
		},
		"a node in a slot": {
			jobspec: slot(func(r *jobspec.Resource) { r.With[0].Type = "node" }),
			wantErr: `slot "a": resource type "node" cannot be requested in a slot`,
		},
		"a slot in a slot": {
			jobspec: slot(func(r *jobspec.Resource) { r.With[0].Type = "slot" }),
			wantErr: `slot "a": resource type "slot" cannot be requested in a slot`,
		},
		"a pool that holds another": {
			jobspec: slot(func(r *jobspec.Resource) { r.With[0].With = r.With[:1:1] }),
			wantErr: `slot "a": core in core: nested resources are not supported by this engine`,
		},
		"a range of amounts": {
			jobspec: slot(func(r *jobspec.Resource) { r.With[0].Count = jobspec.Between(1, 2) }),
			wantErr: `slot "a": core: a range, 1 to 2, is not supported within a slot`,
		},
		"a pool in two units": {
			jobspec: matchtest.Jobspec(
				matchtest.Slot("a", jobspec.Exactly(1), matchtest.Pool{Type: "core", Amount: 1, Unit: "m"}),
				matchtest.Slot("b", jobspec.Exactly(1), matchtest.Pool{Type: "core", Amount: 1, Unit: "k"}),
			),
			wantErr: `slot "b": core is requested in units "m" and "k"`,
		},
		"a constraint of a label that is none": {
			jobspec: matchtest.Constrain(matchtest.Slots("a", 1, matchtest.Cores(1)), "a",
				jobspec.SlotAttributes{ConstraintsNow: &jobspec.Constraint{Op: "xor"}}),
			wantErr: `attributes.system.fluence: "a": constraintsNow: unknown operator "xor"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Read(tc.jobspec)
			if want := match.ErrInvalid.Error() + ": " + tc.wantErr; !errors.Is(err, match.ErrInvalid) || err.Error() != want {
				t.Errorf("Read() = %v, want %s", err, want)
			}
		})
	}
}

func TestReadTakesWhatIsNotExclusive(t *testing.T) {
	no := false
	js := matchtest.Slots("a", 1, matchtest.Cores(1))
	js.Resources[0].Exclusive, js.Resources[0].With[0].Exclusive = &no, &no
	if _, err := Read(js); err != nil {
		t.Errorf("Read() = %v", err)
	}
}
