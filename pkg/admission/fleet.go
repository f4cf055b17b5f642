package admission

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A fleet knows which nodes the jobs of each class may use in each queue. Only the loop uses it.
type fleet struct {
	nodes corelisters.NodeLister
	// sets are the sets that were asked for.
	sets map[setKey]*hostSet
	// refused has the nodes on which filters have refused pods, by class, and until when they are left out.
	refused map[string]map[string]time.Time
}

// A setKey names the nodes of a queue that rules allow.
type setKey struct{ partition, rules string }

// maxVerdicts bounds the number of verdicts in all sets. A set counts as one of leastNodes at least. Sets that are not used any more
// are found by that alone.
const (
	maxVerdicts = 1 << 20
	leastNodes  = 256
)

// refusedFor is for how long a node is left out on which filters have refused pods, unless the node changes.
const refusedFor = 5 * time.Minute

// A hostSet has the nodes of a queue that rules allow.
type hostSet struct {
	rules *nodeRules
	queue labels.Selector
	// verdicts has the verdict on each node.
	verdicts map[string]verdict
	// always and now are the constraints that follow. A nil one holds everywhere.
	always, now *jobspec.Constraint
	// notNow is the number of nodes that are left out for the present.
	notNow int
	fresh  bool
}

// changed records that nodes came, went, or have other labels or taints, or may be cordoned or not any more.
func (f *fleet) changed(names ...string) {
	for _, s := range f.sets {
		for _, name := range names {
			s.update(name, f.nodes)
		}
	}
	for class, nodes := range f.refused {
		for _, name := range names {
			delete(nodes, name)
		}
		if len(nodes) == 0 {
			delete(f.refused, class)
		}
	}
}

// set returns the nodes of a queue that rules allow.
func (f *fleet) set(p *partition, r *nodeRules) *hostSet {
	key := setKey{p.name, r.name}
	s := f.sets[key]
	if s == nil {
		all, err := f.nodes.List(labels.Everything())
		if err != nil {
			all = nil // an informer's store does not fail
		}
		// All at once would have to be made again in one pass.
		for other := range f.sets {
			if (len(f.sets)+1)*max(len(all), leastNodes) <= maxVerdicts {
				break
			}
			delete(f.sets, other)
		}
		s = &hostSet{rules: r, queue: p.selector, verdicts: make(map[string]verdict, len(all))}
		for _, node := range all {
			s.verdicts[node.Name] = r.judge(node, s.queue)
		}
		f.sets[key] = s
	}
	s.freshen()
	return s
}

// update judges a node anew.
func (s *hostSet) update(name string, nodes corelisters.NodeLister) {
	before, had := s.verdicts[name]
	node, err := nodes.Get(name)
	if err != nil {
		delete(s.verdicts, name)
		s.fresh = s.fresh && !had
		return
	}
	if now := s.rules.judge(node, s.queue); !had || now != before {
		s.verdicts[name], s.fresh = now, false
	}
}

// freshen brings the constraints up to date.
func (s *hostSet) freshen() {
	if s.fresh {
		return
	}
	s.fresh, s.notNow = true, 0
	var may, neverOn, notNowOn []string
	for name, v := range s.verdicts {
		switch v {
		case never:
			neverOn = append(neverOn, name)
		case notNow:
			notNowOn, may = append(notNowOn, name), append(may, name)
		case allowed:
			may = append(may, name)
		}
	}
	s.notNow = len(notNowOn)
	switch {
	case len(neverOn) == 0 && !s.selects():
		s.always = nil
	case len(neverOn) < len(may) && !s.selects():
		s.always = except(neverOn)
	default:
		// A node that the matcher knows already, and that this has not seen yet, is not in the list.
		s.always = only(may)
	}
	s.now = nil
	if len(notNowOn) > 0 {
		s.now = except(notNowOn)
	}
}

// selects reports whether the set asks for labels of nodes.
func (s *hostSet) selects() bool { return s.rules.selects || s.queue != nil }

// allows reports whether pods may be on a node now, by the newest state of the node.
func (s *hostSet) allows(node *corev1.Node) bool { return s.rules.judge(node, s.queue) == allowed }

// refuse leaves nodes out for a class for some time.
func (f *fleet) refuse(class string, nodes []string, now time.Time) {
	if f.refused[class] == nil {
		f.refused[class] = map[string]time.Time{}
	}
	for _, n := range nodes {
		f.refused[class][n] = now.Add(refusedFor)
	}
}

// refusedBy returns the nodes that are left out for a class.
func (f *fleet) refusedBy(class string) []string {
	var nodes []string
	for n := range f.refused[class] {
		nodes = append(nodes, n)
	}
	return nodes
}

// expire ends refusals that are too old. It reports whether there were any.
func (f *fleet) expire(now time.Time) (ended bool) {
	for class, nodes := range f.refused {
		for n, until := range nodes {
			if !now.Before(until) {
				delete(nodes, n)
				ended = true
			}
		}
		if len(nodes) == 0 {
			delete(f.refused, class)
		}
	}
	return ended
}

// only returns the constraint that holds on these nodes alone.
func only(nodes []string) *jobspec.Constraint {
	slices.SortFunc(nodes, hostlist.Compare)
	return &jobspec.Constraint{Op: jobspec.OpHostlist, Values: []string{hostlist.Encode(nodes)}}
}

// except returns the constraint that holds on all other nodes.
func except(nodes []string) *jobspec.Constraint {
	return &jobspec.Constraint{Op: jobspec.OpNot, Args: []jobspec.Constraint{*only(nodes)}}
}
