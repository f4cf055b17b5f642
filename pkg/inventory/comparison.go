package inventory

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A subject is the thing that a difference is about: a node by its name, or the slots under one
// key.
type subject struct {
	node bool
	name string
}

func nodeSubject(name string) subject { return subject{node: true, name: name} }
func slotSubject(key string) subject  { return subject{name: key} }

// sides are the two sides of a subject in words.
type sides struct{ cluster, engine string }

// A comparison holds some nodes and the slots on them, as the cluster has them and as the engine
// has them. The engine is read first, then the cluster.
type comparison struct {
	// from and to bound the names of the page. last is true if the page reaches the
	// end of the engine's list. Then to is not set.
	from, to   string
	last       bool
	extraNodes map[string]bool // further nodes
	nodes      map[string]*nodeSides
	slots      map[string]*slotSides
}

// A nodeSides is both sides of a node. A side without the node is nil.
type nodeSides struct{ cluster, engine *resource.Graph }

// A slotSides is both sides of a key.
type slotSides struct {
	pod         *corev1.Pod // the pod that holds the slots in the cluster, or nil
	fromSources []hold      // the slots that only the sources list
	cluster     []hold      // all slots that should exist: the pod's and the sources'
	engine      []hold      // the slots that the engine has
}

// covers reports whether the comparison has a node with all slots that the engine has on it.
func (v *comparison) covers(node string) bool {
	return node >= v.from && (v.last || node <= v.to) || v.extraNodes[node]
}

func (v *comparison) coversAll(nodes []string) bool {
	return !slices.ContainsFunc(nodes, func(node string) bool { return !v.covers(node) })
}

// addEngineNodes adds nodes that the engine has listed, and the slots on them.
func (v *comparison) addEngineNodes(nodes []match.Node, levels []translate.Level) {
	for _, n := range nodes {
		if v.nodes[n.Name] != nil {
			continue // on the page and among the extra nodes
		}
		v.nodes[n.Name] = &nodeSides{engine: n.Graph}
		for _, h := range holdsOf(n.Jobs) {
			s := v.slot(h.slot.Key)
			s.engine = append(s.engine, normalize(h, levels))
		}
	}
}

func (v *comparison) slot(key string) *slotSides {
	s := v.slots[key]
	if s == nil {
		s = &slotSides{}
		v.slots[key] = s
	}
	return s
}

// addClusterNodes adds the cluster's nodes.
func (v *comparison) addClusterNodes(nodes []any, levels []translate.Level) {
	for _, obj := range nodes {
		node, ok := obj.(*corev1.Node)
		if !ok || !v.covers(node.Name) {
			continue
		}
		n := v.nodes[node.Name]
		if n == nil {
			n = &nodeSides{}
			v.nodes[node.Name] = n
		}
		n.cluster = translate.Node(node, levels)
	}
}

// addPods adds the slots of the pods on the nodes of the comparison. pods has the index podsByNode.
// If the engine has a slot on these nodes that belongs to none of these pods, addPods also searches
// the pods on all other nodes for the key of the slot.
func (v *comparison) addPods(pods cache.Indexer, read func(*corev1.Pod) hold) error {
	add := func(pod *corev1.Pod) {
		s := v.slot(string(pod.UID))
		s.pod = pod
		s.cluster = append(s.cluster, read(pod))
	}
	for _, node := range pods.ListIndexFuncValues(podsByNode) {
		if !v.covers(node) {
			continue
		}
		there, err := pods.ByIndex(podsByNode, node)
		if err != nil {
			return fmt.Errorf("list pods on node %s: %w", node, err)
		}
		for _, obj := range there {
			if pod, ok := obj.(*corev1.Pod); ok && translate.Holds(pod) {
				add(pod)
			}
		}
	}
	lost := map[string]bool{}
	for key, s := range v.slots {
		if s.pod == nil {
			lost[key] = true
		}
	}
	if len(lost) == 0 {
		return nil
	}
	for _, obj := range pods.List() {
		if pod, ok := obj.(*corev1.Pod); ok && lost[string(pod.UID)] && translate.Holds(pod) {
			add(pod)
		}
	}
	return nil
}

// addSources adds the slots of the sources that are on the nodes of the comparison, or that the
// engine has there.
func (v *comparison) addSources(sources []Source, levels []translate.Level) {
	for _, source := range sources {
		for _, h := range holdsOf(source.Jobs()) {
			if !v.covers(h.slot.Node) && v.slots[h.slot.Key] == nil {
				continue
			}
			s := v.slot(h.slot.Key)
			if h = normalize(h, levels); slices.ContainsFunc(s.cluster, h.sameSlot) {
				continue // the pod's slot counts
			}
			s.fromSources = append(s.fromSources, h)
			s.cluster = append(s.cluster, h)
		}
	}
}

// A finding is a subject whose sides differ.
type finding struct {
	subject
	sides
	kind DriftKind
	// nodes are the nodes that the finding is about.
	nodes []string
	node  *nodeSides
	slot  *slotSides
}

// findings returns the findings sorted by node, kind and name.
func (v *comparison) findings() []finding {
	var all []finding
	for name, n := range v.nodes {
		if d := n.finding(name); d != nil {
			all = append(all, *d)
		}
	}
	for key, s := range v.slots {
		if d := s.finding(key); d != nil {
			all = append(all, *d)
		}
	}
	slices.SortFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.nodes[0], b.nodes[0]), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	return all
}

func (n *nodeSides) finding(name string) *finding {
	if n.cluster == nil && n.engine == nil {
		return nil // only slots are held there
	}
	both := sides{describeNode(n.cluster), describeNode(n.engine)}
	if both.cluster == both.engine {
		return nil
	}
	d := &finding{subject: nodeSubject(name), sides: both, kind: NodeDiffers, nodes: []string{name}, node: n}
	switch {
	case n.engine == nil:
		d.kind = NodeMissing
	case n.cluster == nil:
		d.kind = NodeSurplus
	}
	return d
}

// sameEnds gives each slot of the cluster the end that the engine has of it, if that says the same: it is about the same
// (see keepEnd), or it has passed and the cluster knows none any more, or a later one that was behind it.
func (s *slotSides) sameEnds(now time.Time) {
	for i := range s.cluster {
		h := &s.cluster[i]
		h.keepEnd(s.engine)
		for _, o := range s.engine {
			if end := o.slot.R.Expiration; h.sameSlot(o) && (h.slot.R.Expiration.IsZero() || h.slot.R.Expiration.After(now)) && !end.IsZero() && end.Before(now) {
				h.slot.R = until(h.slot.R, end)
			}
		}
	}
}

func (s *slotSides) finding(key string) *finding {
	s.sameEnds(time.Now())
	for _, holds := range [][]hold{s.cluster, s.engine} {
		slices.SortFunc(holds, func(a, b hold) int {
			return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.slot.Node, b.slot.Node))
		})
	}
	if len(s.cluster)+len(s.engine) == 0 || reflect.DeepEqual(s.cluster, s.engine) {
		return nil
	}
	d := &finding{
		subject: slotSubject(key), sides: sides{describeHolds(s.cluster), describeHolds(s.engine)}, kind: SlotDiffers, slot: s,
	}
	switch {
	case len(s.engine) == 0:
		d.kind = SlotMissing
	case len(s.cluster) == 0:
		d.kind = SlotSurplus
	}
	for _, h := range slices.Concat(s.cluster, s.engine) {
		d.nodes = append(d.nodes, h.slot.Node)
	}
	return d
}
