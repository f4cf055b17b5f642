package fluence

import (
	"strings"
	"testing"

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
		// want are parts of the error; none is that there is none.
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

func TestTheGuardLooksAtWhatTheProfileLooksAt(t *testing.T) {
	if got, want := guardOf([]string{"NodeUnschedulable", "NodeName", "TaintToleration", "NodeResourcesFit"}), (guard{cordons: true, taints: true, room: true}); got != want {
		t.Errorf("guard = %+v, want %+v", got, want)
	}
	if got := guardOf([]string{"NodeName"}); got != (guard{}) {
		t.Errorf("guard = %+v of a profile without these filters", got)
	}
}
