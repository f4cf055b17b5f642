package jobspec_test

import (
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/test/golden"
)

// engineFaults are errors of Fluxion for jobspecs that are valid by themselves.
var engineFaults = []string{
	"siblings in jobspec request same resource type",
	"exclusivity conflicts",
	"must be a resource type known to fluxion",
	"match writer emit",
	"traverser: Success", // nothing exclusive is asked for
}

// TestParseAgreesWithFluxion checks that Parse accepts
// what Fluxion 0.54 accepts, and refuses what it refuses.
func TestParseAgreesWithFluxion(t *testing.T) {
	cases, err := golden.Load("../../test/testdata/golden")
	if err != nil {
		t.Fatal(err)
	}
	taken, refused := 0, 0
	for _, c := range cases {
		for i, step := range c.Steps {
			if step.Jobspec == "" || !c.Expect.Init.OK {
				continue
			}
			answer := c.Expect.Steps[i]
			wrong := answer.Status == "error" || answer.Status == "invalid"
			for _, text := range engineFaults {
				wrong = wrong && !strings.Contains(answer.ErrMsg, text)
			}
			if wrong {
				refused++
			} else {
				taken++
			}
			if _, err := jobspec.Parse([]byte(c.Jobspecs[step.Jobspec])); wrong != (err != nil) {
				t.Errorf("%s, step %d: Parse: %v, and Fluxion: %s %q\n%s", c.ID, i+1, err, answer.Status, answer.ErrMsg, c.Jobspecs[step.Jobspec])
			}
		}
	}
	if taken < 1000 || refused < 50 {
		t.Errorf("%d jobspecs taken and %d refused: the cases are not all there", taken, refused)
	}
}
