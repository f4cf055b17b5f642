package fluence

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
)

// Exclusions are the nodes that filters refused members of a group for the sake of its
// other members, or that no probe could foretell. They hold for this set of members, by
// shape, until something happens that can change the filters' mind.
type exclusions struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*excluded
}

// excluded is what is kept of one group.
type excluded struct {
	// set is the text of the shapes with their numbers.
	set string
	// shapes are those of the members.
	shapes map[types.UID]string
	// until has, by shape and node, the events that end it.
	until map[string]map[string][]group.Event
	// words are those of the objection that was told last.
	words string
}

// begin returns the nodes excluded for a set of members, by shape. What was kept of
// another set of the same group is forgotten.
func (e *exclusions) begin(k types.NamespacedName, set string, shapes map[types.UID]string) map[string][]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		e.groups = map[types.NamespacedName]*excluded{}
	}
	of := e.groups[k]
	if of == nil || of.set != set {
		e.groups[k] = &excluded{set: set, shapes: shapes, until: map[string]map[string][]group.Event{}}
		return nil
	}
	of.shapes = shapes
	nodes := make(map[string][]string, len(of.until))
	for shape, until := range of.until {
		nodes[shape] = slices.Sorted(maps.Keys(until))
	}
	return nodes
}

// add excludes a node for the shape of a member of the group's set. Without a set,
// where nothing is asked of siblings, it does nothing.
func (e *exclusions) add(k types.NamespacedName, member types.UID, node string, until []group.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.groups[k]
	if of == nil || of.shapes[member] == "" {
		return
	}
	shape := of.shapes[member]
	if of.until[shape] == nil {
		of.until[shape] = map[string][]group.Event{}
	}
	of.until[shape][node] = until
}

// untilOf lists the events that may change the mind of the filter with this verdict.
func untilOf(status *fwk.Status) []group.Event {
	return append(ruledOut{filters: sets.New(status.Plugin())}.events(), group.NodeChanged, group.MatcherBack)
}

// told notes what a group was told of its objections.
func (e *exclusions) told(k types.NamespacedName, words string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if of := e.groups[k]; of != nil {
		of.words = words
	}
}

// restart drops the nodes excluded for a group, which is to look at all of them again,
// and returns what it was told last.
func (e *exclusions) restart(k types.NamespacedName) (words string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if of := e.groups[k]; of != nil {
		clear(of.until)
		words = of.words
	}
	return words
}

// forget drops all that is kept of a group.
func (e *exclusions) forget(k types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.groups, k)
}

// happened forgets what an event may have changed.
func (e *exclusions) happened(ev group.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, of := range e.groups {
		for shape, nodes := range of.until {
			maps.DeleteFunc(nodes, func(_ string, until []group.Event) bool { return slices.Contains(until, ev) })
			if len(nodes) == 0 {
				delete(of.until, shape)
			}
		}
	}
}
