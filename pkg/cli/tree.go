package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	graph "github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A treeNode is a vertex of the graph, down to the nodes: the cluster, a domain such as a zone or a
// rack, or a node.
type treeNode struct {
	Type string `json:"type"`
	Name string `json:"name"`
	// Status says why a node accepts no pods, or not all. It is empty if the node accepts all.
	Status string `json:"status,omitempty"`
	// Domains are the domains of a node: the type of each level, and the domain's name.
	Domains map[string]string `json:"domains,omitempty"`
	// Nodes is the number of nodes at or below the vertex.
	Nodes int `json:"nodes"`
	// Size is the total amount of each resource on these nodes.
	Size translate.Amounts `json:"size"`
	// Used is the held amount of each resource.
	Used translate.Amounts `json:"used"`
	// Unschedulable is the free amount of each resource on nodes that accept no pods: nodes that
	// are cordoned, not ready, being deleted, or held as a whole by a group.
	Unschedulable translate.Amounts `json:"closed,omitempty"`
	// Groups counts the pods of Fluence's groups, by group.
	Groups map[string]int `json:"groups,omitempty"`
	// Seats counts the seats that are held for pods of Fluence's groups that do not exist yet, and the room of jobs in queues that no
	// pod has taken yet, by group.
	Seats map[string]int `json:"seats,omitempty"`
	// Others counts the pods of other schedulers.
	Others int `json:"others,omitempty"`
	// OtherPods are these pods on a node, as NAMESPACE/NAME, if they are asked for.
	OtherPods []string    `json:"otherPods,omitempty"`
	Children  []*treeNode `json:"below,omitempty"`
	// holders are who holds what on a node.
	holders holders
	// all is the number of nodes at or below the vertex that exist. It is 0 if all are shown.
	all int
}

// holders are who holds what on a node: groups by their pods, groups by their seats, and the pods of others.
type holders struct {
	pods, seats map[string]translate.Amounts
	others      translate.Amounts
}

// add adds an amount to what a group holds.
func (h *holders) add(to map[string]translate.Amounts, group string, a translate.Amounts) {
	if to[group] == nil {
		to[group] = translate.Amounts{}
	}
	to[group].Add(a)
}

// free returns the free amount of a resource, without the free amount on unschedulable nodes. It is
// at least 0.
func (p *treeNode) free(of string) int64 { return max(0, p.Size[of]-p.Used[of]-p.Unschedulable[of]) }

// unschedulable reports whether a node accepts no pods of further groups. A node with a taint accepts the pods that
// tolerate it.
func (p *treeNode) unschedulable() bool {
	return slices.ContainsFunc(strings.Split(p.Status, ","), func(s string) bool { return s != "" && s != tainted })
}

// countAll sets how many nodes there are at or below p in the whole cluster.
func (p *treeNode) countAll(whole *treeNode) {
	p.all = whole.Nodes
	for _, c := range p.Children {
		if c.Type == graph.TypeNode {
			return
		}
		c.countAll(whole.child(graph.Vertex{Type: c.Type, Name: c.Name}))
	}
}

// nodesText says how many nodes there are at or below p, and of how many if some are not shown.
func (p *treeNode) nodesText() string {
	if p.all > p.Nodes {
		return fmt.Sprintf("%d of %s", p.Nodes, reason.Plural(p.all, "node"))
	}
	return reason.Plural(p.Nodes, "node")
}

// nodes returns the nodes at or below p.
func (p *treeNode) nodes() []*treeNode {
	if p.Type == graph.TypeNode {
		return []*treeNode{p}
	}
	all := []*treeNode{}
	for _, b := range p.Children {
		all = append(all, b.nodes()...)
	}
	return all
}

// A tree is the graph of a cluster, with the pods in it.
type tree struct {
	root  *treeNode
	graph *graph.Graph
	// levels are the levels between the cluster and its nodes.
	levels []translate.Level
	// all is the number of nodes in the cluster. The tree may have only some of them.
	all int
	// namespaces has the pods and groups of the cluster.
	namespaces *namespace
	// future is what happens until at. It is nil if the tree is of now.
	future *simulate.Future
	at     time.Time
}

