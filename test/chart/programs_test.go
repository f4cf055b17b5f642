package chart_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/test/stack"
)

// Each program accepts the flags of its container, for all values.
// It fails only at a missing file or address that the test inserts.
func TestTheProgramsTakeTheirFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	cases := map[string]struct{ instead, says string }{
		"scheduler":  {"--config=/nowhere", "open /nowhere"},
		"sidecar":    {"--listen=nowhere", `--listen "nowhere"`},
		"controller": {"--kubeconfig=/nowhere", "read the kubeconfig"},
	}
	bin, err := stack.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"minimal", "alone", "everything"} {
		text, err := template(t, "--values", filepath.Join("testdata", "values", file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		rendered := objects(t, text)
		for _, name := range []string{"fluence-scheduler", "fluence-controller"} {
			for _, c := range containers(deployment(t, rendered, name).Spec.Template.Spec) {
				tc := cases[c.Name]
				out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "fluence-"+c.Name), append(c.Args, tc.instead)...).CombinedOutput()
				if err == nil || !strings.Contains(string(out), tc.says) {
					t.Errorf("%s, with the values %s: %v; it says nothing of %q:\n%s", c.Name, file, err, tc.says, out)
				}
				if c.Name == "sidecar" {
					for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe} {
						out, err := exec.CommandContext(t.Context(), filepath.Join(bin, filepath.Base(p.Exec.Command[0])), p.Exec.Command[1:]...).CombinedOutput()
						if listen := c.Args[0]; err == nil || !strings.Contains(string(out), "probe "+strings.TrimPrefix(listen, "--listen=")) {
							t.Errorf("the probe of a sidecar that does not run, with the values %s: %v: %s", file, err, out)
						}
					}
				}
			}
		}
	}
}

// With Fluxion, the sidecar loads its graph with a policy that offers the plugin's
// policy. The chart refuses exactly the policies for which there is none.
func TestFluxionOffersThePolicy(t *testing.T) {
	for _, policy := range match.Policies() {
		loaded := slices.DeleteFunc(match.Policies(), func(p string) bool {
			_, err := fluxion.New(fluxion.Options{Policy: p, Open: fluxion.Open, Epoch: func() match.Epoch { return 1 }})
			return err != nil || !slices.Contains(fluxion.Policies(p), policy)
		})
		text, err := template(t, "--set", registry, "--set", "engine=fluxion", "--set", "scheduler.args.matchPolicy="+policy)
		if err != nil {
			if len(loaded) > 0 {
				t.Errorf("policy %s is refused, and is offered by a graph loaded with %q: %v", policy, loaded, err)
			}
			continue
		}
		args := deployment(t, objects(t, text), "fluence-scheduler").Spec.Template.Spec.InitContainers[0].Args
		if !slices.ContainsFunc(loaded, func(p string) bool { return slices.Contains(args, "--policy="+p) }) {
			t.Errorf("policy %s: the sidecar has the flags %q, and is to be loaded with one of %q", policy, args, loaded)
		}
	}
}

// The controller has the same rule for whole nodes as the scheduler.
// It may read namespaces only if the rule uses their labels.
func TestTheControllerIsToldOfWholeNodes(t *testing.T) {
	cases := map[string]struct {
		set   []string
		want  string
		reads bool
	}{
		"by default":                            {nil, "labelled", true},
		"all":                                   {[]string{"scheduler.args.wholeNodes=all"}, "all", false},
		"nobody":                                {[]string{"scheduler.args.wholeNodes=none"}, "none", false},
		"all have them by the scheduler's word": {[]string{"scheduler.args.wholeNodes=none", "scheduler.args.matchPolicy=hinodex"}, "all", false},
		"without the webhook":                   {[]string{"webhook.enabled=false"}, "labelled", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rendered := render(t, tc.set...)
			args := deployment(t, rendered, "fluence-controller").Spec.Template.Spec.Containers[0].Args
			if !slices.Contains(args, "--whole-nodes="+tc.want) {
				t.Errorf("arguments %q, want %s", args, tc.want)
			}
			for role, want := range map[string]bool{"fluence-controller": tc.reads, "fluence-viewer": true} {
				var r rbacv1.ClusterRole
				find(t, rendered, "ClusterRole", role).into(t, &r)
				reads := slices.ContainsFunc(r.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "namespaces") })
				if reads != want {
					t.Errorf("role %s reads namespaces: %t, want %t", role, reads, want)
				}
			}
		})
	}
}
