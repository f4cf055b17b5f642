package stack

import (
	"slices"
	"testing"
)

func TestTheSidecarIsTheOneOfTheConfiguration(t *testing.T) {
	deployed := []string{"--engine=embedded"}
	common := []string{"--engine=embedded", "--listen=unix:///s", "--metrics-listen=127.0.0.1:1"}
	cases := map[string]struct {
		config Config
		binary string
		args   []string
	}{
		"this repository's": {Config{Binaries: "/bin"}, "/bin/fluence-sidecar", common},
		"another one, whose flags come last": {
			Config{Binaries: "/bin", SidecarBinary: "/other/sidecar", SidecarArgs: []string{"--engine=fluxion", "--granule=core=50"}},
			"/other/sidecar", slices.Concat(common, []string{"--engine=fluxion", "--granule=core=50"}),
		},
		"this repository's with other flags": {Config{Binaries: "/bin", SidecarArgs: []string{"--v=4"}}, "/bin/fluence-sidecar", slices.Concat(common, []string{"--v=4"})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			binary, args := tc.config.sidecarCommand(deployed, "unix:///s", "127.0.0.1:1")
			if binary != tc.binary || !slices.Equal(args, tc.args) {
				t.Errorf("sidecarCommand() = %s %q, want %s %q", binary, args, tc.binary, tc.args)
			}
		})
	}
}
