package fluence

import (
	"fmt"
	"slices"

	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Attach completes the plugin in a scheduler that is not running yet. It replaces what the
// framework offers plugins no extension point for. The profile's event recorder sends events
// after binds. The failure handler tells a pod once why it waits, and writes the status of at
// most maxFailures pods at a time. Attach changes no other profile. The error says what the
// configuration lacks.
func Attach(sched *scheduler.Scheduler) error {
	for name, profile := range sched.Profiles {
		for _, p := range profile.PreEnqueuePlugins() {
			pl, ok := p.(*Fluence)
			if !ok {
				continue
			}
			plugins := profile.ListPlugins()
			if err := checkBinds(plugins); err != nil {
				return fmt.Errorf("profile %q: %w", name, err)
			}
			pl.besides = slices.DeleteFunc(slices.Clone(profile.PreEnqueuePlugins()), func(o fwk.PreEnqueuePlugin) bool { return o == p })
			filters := enabledNames(plugins.Filter)
			pl.guard, pl.nodeStatuses = guardOf(filters), newNodeStatuses(filters)
			sched.Profiles[name] = orderedFramework{Framework: profile, recorder: pl.events.recorder(profile.EventRecorder())}
			hush(sched, pl)
		}
	}
	return nil
}

// checkBinds says what a profile lacks for the plugin to bind its pods.
func checkBinds(plugins *config.Plugins) error {
	binds := enabledNames(plugins.Bind)
	own, stock := slices.Index(binds, Name), slices.Index(binds, names.DefaultBinder)
	const want = "write\n  bind:\n    enabled:\n    - name: " + Name
	switch {
	case own < 0:
		return fmt.Errorf("plugins.bind.enabled: %v: plugin %s is missing, which bounds and orders the binds of its pods; %s", binds, Name, want)
	case stock >= 0 && stock < own:
		return fmt.Errorf("plugins.bind.enabled: %v: plugin %s comes before %s, which would bind nothing; %s", binds, names.DefaultBinder, Name, want)
	}
	switch preBind := enabledNames(plugins.PreBind); {
	case !slices.Contains(preBind, Name):
		return fmt.Errorf("plugins.preBind.enabled: %v: plugin %s is missing, where its pods wait to be bound; enable it under multiPoint", preBind, Name)
	case preBind[len(preBind)-1] != Name:
		return fmt.Errorf("plugins.preBind.enabled: %v: plugin %s must come last: pods that have waited there to be bound are bound at once; enable it under multiPoint, after all other plugins, and not under preBind", preBind, Name)
	}
	return nil
}

func enabledNames(set config.PluginSet) []string {
	all := make([]string, len(set.Enabled))
	for i, p := range set.Enabled {
		all[i] = p.Name
	}
	return all
}

// orderedFramework is the framework of the profile, whose events are sent in order.
type orderedFramework struct {
	schedulerframework.Framework
	recorder events.EventRecorderLogger
}

// EventRecorder implements framework.Framework.
func (o orderedFramework) EventRecorder() events.EventRecorderLogger { return o.recorder }
