package chart_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/flux-k8s/fluence/test/stack"
)

// A container gets nine tenths of its memory limit as GOMEMLIMIT. Where the
// chart cannot compute that, the container gets no environment at all.
func TestGoKnowsTheMemoryLimit(t *testing.T) {
	cases := map[string]struct{ limit, want string }{
		"Gi":                    {"10Gi", "9216MiB"},
		"a fraction of a Gi":    {"1.5Gi", "1382MiB"},
		"a fraction alone":      {".5Gi", "460MiB"},
		"a sign":                {"+2Gi", "1843MiB"},
		"Mi":                    {"100Mi", "90MiB"},
		"a fraction of a Mi":    {"102.5Mi", "92MiB"},
		"less than one Mi":      {"1Mi", ""},
		"no limit":              {"null", ""},
		"bytes":                 {"1073741824", ""},
		"an exponent":           {"1e9", ""},
		"a decimal unit":        {"1G", ""},
		"a larger binary unit":  {"1Ti", ""},
		"a unit of thousandths": {"1000000000000m", ""},
		"a smaller binary unit": {"1000Ki", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var set []string
			for _, program := range []string{"scheduler", "sidecar", "controller"} {
				set = append(set, program+".resources.limits.memory="+tc.limit)
			}
			rendered := render(t, set...)
			for _, d := range []string{stack.Scheduler, stack.Controller} {
				for _, c := range containers(deployment(t, rendered, d).Spec.Template.Spec) {
					var got string
					for _, v := range c.Env {
						got += v.Name + "=" + v.Value
					}
					want := tc.want
					if want != "" {
						want = "GOMEMLIMIT=" + want
					}
					if got != want {
						t.Errorf("container %s has the environment %q, want %q", c.Name, got, want)
					}
				}
			}
		})
	}
}

// Each program has a limit of its own.
func TestMemoryLimitsAreNotMixedUp(t *testing.T) {
	rendered := render(t, "scheduler.resources.limits.memory=10Gi", "sidecar.resources.limits.memory=20Gi", "controller.resources.limits.memory=30Gi")
	got := map[string]string{}
	for _, d := range []string{stack.Scheduler, stack.Controller} {
		for _, c := range containers(deployment(t, rendered, d).Spec.Template.Spec) {
			for _, v := range c.Env {
				got[c.Name] = v.Value
			}
		}
	}
	for name, want := range map[string]string{"scheduler": "9216MiB", "sidecar": "18432MiB", "controller": "27648MiB"} {
		if got[name] != want {
			t.Errorf("container %s has the limit %q, want %q", name, got[name], want)
		}
	}
}

// runAsDeployed checks that the processes have the environment of their containers.
func (s *site) runAsDeployed() {
	s.Helper()
	for process, want := range map[string]string{stack.Scheduler: "3686MiB", stack.Sidecar: "1843MiB", stack.Controller: "921MiB"} {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.Process(process).PID()))
		if err != nil {
			s.Fatal(err)
		}
		if !bytes.Contains(env, []byte("GOMEMLIMIT="+want+"\x00")) {
			s.Errorf("%s runs without GOMEMLIMIT=%s", process, want)
		}
	}
}
