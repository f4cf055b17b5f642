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
	// sorted has the names if they were given one by one and in order. A search there takes
	// longer than in a map, but the map would have to be built first.
	sorted []string
	names  map[string]struct{}
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
	if h.sorted != nil {
		_, ok := slices.BinarySearch(h.sorted, name)
		return ok
	}
	_, ok := h.names[name]
	return ok
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
