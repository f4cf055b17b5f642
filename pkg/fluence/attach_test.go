package fluence

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

func TestAProfileHasToLetThePluginBind(t *testing.T) {
	set := func(names ...string) config.PluginSet {
		var s config.PluginSet
		for _, n := range names {
			s.Enabled = append(s.Enabled, config.Plugin{Name: n})
		}
		return s
	}
	cases := map[string]struct {
		bind, preBind config.PluginSet
		// want are parts of the error; without any, no error is expected.
		want []string
	}{
		"as it is shipped":                         {bind: set("Fluence", "DefaultBinder"), preBind: set("VolumeBinding", "Fluence")},
		"with a binder of somebody else before it": {bind: set("Other", "Fluence"), preBind: set("Fluence")},
		"a configuration from before": {
			bind: set("DefaultBinder", "Fluence"), preBind: set("Fluence"),
			want: []string{"plugins.bind.enabled", "[DefaultBinder Fluence]", "bind:\n    enabled:\n    - name: Fluence"},
		},
		"without the plugin in bind":        {bind: set("DefaultBinder"), preBind: set("Fluence"), want: []string{"plugins.bind.enabled", "[DefaultBinder]", "- name: Fluence"}},
		"without the plugin in preBind":     {bind: set("Fluence"), preBind: set("VolumeBinding"), want: []string{"plugins.preBind.enabled", "[VolumeBinding]", "multiPoint"}},
		"with a plugin after it in preBind": {bind: set("Fluence"), preBind: set("Fluence", "VolumeBinding"), want: []string{"plugins.preBind.enabled", "[Fluence VolumeBinding]", "last", "multiPoint"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkBinds(&config.Plugins{Bind: tc.bind, PreBind: tc.preBind})
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
		})
	}
}

func TestBindChecksFollowTheProfile(t *testing.T) {
	if got, want := bindChecksOf([]string{"NodeUnschedulable", "NodeName", "TaintToleration", "NodeResourcesFit"}), (bindChecks{cordons: true, taints: true, room: true}); got != want {
		t.Errorf("guard = %+v, want %+v", got, want)
	}
	if got := bindChecksOf([]string{"NodeName"}); got != (bindChecks{}) {
		t.Errorf("guard = %+v of a profile without these filters", got)
	}
}

// ranFilters is a handle that counts the nodes on which filters were run.
type ranFilters struct {
	fwk.Handle
	nodes atomic.Int64
}

func (f *ranFilters) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	f.nodes.Add(1)
	return f.Handle.RunFilterPlugins(ctx, state, pod, node)
}

// The placer knows the filters of the profile. It runs them on
// no node for a pod that is the same to them as one before it.
func TestThePlacerKnowsTheFiltersOfTheProfile(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		f := &ranFilters{Handle: r.pl.placer.Handle}
		r.pl.placer.Handle = f
		for i := range 3 {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		for i, want := range []int64{3, 3} {
			name := fmt.Sprintf("p%d", i)
			r.pod(name)
			r.pass(time.Second)
			if !r.runs(name) {
				t.Fatalf("%s does not run", name)
			}
			if got := f.nodes.Load(); got != want {
				t.Errorf("with %s the filters have been run on %d nodes, want %d", name, got, want)
			}
		}
	})
}
