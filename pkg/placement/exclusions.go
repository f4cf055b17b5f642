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

// exclusions remembers, for each group, the nodes on which filters rejected members although
// their shape had passed there before, for example because of other members on the node. An
// exclusion is for all members of a shape, or for all beyond the number that had passed there. It
// holds for the same set of members, until an event after which the filter may decide otherwise.
type exclusions struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]*groupExclusions
}

// groupExclusions is what is kept of one group.
type groupExclusions struct {
	// membersKey identifies the set of members: the keys of their shapes, with the
	// number of pods of each.
	membersKey string
	// shapes are the keys of the members' shapes.
	shapes map[types.UID]string
	// nodes are the exclusions by shape and node.
	nodes map[string]map[string]exclusion
	// lastMessage is the rejection that was last reported.
	lastMessage string
}

// An exclusion limits the members of a shape on a node.
type exclusion struct {
	// maxPods is how many members may be on the node.
	maxPods int64
	// retryOn are the events that end the exclusion.
	retryOn []gang.Event
}

// firstLimits is, by shape and node, how many members may be on the node. A node
// without an entry has no limit.
type exclusionLimits map[string]map[string]int64

// exclude returns a copy of p in which no member of the shape may be on the node.
func (p exclusionLimits) exclude(shape, node string) exclusionLimits {
	p = maps.Clone(p)
	if p == nil {
		p = exclusionLimits{}
	}
	nodes := maps.Clone(p[shape])
	if nodes == nil {
		nodes = map[string]int64{}
	}
	nodes[node], p[shape] = 0, nodes
	return p
}

// hasPartial reports whether there is a limit that is not zero.
func (p exclusionLimits) hasPartial() bool {
	for _, nodes := range p {
		for _, most := range nodes {
			if most > 0 {
				return true
			}
		}
	}
	return false
}

// forShape returns the nodes where no member of a shape may be, and limits for the nodes where
// some may. If careful, a further limit holds on every node: the highest of the shape's limits.
func (p exclusionLimits) forShape(shape, name string, capEveryNode bool) (out []string, limits []jobspec.Limit) {
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
	if capEveryNode && best > 0 {
		limits = append(limits, jobspec.Limit{Name: name, Level: resource.TypeNode, Most: best})
	}
	return out, limits
}

// limitsFor returns the limits of a group for a set of members. If the group had another
// set before, limitsFor drops its exclusions.
func (e *exclusions) limitsFor(k types.NamespacedName, set string, shapes map[types.UID]string) exclusionLimits {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		e.groups = map[types.NamespacedName]*groupExclusions{}
	}
	g := e.groups[k]
	if g == nil || g.membersKey != set {
		e.groups[k] = &groupExclusions{membersKey: set, shapes: shapes, nodes: map[string]map[string]exclusion{}}
		return nil
	}
	g.shapes = shapes
	p := make(exclusionLimits, len(g.nodes))
	for shape, nodes := range g.nodes {
		p[shape] = make(map[string]int64, len(nodes))
		for node, x := range nodes {
			p[shape][node] = x.maxPods
		}
	}
	return p
}

// add records that a filter rejected a member on a node. From then on, the node takes
// at most as many members of the same shape as are in passed. It does nothing before
// limitsFor, because a group without constraints among its pods has no exclusions.
func (e *exclusions) add(k types.NamespacedName, member types.UID, node string, passed []types.UID, retryOn []gang.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.groups[k]
	if g == nil || g.shapes[member] == "" {
		return
	}
	shape := g.shapes[member]
	if g.nodes[shape] == nil {
		g.nodes[shape] = map[string]exclusion{}
	}
	x := exclusion{retryOn: retryOn}
	for _, uid := range passed {
		if g.shapes[uid] == shape {
			x.maxPods++
		}
	}
	g.nodes[shape][node] = x
}

// retryOnOf lists the events after which the filter that gave this status may decide otherwise.
func retryOnOf(status *fwk.Status) []gang.Event {
	return append(filterResult{filters: sets.New(status.Plugin())}.events(), gang.NodeChanged, gang.MatcherBack)
}

// setMessage records the rejection that is reported for a group.
func (e *exclusions) setMessage(k types.NamespacedName, words string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if g := e.groups[k]; g != nil {
		g.lastMessage = words
	}
}

// dropExclusions drops the exclusions of a group, so that its next attempt considers all
// nodes. It returns the rejection that was last reported.
func (e *exclusions) dropExclusions(k types.NamespacedName) (words string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if g := e.groups[k]; g != nil {
		clear(g.nodes)
		words = g.lastMessage
	}
	return words
}

// forget drops all that is kept of a group.
func (e *exclusions) forget(k types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.groups, k)
}

// observe drops the exclusions that an event ends.
func (e *exclusions) observe(ev gang.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.groups {
		for shape, nodes := range g.nodes {
			maps.DeleteFunc(nodes, func(_ string, x exclusion) bool { return gang.Helps(x.retryOn, ev) })
			if len(nodes) == 0 {
				delete(g.nodes, shape)
			}
		}
	}
}
