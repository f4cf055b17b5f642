package demand

import (
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A Limit bounds how many slots stand below any one vertex of a type, or on the nodes
// of any one list.
type Limit struct {
	// Name is what shapes share the limit by; empty for one of a shape by itself.
	Name  string
	Level string
	// Hosts are hostlists, and Cells has by host the number of its list; nil where the
	// limit is of a type. Like is the first limit with the same lists, or the limit itself.
	Hosts     []string
	CellOf    map[string]int32
	SameHosts int
	Max       int64
}

// addNamedLimit has a shape keep a limit that it shares with all shapes that name it.
func (a *Demand) addNamedLimit(s *solver.Shape, from jobspec.Limit) error {
	switch {
	case from.Name == "":
		return invalid("a limit without a name")
	case from.Level == "" && len(from.Hosts) == 0:
		return invalid("%q: neither level nor hosts", from.Name)
	case from.Level != "" && len(from.Hosts) > 0:
		return invalid("%q: level and hosts: one of them only", from.Name)
	case from.Most < 0:
		return invalid("%q: most: %d is less than 0", from.Name, from.Most)
	}
	l := Limit{Name: from.Name, Level: from.Level, Hosts: from.Hosts, Max: from.Most}
	if at, there := a.limitByName[l.Name]; there {
		other := &a.Limits[at]
		if other.Level != l.Level || other.Max != l.Max || !slices.Equal(other.Hosts, l.Hosts) {
			return invalid("two limits of the name %q say different things", l.Name)
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

// readHosts fails for a host in two lists.
func (l *Limit) readHosts() error {
	l.CellOf = make(map[string]int32)
	for i, text := range l.Hosts {
		list, err := hostlist.Parse(text)
		if err != nil {
			return invalid("%q: hosts: %w", l.Name, err)
		}
		for host := range list.Names() {
			if was, there := l.CellOf[host]; there && was != int32(i) {
				return invalid("%q: hosts: %q is in two of the lists", l.Name, host)
			}
			l.CellOf[host] = int32(i)
		}
	}
	return nil
}

// addLimit has a shape keep a limit that no shape before has.
func (a *Demand) addLimit(s *solver.Shape, l Limit) {
	s.Limits = append(s.Limits, len(a.Limits))
	a.Limits = append(a.Limits, l)
}
