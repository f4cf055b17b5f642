package fluence

import (
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// levelsOf names the levels for annotations.
func levelsOf(levels []translate.Level) []group.Level {
	var all []group.Level
	for _, l := range levels {
		all = append(all, group.Level{Type: l.Type, Key: l.Key})
	}
	return all
}

// topologyOf is what a group says of how its pods stand together, as a request has it.
func topologyOf(t *group.Topology) *jobspec.Topology {
	if t == nil {
		return nil
	}
	return &jobspec.Topology{Required: t.Required, Preferred: t.Preferred, Balanced: t.Balanced}
}
