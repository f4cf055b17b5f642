package invariants

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A ledger is the history of the nodes, by resource version and by time
// of delivery: what the nodes had to give, and which pods held it.
type ledger struct {
	nodes map[string]*book
	// asked are the requests that bound pods, or may have, by pod.
	asked map[types.NamespacedName][]auditFact
	// binds are the binds not judged yet.
	binds []bind
	// standings are the binds not judged yet by the pods near them.
	standings []standing
	gaps      []gap
}

// A gap is a range of versions in which changes were missed.
type gap struct {
	after, to uint64
	at        time.Time
}

// A book is the history of one node.
type book struct {
	states  []state
	tenants map[types.UID]*tenant
}

// A state is a node from one version until the next state.
type state struct {
	version uint64
	at      time.Time
	gone    bool
	nodeFact
}

// A tenant is a pod on a node. It holds its resources from one version
// until before another. The second is 0 while the pod holds them.
type tenant struct {
	key      types.NamespacedName
	uid      types.UID
	node     string
	from, to uint64
	// since is the time when the pod was first seen on
	// the node. ended is the time when it was gone.
	since, ended time.Time
	// leaves is the version at which the pod was first
	// seen with a deletion timestamp, 0 if it has none.
	leaves  uint64
	charges []charge
	// ours reports whether Fluence bound the pod, and thus knows of it before it hears of it.
	ours bool
	// joined reports whether a pod of another namespace,
	// now forgotten, was on the node at the same time.
	joined bool
}

// A charge is what a pod holds from one version until the next charge.
type charge struct {
	version uint64
	at      time.Time
	amounts
}

// A bind is a pod that was seen to get its node.
type bind struct {
	pod podFact
	// made reports whether the pod was created with its node.
	made bool
	seen
}

func newLedger() ledger {
	return ledger{nodes: map[string]*book{}, asked: map[types.NamespacedName][]auditFact{}}
}

func (l *ledger) book(node string) *book {
	b := l.nodes[node]
	if b == nil {
		b = &book{tenants: map[types.UID]*tenant{}}
		l.nodes[node] = b
	}
	return b
}

// seeNode records a node, or its end.
func (j *judge) seeNode(f nodeFact, s seen) {
	j.stats.Facts++
	b := j.book(f.name)
	st := state{version: s.version, at: s.at, gone: s.gone, nodeFact: f}
	if !j.begun {
		st.version, st.at = 0, time.Time{}
	}
	if len(b.states) == 0 {
		j.stats.Nodes++
	} else if last := b.states[len(b.states)-1]; last.gone == s.gone && last.same(f) {
		return
	}
	b.states = append(b.states, st)
}

// lostNode records the end of a node that is missing from a new list.
func (j *judge) lostNode(name string, s seen) {
	s.gone = true
	if b := j.nodes[name]; b != nil && len(b.states) > 0 {
		j.seeNode(b.states[len(b.states)-1].nodeFact, s)
	}
}

func (n nodeFact) same(o nodeFact) bool {
	return n.closed == o.closed && maps.Equal(n.allocatable, o.allocatable) && maps.Equal(n.labels, o.labels) && reflect.DeepEqual(n.taints, o.taints)
}

// seeGap records that a watch of pods or of nodes had to begin anew.
func (j *judge) seeGap(after, to uint64, at time.Time) {
	j.stats.Relists++
	j.gaps = append(j.gaps, gap{after, to, at})
}