// readTree builds the graph as the scheduler does, of the chosen nodes. If a time is given it is the graph as
// it is expected to be then.
func (o *options) readTree(ctx context.Context, r *reader, choose chooseNodes, at time.Time) (*tree, error) {
	configuration, err := o.configuration(ctx, r)
	if err != nil {
		return nil, err
	}
	levels, err := configuration.Levels()
	if err != nil {
		return nil, err
	}
	all, err := r.readNodes(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.checkLevels(all); err != nil {
		return nil, err
	}
	nodes, err := choose(all, levels)
	if err != nil {
		return nil, err
	}
	r.namespace = ""
	ns, err := r.readNamespace(ctx, true)
	if err != nil {
		return nil, err
	}
	r.notePending(simulate.Cluster{Objects: slices.Concat(ns.owners, objectsOf(ns.pods)), PodGroups: ns.groups}, configuration.Scheduler())
	var future *simulate.Future
	pods, groups := ns.pods, ns.groups
	var rooms map[string][]seatsOnNode
	if at.IsZero() {
		if rooms, err = r.readRooms(ctx, ns); err != nil {
			return nil, err
		}
	} else {
		if future, err = o.readFuture(ctx, r, configuration, at); err != nil {
			return nil, err
		}
		pods, groups = future.Pods, slices.Clone(groups)
		for i := range groups {
			holdWhole(&groups[i], future.Placed, ns.ownersOf)
		}
	}
	v := treeOf(nodes, pods, groups, rooms, ns.ownersOf, levels, configuration)
	v.all, v.namespaces, v.future, v.at = len(all), ns, future, at
	if len(nodes) < len(all) {
		// Domains of which some nodes are not shown say how many nodes they have.
		v.root.countAll(treeOf(all, nil, nil, nil, ns.ownersOf, levels, configuration).root)
	}
	return v, nil
}

func treeOf(nodes []*corev1.Node, pods []*corev1.Pod, groups []scheduling.PodGroup, rooms map[string][]seatsOnNode, above group.Owners, levels []translate.Level, c simulate.Configuration) *tree {
	v := &tree{root: newTreeNode(graph.TypeCluster, graph.TypeCluster), graph: &graph.Graph{}, levels: levels}
	on := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if translate.Holds(pod) {
			on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
		}
	}
	seats := seatsByNode(groups, membersOf(pods, above))
	whole := map[string]bool{}
	for i := range groups {
		if is, _, _ := report.WholeNodes(&groups[i]); is {
			whole[groups[i].Namespace+"/"+shownName(groups[i].Name)] = true
		}
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	vertices := map[string]int{}
	for _, n := range nodes {
		part := translate.Node(n, levels)
		held := newTreeNode(graph.TypeNode, n.Name)
		held.Nodes, held.Size, held.Status, held.Domains = 1, translate.Pools(part), statusOf(n), domainsOf(n, levels)
		held.holders = holders{pods: map[string]translate.Amounts{}, seats: map[string]translate.Amounts{}, others: translate.Amounts{}}
		wholly := false
		for _, pod := range on[n.Name] {
			requests := translate.Requests(pod)
			held.Used.Add(requests)
			if id := group.IdentityOf(pod, above); pod.Spec.SchedulerName == c.Scheduler() {
				name := pod.Namespace + "/" + pod.Name
				if id.InPodGroup {
					name = id.Key.Namespace + "/" + shownName(id.Key.Name)
				} else if annotation, _ := group.ExclusiveRequest(pod.Annotations); annotation != "" {
					wholly = true
				}
				wholly = wholly || whole[name]
				held.Groups[name]++
				held.holders.add(held.holders.pods, name, requests)
			} else {
				held.Others++
				held.holders.others.Add(requests)
				held.OtherPods = append(held.OtherPods, pod.Namespace+"/"+pod.Name)
			}
		}
		slices.Sort(held.OtherPods)
		for _, s := range rooms[n.Name] {
			wholly = wholly || s.whole
		}
		if wholly {
			held.Status = strings.TrimPrefix(held.Status+","+exclusive, ",")
		}
		for _, s := range slices.Concat(seats[n.Name], rooms[n.Name]) {
			for range s.n {
				held.Used.Add(s.requests)
				held.holders.add(held.holders.seats, s.group, s.requests)
			}
			held.Seats[s.group] += s.n
		}
		v.insert(part, held)
		v.merge(part, held, vertices)
	}
	return v
}

// seatsOnNode are free seats of a group on one node.
type seatsOnNode struct {
	group string
	n     int
	// requests is what one pod requests.
	requests translate.Amounts
	// whole is true if they hold the whole node, though there may be no pod yet.
	whole bool
}

// seatsByNode returns the free seats of all groups, by node.
func seatsByNode(groups []scheduling.PodGroup, members map[types.NamespacedName][]*corev1.Pod) map[string][]seatsOnNode {
	on := map[string][]seatsOnNode{}
	for i := range groups {
		pg := &groups[i]
		for _, free := range freeSeats(pg, members[types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}]) {
			for node, n := range free.nodes {
				on[node] = append(on[node], seatsOnNode{pg.Namespace + "/" + pg.Name, n, translate.Requests(free.pod), false})
			}
		}
	}
	return on
}

func objectsOf(pods []*corev1.Pod) []runtime.Object {
	all := make([]runtime.Object, len(pods))
	for i, pod := range pods {
		all[i] = pod
	}
	return all
}

