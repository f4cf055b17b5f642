package gang

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// An effectiveTopology is what the annotations of a group ask for.
type effectiveTopology struct {
	topology *jobspec.Topology
	// err names the annotation and the value in words fit for a user.
	err error
	// exclusive is true if the group asks for whole nodes.
	exclusive bool
	// podsPerNode is how many pods of the group may be on one node. It is 0 if there is no bound.
	podsPerNode int64
}

// effectiveTopology returns what the topology annotations of the PodGroup and
// of the waiting pods ask for. For each annotation the PodGroup's value counts,
// or else the value of any pod. It is an error if pods have different values.
func (s *groupState) effectiveTopology() *effectiveTopology {
	if s.topology == nil {
		annotations, err := s.mergeTopology(func(c requestCount) int { return c.waiting })
		a := &effectiveTopology{err: err}
		if err == nil {
			a.topology, a.err = annotations.Parse(s.levels)
		}
		// Pods that have nodes count too here. They do not count above, because they do not move.
		all, _ := s.mergeTopology(func(c requestCount) int { return c.running })
		a.exclusive = all.Exclusive == group.ExclusiveTrue
		a.podsPerNode = mostPerNode(s, annotations)
		s.topology = a
	}
	return s.topology
}

// mostPerNode returns how many pods of the group may be on one node: the value of the PodGroup or of the waiting
// pods, which is checked before they are placed, or else the smallest valid value of any pod that has not ended.
func mostPerNode(s *groupState, asked group.TopologyAnnotations) int64 {
	if asked.PodsPerNode != "" {
		most, _ := asked.MostPerNode()
		return most
	}
	least := int64(0)
	for r, count := range s.requests {
		if most, err := r.topology.MostPerNode(); count.running > 0 && err == nil && most > 0 && (least == 0 || most < least) {
			least = most
		}
	}
	return least
}

// perNode returns how many pods of a group may be on one node, and the nodes where some are: each as often as
// pods of the group are there that have not ended, or have an assignment or a seat. Pods that are being deleted
// count, because they still run. Both results are zero if the group asks for no bound.
func perNode(s *groupState) (most int64, occupied []string) {
	if most = s.effectiveTopology().podsPerNode; most == 0 {
		return 0, nil
	}
	for _, m := range s.ordered(func(o *member) bool { return o.assignment != nil || o.hasNode() && !isTerminal(o.pod) }) {
		occupied = append(occupied, m.node())
	}
	for _, t := range s.free {
		occupied = append(occupied, t.slot.Node)
	}
	return most, occupied
}

// whyInvalidTopology returns the reason of an error about the topology annotations: levels and pods on a node.
// A value that is not "true" or "false" says nothing about topology.
func whyInvalidTopology(err error) string {
	if _, notBool := errors.AsType[*group.NotBoolError](err); notBool {
		return reason.InvalidAnnotation
	}
	return reason.InvalidTopology
}

// mergeTopology merges the topology annotations of the PodGroup and of some members. The function of
// returns how many of the members with one request take part.
func (s *groupState) mergeTopology(of func(requestCount) int) (group.TopologyAnnotations, error) {
	values := map[string][]string{}
	s.update()
	for r, count := range s.requests {
		// Most pods have no such annotation, and this runs with every change of a pod.
		if r.topology == (group.TopologyAnnotations{}) || of(count) == 0 {
			continue
		}
		for name, is := range new(r.topology).Fields() {
			if *is != "" && !slices.Contains(values[name], *is) {
				values[name] = append(values[name], *is)
			}
		}
	}
	var merged group.TopologyAnnotations
	if s.podGroup != nil {
		merged = s.podGroup.Topology
	}
	var err error
	fields := merged.Fields()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if *fields[name] != "" {
			continue
		}
		slices.Sort(values[name])
		*fields[name] = values[name][len(values[name])-1]
		if len(values[name]) > 1 && err == nil {
			err = fmt.Errorf("annotation %s: pods of the group have different values (%s): set the same value on all, or set it on the PodGroup", name, quoted(values[name]))
		}
	}
	return merged, err
}

// quoted returns values in quotes, as a list for a message.
func quoted(values []string) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = strconv.Quote(v)
	}
	return strings.Join(words, ", ")
}
