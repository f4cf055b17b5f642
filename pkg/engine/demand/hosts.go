package demand

import (
	"iter"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/hostlist"
)

// A HostRule allows a shape only on the hosts of a list, or only on other hosts.
type HostRule struct {
	Hosts HostSet
	// Excluded is set if the shape may use only other hosts.
	Excluded bool
	// Temporary is set if the rule counts only for what fits at present.
	Temporary bool
}

// allows reports whether the shape may use the host.
func (r *HostRule) allows(host string) bool { return r.Hosts.has(host) != r.Excluded }

// A HostSet is a set of names of hosts.
type HostSet struct {
	// sorted has the names if they were given one by one and in order. So no map has to be built.
	sorted []string
	// last is where the last name that was searched belongs in sorted. Nodes are
	// mostly asked for in the order of their names, so the next one is close by.
	last  int
	names map[string]struct{}
}

// newHostSet returns the names of some valid host lists.
func newHostSet(lists []string) HostSet {
	if slices.IsSorted(lists) && !slices.ContainsFunc(lists, func(l string) bool { return !hostlist.Single(l) }) {
		return HostSet{sorted: lists}
	}
	names := make(map[string]struct{}, len(lists))
	for _, text := range lists {
		if hostlist.Single(text) {
			names[text] = struct{}{}
			continue
		}
		list, _ := hostlist.Parse(text) // valid, because Validate has checked it
		for name := range list.Names() {
			names[name] = struct{}{}
		}
	}
	return HostSet{names: names}
}

func (h *HostSet) has(name string) bool {
	if h.sorted == nil {
		_, ok := h.names[name]
		return ok
	}
	if at := h.last; at < len(h.sorted) && h.sorted[at] < name {
		// It is the next place, or a far one.
		h.last = at + 1
	} else if at > 0 && h.sorted[at-1] >= name {
		h.last = at - 1
	}
	if at := h.last; at < len(h.sorted) && h.sorted[at] < name || at > 0 && h.sorted[at-1] >= name {
		h.last, _ = slices.BinarySearch(h.sorted, name)
	}
	return h.last < len(h.sorted) && h.sorted[h.last] == name
}

// Len returns the number of names. A name that was given twice may count twice.
func (h *HostSet) Len() int { return len(h.sorted) + len(h.names) }

// All returns the names.
func (h *HostSet) All() iter.Seq[string] {
	if h.sorted != nil {
		return slices.Values(h.sorted)
	}
	return maps.Keys(h.names)
}
