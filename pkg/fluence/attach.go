package fluence

import (
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Attach wraps the parts of a scheduler that have no extension point, for the profile that enables
// Fluence. Other profiles share the queue, and ask it for nominated pods. Call Attach after the
// scheduler is built and before it runs.
//
//   - The event recorder sends events after binds.
//   - RunPreFilterPlugins refuses a pod of a throttled namespace before other plugins
//     spend time on the pod, and charges the namespace for the time of other plugins.
//   - Cache.RemovePod lets groups retry that had to leave the room of a pod that has ended.
//   - SchedulingQueue holds the pods that only Fluence can move.
//   - FailureHandler reports once why a pod waits, and writes the pod's status outside the
//     scheduling loop. Of the pods that had a node, it handles at most maxConcurrentFailures at a time.
//
// Attach returns an error that names what the configuration lacks.
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
			pl.otherPlugins = slices.DeleteFunc(slices.Clone(profile.PreEnqueuePlugins()), func(o fwk.PreEnqueuePlugin) bool { return o == p })
			filters := enabledNames(plugins.Filter)
			pl.bindChecks = bindChecksOf(filters)
			pl.placer.SetFilters(filters)
			sched.Profiles[name] = meteredFramework{Framework: profile, pl: pl, recorder: pl.events.Recorder(profile.EventRecorder())}
			sched.Cache = observedCache{sched.Cache, pl}
			queue := newHoldingQueue(sched.SchedulingQueue, pl.profile, pl, pl.handle.SharedInformerFactory().Core().V1().Pods().Lister())
			sched.SchedulingQueue, sched.NextEntity = queue, queue.Pop
			profile.SetPodActivator(queue)
			for _, p := range sched.Profiles {
				p.SetPodNominator(queue)
			}
			wrapFailureHandler(sched, pl)
			pl.ownSchedulers = sets.KeySet(sched.Profiles)
		}
	}
	return nil
}

// SetVersionSkew sets the gauge fluence_api_server_version_skew of a
// scheduler's plugins. skewed means that this build does not support
// the version of the API server. It may be called at any time.
func SetVersionSkew(sched *scheduler.Scheduler, skewed bool) {
	for pl := range pluginsOf(sched) {
		pl.unsupportedAPIServer.Store(skewed)
	}
}

// pluginsOf iterates over the plugins of all profiles that enable Fluence.
func pluginsOf(sched *scheduler.Scheduler) iter.Seq[*Fluence] {
	return func(yield func(*Fluence) bool) {
		for _, profile := range sched.Profiles {
			for _, p := range profile.PreEnqueuePlugins() {
				if pl, ok := p.(*Fluence); ok && !yield(pl) {
					return
				}
			}
		}
	}
}

// checkBinds returns an error if the profile does not let Fluence bind its pods:
// Fluence must come before DefaultBinder under bind, and last under preBind.
func checkBinds(plugins *config.Plugins) error {
	binds := enabledNames(plugins.Bind)
	own, defaultBinder := slices.Index(binds, Name), slices.Index(binds, names.DefaultBinder)
	const want = "write\n  bind:\n    enabled:\n    - name: " + Name
	switch {
	case own < 0:
		return fmt.Errorf("plugins.bind.enabled: %v: plugin %s is missing, which limits and orders the binds of its pods; %s", binds, Name, want)
	case defaultBinder >= 0 && defaultBinder < own:
		return fmt.Errorf("plugins.bind.enabled: %v: plugin %s comes before %s, which would bind no pod; %s", binds, names.DefaultBinder, Name, want)
	}
	switch preBind := enabledNames(plugins.PreBind); {
	case !slices.Contains(preBind, Name):
		return fmt.Errorf("plugins.preBind.enabled: %v: plugin %s is missing, where its pods wait to be bound; enable it under multiPoint", preBind, Name)
	case preBind[len(preBind)-1] != Name:
		return fmt.Errorf("plugins.preBind.enabled: %v: plugin %s must come last, because its pods have to be bound as soon as it lets them go; enable it under multiPoint, after all other plugins, and not under preBind", preBind, Name)
	}
	return nil
}

// enabledNames returns the names of the enabled plugins, in order.
func enabledNames(set config.PluginSet) []string {
	all := make([]string, len(set.Enabled))
	for i, p := range set.Enabled {
		all[i] = p.Name
	}
	return all
}
