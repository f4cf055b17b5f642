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
	Name string
	Kind string
	// Hosts are hostlists, and Cells has by host the number of its list; nil where the
	// limit is of a type. Like is the first limit with the same lists, or the limit itself.
	Hosts []string
	Cells map[string]int32
	Like  int
	Most  int64
}

// narrowBy has a shape keep a limit that it shares with all shapes that name it.
func (a *Demand) narrowBy(s *solver.Shape, from jobspec.Limit) error {
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
	l := Limit{Name: from.Name, Kind: from.Level, Hosts: from.Hosts, Most: from.Most}
	if at, there := a.names[l.Name]; there {
		other := &a.Limits[at]
		if other.Kind != l.Kind || other.Most != l.Most || !slices.Equal(other.Hosts, l.Hosts) {
			return invalid("two limits of the name %q say different things", l.Name)
		}
		if !slices.Contains(s.Limits, at) {
			s.Limits = append(s.Limits, at)
		}
		return nil
	}
	if a.names == nil {
		a.names, a.lists = make(map[string]int), make(map[string]int)
	}
	l.Like = len(a.Limits)
	if len(l.Hosts) > 0 {
		lists := strings.Join(l.Hosts, "\n")
		if at, there := a.lists[lists]; there && slices.Equal(a.Limits[at].Hosts, l.Hosts) {
			l.Like, l.Cells = at, a.Limits[at].Cells
		} else if err := l.readHosts(); err != nil {
			return err
		} else {
			a.lists[lists] = l.Like
		}
	}
	a.names[l.Name] = len(a.Limits)
	a.bound(s, l)
	return nil
}

// readHosts fails for a host in two lists.
func (l *Limit) readHosts() error {
	l.Cells = make(map[string]int32)
	for i, text := range l.Hosts {
		list, err := hostlist.Parse(text)
		if err != nil {
			return invalid("%q: hosts: %w", l.Name, err)
		}
		for host := range list.Names() {
			if was, there := l.Cells[host]; there && was != int32(i) {
				return invalid("%q: hosts: %q is in two of the lists", l.Name, host)
			}
			l.Cells[host] = int32(i)
		}
	}
	return nil
}

// bound has a shape keep a limit that no shape before has.
func (a *Demand) bound(s *solver.Shape, l Limit) {
	s.Limits = append(s.Limits, len(a.Limits))
	a.Limits = append(a.Limits, l)
}
