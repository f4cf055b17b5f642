package demand

import (
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A Limit bounds the number of slots below each vertex of one type, or on the nodes of each host
// list.
type Limit struct {
	// Name is the name under which several shapes share the limit. It is empty if the limit belongs to
	// one shape.
	Name string
	// Level is the type of the vertices. It is empty if the limit has host lists.
	Level string
	// Hosts are the host lists. It is nil if the limit has a level.
	Hosts []string
	// CellOf maps a host to the index of its list. It is nil if the limit has a level.
	CellOf map[string]int32
	// SameHosts is the index of the first limit with the same lists. That may be the limit itself.
	SameHosts int
	// Max is the maximum number of slots.
	Max int64
}

// addNamedLimit adds a named limit to a shape. All shapes that give the name share one limit.
func (a *Demand) addNamedLimit(s *solver.Shape, from jobspec.Limit) error {
	switch {
	case from.Name == "":
		return invalid("the limit has no name")
	case from.Level == "" && len(from.Hosts) == 0:
		return invalid("%q: set level or hosts", from.Name)
	case from.Level != "" && len(from.Hosts) > 0:
		return invalid("%q: set either level or hosts, not both", from.Name)
	case from.Most < 0:
		return invalid("%q: most: must be at least 0, is %d", from.Name, from.Most)
	}
	l := Limit{Name: from.Name, Level: from.Level, Hosts: from.Hosts, Max: from.Most}
	if at, there := a.limitByName[l.Name]; there {
		other := &a.Limits[at]
		if other.Level != l.Level || other.Max != l.Max || !slices.Equal(other.Hosts, l.Hosts) {
			return invalid("limit %q is defined twice, with different level, hosts or most", l.Name)
		}
		if !slices.Contains(s.Limits, at) {
			s.Limits = append(s.Limits, at)
		}
		return nil
	}
	if a.limitByName == nil {
		a.limitByName, a.limitByHosts = make(map[string]int), make(map[string]int)
	}
	l.SameHosts = len(a.Limits)
	if len(l.Hosts) > 0 {
		lists := strings.Join(l.Hosts, "\n")
		if at, there := a.limitByHosts[lists]; there && slices.Equal(a.Limits[at].Hosts, l.Hosts) {
			l.SameHosts, l.CellOf = at, a.Limits[at].CellOf
		} else if err := l.readHosts(); err != nil {
			return err
		} else {
			a.limitByHosts[lists] = l.SameHosts
		}
	}
	a.limitByName[l.Name] = len(a.Limits)
	a.addLimit(s, l)
	return nil
}

// readHosts parses the host lists. It fails if a host is in two lists.
func (l *Limit) readHosts() error {
	l.CellOf = make(map[string]int32)
	for i, text := range l.Hosts {
		list, err := hostlist.Parse(text)
		if err != nil {
			return invalid("%q: hosts: %w", l.Name, err)
		}
		for host := range list.Names() {
			if was, there := l.CellOf[host]; there && was != int32(i) {
				return invalid("%q: hosts: %q is in two lists", l.Name, host)
			}
			l.CellOf[host] = int32(i)
		}
	}
	return nil
}

// addLimit adds a new limit to a shape.
func (a *Demand) addLimit(s *solver.Shape, l Limit) {
	s.Limits = append(s.Limits, len(a.Limits))
	a.Limits = append(a.Limits, l)
}
