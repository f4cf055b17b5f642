package gang

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A effectiveTopology is what the annotations of a group come to.
type effectiveTopology struct {
	topology *jobspec.Topology
	// err names annotation and value in words fit for a user.
	err error
	// exclusive says that the group is to have whole nodes.
	exclusive bool
}

// effectiveTopology is what the PodGroup and the pods that wait say of the topology, annotation by
// annotation: that of the PodGroup goes first, and what one pod says holds for all. Pods
// that say different things are an error.
func (s *groupState) effectiveTopology() *effectiveTopology {
	if s.topology == nil {
		said, err := s.mergeTopology((*member).isWaiting)
		a := &effectiveTopology{err: err}
		if err == nil {
			a.topology, a.err = said.Parse(s.levels)
		}
		// Pods with nodes stand where they stand.
		all, _ := s.mergeTopology(func(m *member) bool { return !isTerminal(m.pod) })
		a.exclusive = all.Exclusive == group.ExclusiveTrue
		s.topology = a
	}
	return s.topology
}

func (s *groupState) mergeTopology(of func(*member) bool) (group.TopologyAnnotations, error) {
	values := map[string][]string{}
	for _, m := range s.members {
		// Most say nothing, and this is asked with every change of a pod.
		if m.topology == (group.TopologyAnnotations{}) || !of(m) {
			continue
		}
		for name, is := range new(m.topology).Fields() {
			if *is != "" && !slices.Contains(values[name], *is) {
				values[name] = append(values[name], *is)
			}
		}
	}
	var said group.TopologyAnnotations
	if s.podGroup != nil {
		said = s.podGroup.Topology
	}
	var err error
	fields := said.Fields()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if *fields[name] != "" {
			continue
		}
		slices.Sort(values[name])
		*fields[name] = values[name][len(values[name])-1]
		if len(values[name]) > 1 && err == nil {
			err = fmt.Errorf("annotation %s: pods of the group say %q: they have to say the same, or the PodGroup for them", name, values[name])
		}
	}
	return said, err
}
