package placement

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Exclusions are the nodes that filters refused members of a group for the sake of its
// other members, or that no probe could foretell: all of a shape, or all beyond as many
// as had passed there. They hold for this set of members until something happens that
// can change the filters' mind.
type exclusions struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*groupExclusions
}

// groupExclusions is what is kept of one group.
type groupExclusions struct {
	// membersKey is the text of the shapes with their numbers.
	membersKey string
	// shapes are those of the members.
	shapes map[types.UID]string
	// nodes are the exclusions by shape and node.
	nodes map[string]map[string]exclusion
	// words are those of the objection that was told last.
	words string
}

// An exclusion is that no more than most members of a shape may stand on a node.
type exclusion struct {
	maxPods int64
	// until are the events that end it.
	until []gang.Event
}

// podLimits is, by shape and node, how many members may stand there; nodes that are not
// in it are not bounded.
type podLimits map[string]map[string]int64

// exclude returns p with one node excluded for all of a shape.
func (p podLimits) exclude(shape, node string) podLimits {
	p = maps.Clone(p)
	if p == nil {
		p = podLimits{}
	}
	nodes := maps.Clone(p[shape])
	if nodes == nil {
		nodes = map[string]int64{}
	}
	nodes[node], p[shape] = 0, nodes
	return p
}

// hasPartial says whether there is a node on which some may stand.
func (p podLimits) hasPartial() bool {
	for _, nodes := range p {
		for _, most := range nodes {
			if most > 0 {
				return true
			}
		}
	}
	return false
}

// forShape returns the nodes where none of a shape may stand, and limits for those where some
// may; carefully, no node is taken for better than the best of these.
func (p podLimits) forShape(shape, name string, careful bool) (out []string, limits []jobspec.Limit) {
	hosts, best := map[int64][]string{}, int64(0)
	for _, node := range slices.Sorted(maps.Keys(p[shape])) {
		most := p[shape][node]
		if best = max(best, most); most == 0 {
			out = append(out, node)
		} else {
			hosts[most] = append(hosts[most], node)
		}
	}
	for _, most := range slices.Sorted(maps.Keys(hosts)) {
		limits = append(limits, jobspec.Limit{Name: name + "-" + strconv.FormatInt(most, 10), Hosts: hosts[most], Most: most})
	}
	if careful && best > 0 {
		limits = append(limits, jobspec.Limit{Name: name, Level: resource.TypeNode, Most: best})
	}
	return out, limits
}

// begin returns what is excluded for a set of members. What was kept of another set of
// the same group is forgotten.
func (e *exclusions) begin(k types.NamespacedName, set string, shapes map[types.UID]string) podLimits {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		e.groups = map[types.NamespacedName]*groupExclusions{}
	}
	of := e.groups[k]
	if of == nil || of.membersKey != set {
		e.groups[k] = &groupExclusions{membersKey: set, shapes: shapes, nodes: map[string]map[string]exclusion{}}
		return nil
	}
	of.shapes = shapes
	p := make(podLimits, len(of.nodes))
	for shape, nodes := range of.nodes {
		p[shape] = make(map[string]int64, len(nodes))
		for node, x := range nodes {
			p[shape][node] = x.maxPods
		}
	}
	return p
}

// add excludes a node for the shape of a member of the group's set, but for as many as
// passed there already. Without a set, where nothing is asked of siblings, it does
// nothing.
func (e *exclusions) add(k types.NamespacedName, member types.UID, node string, passed []types.UID, until []gang.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.groups[k]
	if of == nil || of.shapes[member] == "" {
		return
	}
	shape := of.shapes[member]
	if of.nodes[shape] == nil {
		of.nodes[shape] = map[string]exclusion{}
	}
	x := exclusion{until: until}
	for _, uid := range passed {
		if of.shapes[uid] == shape {
			x.maxPods++
		}
	}
	of.nodes[shape][node] = x
}

// untilOf lists the events that may change the mind of the filter with this verdict.
func untilOf(status *fwk.Status) []gang.Event {
	return append(filterResult{filters: sets.New(status.Plugin())}.events(), gang.NodeChanged, gang.MatcherBack)
}

// setMessage notes what a group was told of its objections.
func (e *exclusions) setMessage(k types.NamespacedName, words string) {
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
		clear(of.nodes)
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

// observe forgets what an event may have changed.
func (e *exclusions) observe(ev gang.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, of := range e.groups {
		for shape, nodes := range of.nodes {
			maps.DeleteFunc(nodes, func(_ string, x exclusion) bool { return gang.Helps(x.until, ev) })
			if len(nodes) == 0 {
				delete(of.nodes, shape)
			}
		}
	}
}
