package versionskew

import (
	"strings"
	"testing"

	apiversion "k8s.io/apimachinery/pkg/version"
)

func TestOf(t *testing.T) {
	cases := map[string]struct {
		server apiversion.Info
		want   string // in the error; empty for none
	}{
		"the same version":                 {apiversion.Info{Major: "1", Minor: "37"}, ""},
		"one version newer":                {apiversion.Info{Major: "1", Minor: "38"}, ""},
		"two versions newer":               {apiversion.Info{Major: "1", Minor: "39"}, "of Kubernetes 1.39, and this build of Fluence is made for 1.37 and 1.38"},
		"one version older":                {apiversion.Info{Major: "1", Minor: "36"}, "install the release of Fluence for 1.36"},
		"another major version":            {apiversion.Info{Major: "2", Minor: "37"}, "of Kubernetes 2.37"},
		"a version of a distribution":      {apiversion.Info{Major: "1", Minor: "37+"}, ""},
		"an old one of a distribution":     {apiversion.Info{Major: "1", Minor: "30+"}, "of Kubernetes 1.30"},
		"one that behaves as an older one": {apiversion.Info{Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "36"}, "of Kubernetes 1.36"},
		"one that behaves as itself":       {apiversion.Info{Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "37"}, ""},
		"one that does not say":            {apiversion.Info{}, ""},
		"one that says nonsense":           {apiversion.Info{Major: "1", Minor: "x"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			switch err := Check(tc.server); {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("it says %v, nothing of %q", err, tc.want)
			}
		})
	}
}
