package fluxion_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/traverser"
	"github.com/flux-k8s/fluence/sidecar/command"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

// openEither opens the embedded engine, or the library's stand-in.
func openEither(name string, options []byte) (command.Engine, error) {
	if name == command.Embedded {
		o, err := traverser.ParseOptions(options)
		if err != nil {
			return nil, err
		}
		return engine.New(engine.Options{Epoch: func() match.Epoch { return 1 }, Graph: o})
	}
	return fluxion.NewDirect(func() fluxion.Library { return reapitest.NewProcess().Open(reapitest.V054) }, options)
}

// commandLine runs a command. It returns what it writes, and its exit code.
func commandLine(t *testing.T, args ...string) (out, says string, code int) {
	t.Helper()
	c := &cobra.Command{Use: "fluence-sidecar", SilenceUsage: true, SilenceErrors: true}
	c.AddCommand(command.Match(openEither), command.Satisfy(openEither), command.Info(openEither))
	var o, e bytes.Buffer
	c.SetOut(&o)
	c.SetErr(&e)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	code, tell := command.ExitCode(err)
	if tell {
		fmt.Fprintln(&e, err)
	}
	return o.String(), e.String(), code
}

// With --engine=fluxion the commands give the same R and the same exit codes, in every format.
func TestTheCommandsOverFluxion(t *testing.T) {
	const examples = "../../docs/examples/"
	graph := []string{"--graph", examples + "cluster.json", "--options", `{"prune_filters":"ALL:core,ALL:node"}`}
	spec := func(names ...string) []string {
		var args []string
		for _, name := range names {
			args = append(args, "--jobspec", examples+name)
		}
		return args
	}
	cases := map[string]struct {
		args []string
		code int
	}{
		"match":                  {append([]string{"match"}, spec("cores.yaml")...), 0},
		"match as jgf":           {append([]string{"match", "--format", "jgf"}, spec("cores.yaml", "gpus.yaml")...), 3},
		"match until full":       {append([]string{"match", "--format", "rlite"}, spec("three-nodes.yaml", "three-nodes.yaml")...), 3},
		"match, or reserve":      {append([]string{"match", "--op", "allocate_orelse_reserve"}, spec("three-nodes.yaml", "three-nodes.yaml")...), 0},
		"what would be given":    {append([]string{"match", "--op", "without_allocating"}, spec("three-nodes.yaml", "three-nodes.yaml")...), 0},
		"match what never fits":  {append([]string{"match"}, spec("five-nodes.yaml")...), 4},
		"satisfy":                {append([]string{"satisfy"}, spec("three-nodes.yaml")...), 0},
		"satisfy what never can": {append([]string{"satisfy"}, spec("five-nodes.yaml")...), 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			args := slices.Concat(tc.args, graph)
			want, _, code := commandLine(t, args...)
			got, says, overFluxion := commandLine(t, slices.Concat(args, []string{"--engine=fluxion"})...)
			if code != tc.code || overFluxion != tc.code {
				t.Errorf("the codes are %d embedded and %d over Fluxion, want %d: %s", code, overFluxion, tc.code, says)
			}
			// The library gives no reason why a jobspec cannot be satisfied.
			if args[0] != "satisfy" && got != want {
				t.Errorf("embedded the answer is\n%s\nover Fluxion\n%s", want, got)
			}
		})
	}
}

func TestInfoOverFluxionSaysNothingOfMemory(t *testing.T) {
	out, says, code := commandLine(t, "info", "--graph", "../../docs/examples/cluster.json", "--engine=fluxion")
	if code != 0 || !strings.Contains(out, "vertices    29") || strings.Contains(out, "of memory") {
		t.Errorf("info = %d: %s%s", code, out, says)
	}
}

func TestWhatTheLibraryRefusesIsTold(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"graph":{"nodes":[]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := []string{"--jobspec", "../../docs/examples/cores.yaml", "--engine=fluxion"}
	if _, says, code := commandLine(t, append([]string{"match", "--graph", bad}, spec...)...); code != 1 || !strings.Contains(says, "resource_query_t: ERROR") {
		t.Errorf("a bad graph: %d: %s", code, says)
	}
	if _, says, code := commandLine(t, append([]string{"match", "--graph", "../../docs/examples/cluster.json", "--now", "60"}, spec...)...); code != 1 || !strings.Contains(says, "now: 60") {
		t.Errorf("another time than 0: %d: %s", code, says)
	}
	if _, err := fluxion.NewDirect(nil, []byte("null")); err == nil {
		t.Error("options that are no object are taken")
	}
	d, err := fluxion.NewDirect(func() fluxion.Library { return nil }, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Match(t.Context(), match.Request{Now: time.Unix(0, 0), Jobspec: &jobspec.Jobspec{}}); !errors.Is(err, match.ErrLoading) {
		t.Errorf("without a graph Match() = %v, want the error %q", err, match.ErrLoading)
	}
}
