package inventory

import (
	"cmp"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A subject is what a difference is about: a node by its name, or what is held
// under one key.
type subject struct {
	node bool
	name string
}

func nodeSubject(name string) subject { return subject{node: true, name: name} }
func slotSubject(key string) subject  { return subject{name: key} }

// sides are the two sides of a subject in words.
type sides struct{ cluster, engine string }

// A view is what cluster and engine have of some nodes and of what is held on
// them: the engine first, then the cluster.
type view struct {
	// from and to are the names that a page begins and ends with; all names from
	// from on where last is set.
	from, to string
	last     bool
	beside   map[string]bool // further nodes
	nodes    map[string]*nodeView
	slots    map[string]*slotView
}

// A nodeView is both sides of a node; nil is nothing.
type nodeView struct{ cluster, engine *resource.Graph }

// A slotView is both sides of a key.
type slotView struct {
	pod    *corev1.Pod // which holds in the cluster, if one does
	called []hold      // what sources call for beside
	want   []hold      // all that is called for
	has    []hold      // in the engine
}

// covers says whether the view shows all that the engine has on a node.
func (v *view) covers(node string) bool {
	return node >= v.from && (v.last || node <= v.to) || v.beside[node]
}

func (v *view) coversAll(nodes []string) bool {
	return !slices.ContainsFunc(nodes, func(node string) bool { return !v.covers(node) })
}

// showEngine adds nodes that the engine listed.
func (v *view) showEngine(nodes []match.Node, levels []translate.Level) {
	for _, n := range nodes {
		if v.nodes[n.Name] != nil {
			continue // on the page and beside it
		}
		v.nodes[n.Name] = &nodeView{engine: n.Graph}
		for _, h := range holdsOf(n.Jobs) {
			s := v.slot(h.slot.Key)
			s.has = append(s.has, plain(h, levels))
		}
	}
}

func (v *view) slot(key string) *slotView {
	s := v.slots[key]
	if s == nil {
		s = &slotView{}
		v.slots[key] = s
	}
	return s
}

// showNodes adds the cluster's nodes.
func (v *view) showNodes(nodes []any, levels []translate.Level) {
	for _, obj := range nodes {
		node, ok := obj.(*corev1.Node)
		if !ok || !v.covers(node.Name) {
			continue
		}
		n := v.nodes[node.Name]
		if n == nil {
			n = &nodeView{}
			v.nodes[node.Name] = n
		}
		n.cluster = translate.Node(node, levels)
	}
}

// showPods adds what pods hold on the nodes of the view, and elsewhere if the
// engine has it here. Pods elsewhere are looked at only if the engine has a key here that
// none of the pods on these nodes has.
func (v *view) showPods(pods []any, read func(*corev1.Pod) hold) {
	show := func(pod *corev1.Pod) {
		s := v.slot(string(pod.UID))
		s.pod = pod
		s.want = append(s.want, read(pod))
	}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok && v.covers(pod.Spec.NodeName) && translate.Holds(pod) {
			show(pod)
		}
	}
	lost := map[string]bool{}
	for key, s := range v.slots {
		if s.pod == nil {
			lost[key] = true
		}
	}
	if len(lost) == 0 {
		return
	}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok && lost[string(pod.UID)] && translate.Holds(pod) {
			show(pod)
		}
	}
}

// showSources adds what sources call for, likewise.
func (v *view) showSources(sources []Source, levels []translate.Level) {
	for _, source := range sources {
		for _, h := range holdsOf(source.Jobs()) {
			if !v.covers(h.slot.Node) && v.slots[h.slot.Key] == nil {
				continue
			}
			s := v.slot(h.slot.Key)
			if h = plain(h, levels); slices.ContainsFunc(s.want, h.sameSlot) {
				continue // the pod prevails
			}
			s.called = append(s.called, h)
			s.want = append(s.want, h)
		}
	}
}

// A finding is a subject whose sides are not the same.
type finding struct {
	subject
	sides
	kind DriftKind
	// at are the nodes that it is about.
	at   []string
	node *nodeView
	slot *slotView
}

// findings lists them in an order of their own.
func (v *view) findings() []finding {
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
		return cmp.Or(cmp.Compare(a.at[0], b.at[0]), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	return all
}

func (n *nodeView) finding(name string) *finding {
	if n.cluster == nil && n.engine == nil {
		return nil // merely something held there
	}
	both := sides{nodeWords(n.cluster), nodeWords(n.engine)}
	if both.cluster == both.engine {
		return nil
	}
	d := &finding{subject: nodeSubject(name), sides: both, kind: NodeDiffers, at: []string{name}, node: n}
	switch {
	case n.engine == nil:
		d.kind = NodeMissing
	case n.cluster == nil:
		d.kind = NodeSurplus
	}
	return d
}

func (s *slotView) finding(key string) *finding {
	for _, holds := range [][]hold{s.want, s.has} {
		slices.SortFunc(holds, func(a, b hold) int {
			return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.slot.Node, b.slot.Node))
		})
	}
	if len(s.want)+len(s.has) == 0 || reflect.DeepEqual(s.want, s.has) {
		return nil
	}
	d := &finding{
		subject: slotSubject(key), sides: sides{holdWords(s.want), holdWords(s.has)}, kind: SlotDiffers, slot: s,
	}
	switch {
	case len(s.has) == 0:
		d.kind = SlotMissing
	case len(s.want) == 0:
		d.kind = SlotSurplus
	}
	for _, h := range slices.Concat(s.want, s.has) {
		d.at = append(d.at, h.slot.Node)
	}
	return d
}