func newTreeNode(kind, name string) *treeNode {
	return &treeNode{Type: kind, Name: name, Size: translate.Amounts{}, Used: translate.Amounts{}, Unschedulable: translate.Amounts{}, Groups: map[string]int{}, Seats: map[string]int{}}
}

// insert puts a node below the domains to which its part of the graph belongs.
func (v *tree) insert(part *graph.Graph, n *treeNode) {
	at := v.root
	for i := range v.levels {
		at.addNode(n)
		at = at.child(part.Vertices[i+1])
	}
	at.addNode(n)
	at.Children = append(at.Children, n)
}

// child returns the treeNode below p for a vertex. It adds the treeNode if needed, in the order of
// names.
func (p *treeNode) child(v graph.Vertex) *treeNode {
	k, found := slices.BinarySearchFunc(p.Children, v.Name, func(b *treeNode, name string) int { return cmp.Compare(b.Name, name) })
	if !found {
		p.Children = slices.Insert(p.Children, k, newTreeNode(v.Type, v.Name))
	}
	return p.Children[k]
}

// addNode adds a node to the counts and amounts of p, which is above the node.
func (p *treeNode) addNode(n *treeNode) {
	p.Nodes++
	p.Size.Add(n.Size)
	p.Used.Add(n.Used)
	if n.unschedulable() {
		for of := range n.Size {
			p.Unschedulable[of] += n.free(of)
		}
	}
	p.Others += n.Others
	for g, pods := range n.Groups {
		p.Groups[g] += pods
	}
	for g, seats := range n.Seats {
		p.Seats[g] += seats
	}
}

// usedProperty is the property that says how much of a pool is held, in a graph that is written.
const usedProperty = "used"

// merge adds a node's part to the whole graph.
func (v *tree) merge(part *graph.Graph, n *treeNode, vertices map[string]int) {
	parent := map[int]int{}
	for _, e := range part.Edges {
		parent[e.Target] = e.Source
	}
	at := make([]int, len(part.Vertices))
	for i, vertex := range part.Vertices {
		if known, ok := vertices[vertex.Path]; ok {
			at[i] = known
			continue
		}
		if used, ok := n.Used[vertex.Type]; ok && i > len(v.levels)+1 {
			properties := maps.Clone(vertex.Properties)
			if properties == nil {
				properties = map[string]string{}
			}
			properties[usedProperty] = decimal(used)
			vertex.Properties = properties
		}
		above := -1
		if i > 0 {
			above = at[parent[i]]
		}
		at[i] = v.graph.Hang(above, vertex)
		vertices[vertex.Path] = at[i]
	}
}

// Statuses of nodes. A tainted node accepts only the pods that tolerate its taints. An exclusive node
// accepts only pods of the group that has the node to itself.
const (
	ready     = "Ready"
	tainted   = "Tainted"
	exclusive = "Exclusive"
)

// has reports whether the status of a node has a word.
func (p *treeNode) has(status string) bool {
	return slices.Contains(strings.Split(p.Status, ","), status)
}

// domainsOf returns the domains of a node, by level. A level whose label the node lacks is left out.
func domainsOf(n *corev1.Node, levels []translate.Level) map[string]string {
	of := map[string]string{}
	for _, l := range levels {
		if v := n.Labels[l.Key]; v != "" {
			of[l.Type] = v
		}
	}
	return of
}

// statusOf says why a node accepts no pods, or not all.
func statusOf(n *corev1.Node) string {
	var why []string
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if !ready {
		why = append(why, "NotReady")
	}
	if n.DeletionTimestamp != nil {
		why = append(why, "Deleting")
	}
	if n.Spec.Unschedulable {
		why = append(why, "Cordoned")
	}
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable && t.Key != corev1.TaintNodeNotReady
	}) {
		why = append(why, tainted)
	}
	return strings.Join(why, ",")
}

// resources returns the resources to show: cores, memory and all counted resources, such as GPUs.
// If wide is set, it returns all resources.
func (p *treeNode) resources(wide bool) []string {
	show := []string{translate.TypeCore, translate.TypeMemory}
	for _, t := range p.Size.Types() {
		own := t == translate.TypePods || t == string(corev1.ResourceEphemeralStorage) || strings.HasPrefix(t, corev1.ResourceHugePagesPrefix)
		if !slices.Contains(show, t) && (wide || !own) && (wide || p.Size[t] > 0) {
			show = append(show, t)
		}
	}
	return show
}

// resourceName returns the name that users know for a type of pool.
func resourceName(of string) string {
	if of == translate.TypeCore {
		return "cpu"
	}
	return of
}

// amount returns an amount in the form that users write.
func amount(of string, n int64) string {
	switch {
	case of == translate.TypeCore:
		return cores(n)
	case isBytes(of):
		return inBytes(n)
	}
	return decimal(n)
}
