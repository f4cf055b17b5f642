package match

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestOutcomeOf(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"a match":                    {want: "matched"},
		"no room":                    {err: &Refusal{Err: ErrBusy}, want: "busy"},
		"never room":                 {err: fmt.Errorf("ask: %w", &Refusal{Err: ErrUnsatisfiable}), want: "unsatisfiable"},
		"an error that is not known": {err: errors.New("who knows"), want: "error"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := OutcomeOf(tc.err)
			if got != tc.want {
				t.Errorf("OutcomeOf(%v) = %q, want %q", tc.err, got, tc.want)
			}
			if !slices.Contains(Outcomes(), got) {
				t.Errorf("Outcomes %q has no %q", Outcomes(), got)
			}
		})
	}
}
