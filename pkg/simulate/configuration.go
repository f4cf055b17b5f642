package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// shipped is the profile of manifests/scheduler-config.yaml, with the defaults of its arguments.
const shipped = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: fluence
  plugins:
    multiPoint: {enabled: [{name: Fluence}]}
    queueSort: {enabled: [{name: Fluence}], disabled: [{name: "*"}]}
    postFilter: {enabled: [{name: Fluence}]}
    podGroupPostFilter: {enabled: [{name: Fluence}]}
    bind: {enabled: [{name: Fluence}]}
`

// A Configuration is the part of a scheduler's configuration
// that decides where pods go: the profile that enables Fluence.
type Configuration struct {
	profile config.KubeSchedulerProfile
	// Extenders is the number of extenders in the configuration. A simulation does not call them.
	Extenders int
	// now is the clock of the scheduler. Nil is time.Now.
	now func() time.Time
}

// Shipped returns the configuration that is shipped with Fluence.
func Shipped() (Configuration, error) { return Parse([]byte(shipped)) }

// Parse reads a KubeSchedulerConfiguration, as YAML or JSON. It fails
// for any other kind, and unless exactly one profile enables Fluence.
func Parse(text []byte) (Configuration, error) {
	obj, kind, err := configscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return Configuration{}, fmt.Errorf("scheduler configuration: %w", err)
	}
	all, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return Configuration{}, fmt.Errorf("scheduler configuration: kind %q, want KubeSchedulerConfiguration", kind.Kind)
	}
	var found []config.KubeSchedulerProfile
	for _, p := range all.Profiles {
		if enables(p) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return Configuration{}, errors.New("scheduler configuration: profiles: none enables the plugin " + fluence.Name)
	case 1:
		return Configuration{profile: found[0], Extenders: len(all.Extenders)}, nil
	}
	return Configuration{}, fmt.Errorf("scheduler configuration: profiles: %q and %q both enable the plugin %s: only one profile may", found[0].SchedulerName, found[1].SchedulerName, fluence.Name)
}

func enables(p config.KubeSchedulerProfile) bool {
	return p.Plugins != nil && slices.ContainsFunc(p.Plugins.MultiPoint.Enabled, func(e config.Plugin) bool { return e.Name == fluence.Name })
}

// Scheduler returns the scheduler name for which pods ask.
func (c Configuration) Scheduler() string { return c.profile.SchedulerName }

// arguments returns the arguments of the plugin, or nil if there are none.
func (c Configuration) arguments() runtime.Object {
	for _, p := range c.profile.PluginConfig {
		if p.Name == fluence.Name {
			return p.Args
		}
	}
	return nil
}

// Levels returns the layers of the graph between the cluster and its nodes.
func (c Configuration) Levels() ([]translate.Level, error) { return fluence.LevelsOf(c.arguments()) }

// Depth returns to how many groups that wait the scheduler promises room.
func (c Configuration) Depth() (int, error) { return fluence.DepthOf(c.arguments()) }

// WithLevels returns the configuration with other topology levels.
func (c Configuration) WithLevels(keys []string) (Configuration, error) {
	return c.with(func(arguments map[string]any) { arguments["topologyLevels"] = keys })
}

// WithDepth returns the configuration of a scheduler that promises room to this many groups that wait.
func (c Configuration) WithDepth(depth int) (Configuration, error) {
	return c.with(func(arguments map[string]any) {
		promises, ok := arguments["promises"].(map[string]any)
		if !ok {
			promises = map[string]any{}
		}
		promises["depth"] = depth
		arguments["promises"] = promises
	})
}

// with returns the configuration with other arguments of the plugin.
func (c Configuration) with(change func(arguments map[string]any)) (Configuration, error) {
	raw := map[string]any{}
	configs := slices.Clone(c.profile.PluginConfig)
	i := slices.IndexFunc(configs, func(p config.PluginConfig) bool { return p.Name == fluence.Name })
	if i < 0 {
		i = len(configs)
		configs = append(configs, config.PluginConfig{Name: fluence.Name})
	}
	if u, ok := configs[i].Args.(*runtime.Unknown); ok && len(u.Raw) > 0 {
		if err := json.Unmarshal(u.Raw, &raw); err != nil {
			return c, fmt.Errorf("scheduler configuration: arguments of %s: %w", fluence.Name, err)
		}
	}
	change(raw)
	text, err := json.Marshal(raw)
	if err != nil {
		return c, fmt.Errorf("encode the arguments of %s: %w", fluence.Name, err)
	}
	configs[i].Args = &runtime.Unknown{Raw: text, ContentType: runtime.ContentTypeJSON}
	c.profile.PluginConfig = configs
	return c, nil
}