// holds records what a pod holds. had reports whether it
// had a node before, made whether it was created with one.
func (j *judge) holds(p *pod, s seen, had, made bool) {
	if p.node == "" {
		return
	}
	b := j.book(p.node)
	t := b.tenants[p.uid]
	over := s.gone || p.ended()
	if t == nil {
		if over {
			return
		}
		t = &tenant{key: p.key, uid: p.uid, node: p.node, from: s.version, since: s.at}
		c := charge{version: s.version, at: s.at, amounts: p.asks}
		if !j.begun {
			t.from, t.since, c.version, c.at = 0, time.Time{}, 0, time.Time{}
		}
		t.charges = append(t.charges, c)
		b.tenants[p.uid] = t
	} else if last := t.charges[len(t.charges)-1]; !maps.Equal(last.amounts, p.asks) {
		t.charges = append(t.charges, charge{version: s.version, at: s.at, amounts: p.asks})
	}
	if p.deleting && t.leaves == 0 {
		t.leaves = s.version
	}
	if over && t.to == 0 {
		t.to, t.ended = s.version, s.at
	}
	if !had && j.begun {
		t.ours = p.scheduler == j.cfg.Scheduler
		j.binds = append(j.binds, bind{pod: p.podFact, made: made, seen: s})
	}
}

// tenants yields the tenants of all nodes.
func (l *ledger) tenants(yield func(*tenant) bool) {
	for _, b := range l.nodes {
		for _, t := range b.tenants {
			if !yield(t) {
				return
			}
		}
	}
}

// stirred reports whether, since a moment, a node has come,
// gone or changed, or has got a pod that Fluence did not bind.
func (l *ledger) stirred(since time.Time) bool {
	for _, b := range l.nodes {
		for i, s := range b.states {
			if s.at.After(since) && (i > 0 || s.gone) {
				return true
			}
		}
	}
	for t := range l.tenants {
		if !t.ours && t.since.After(since) {
			return true
		}
	}
	return false
}

// clean forgets what had ended before a moment.
func (l *ledger) clean(old time.Time) {
	for name, b := range l.nodes {
		for uid, t := range b.tenants {
			if t.to != 0 && t.ended.Before(old) {
				delete(b.tenants, uid)
				for _, other := range b.tenants {
					other.joined = other.joined || other.beside(t)
				}
			}
			for len(t.charges) > 1 && t.charges[1].at.Before(old) {
				t.charges = t.charges[1:]
			}
		}
		for len(b.states) > 1 && b.states[1].at.Before(old) {
			b.states = slices.Clone(b.states[1:])
		}
		if len(b.tenants) == 0 && (len(b.states) == 0 || b.states[len(b.states)-1].gone && b.states[len(b.states)-1].at.Before(old)) {
			delete(l.nodes, name)
		}
	}
	for key, asked := range l.asked {
		asked = slices.DeleteFunc(asked, func(a auditFact) bool { return a.received.Before(old) })
		if len(asked) == 0 {
			delete(l.asked, key)
		} else {
			l.asked[key] = asked
		}
	}
	l.gaps = slices.DeleteFunc(l.gaps, func(g gap) bool { return g.at.Before(old) })
}

// beside reports whether both tenants were on the node
// at the same time, and are of different namespaces.
func (t *tenant) beside(other *tenant) bool {
	return other.key.Namespace != t.key.Namespace && (t.to == 0 || other.from < t.to) && (other.to == 0 || t.from < other.to)
}

// charged returns what a tenant holds at a version, nil if nothing. A pod that Fluence bound
// counts from its bind on. Another pod counts only if it was delivered before the horizon. A
// change that was delivered after the horizon counts only if it makes the amounts smaller.
func (t *tenant) charged(version uint64, horizon time.Time) amounts {
	if t.from >= version || t.to != 0 && t.to < version || !t.ours && t.charges[0].at.After(horizon) {
		return nil
	}
	var holds amounts
	for _, c := range t.charges {
		switch {
		case c.version >= version:
		case holds == nil || !c.at.After(horizon):
			holds = c.amounts
		default:
			holds = least(holds, c.amounts)
		}
	}
	return holds
}

// statesAt returns the states that a node may have had at a version in Fluence's eyes: the last
// state delivered before the horizon, and each later one. No state means that there was no node.
func (b *book) statesAt(version uint64, horizon time.Time) []state {
	var found []state
	for _, s := range b.states {
		switch {
		case s.version >= version:
		case !s.at.After(horizon):
			found = []state{s}
		default:
			found = append(found, s)
		}
	}
	return found
}
