package resource

import (
	"fmt"
	"unicode/utf8"
)

// ParseR reads R (RFC 20) as Flux and Fluxion write it. If R has scheduling, the
// vertices are taken from it as in ParseSet. Otherwise they are taken from execution.
// ParseR also reads the bare graph that Fluxion writes as FormatJGF, which has no times.
//
// From execution alone, the vertices are, rank by rank, the cores and gpus in R_lite, each
// held exclusively. Then comes the node with its properties, if nodelist names it. These
// vertices are known by type, rank and id. They have no paths and no numbers of a graph.
//
// ParseR fails if ParseSet does. It also fails for more than MaxListed
// vertices, and for an execution that RFC 20 does not allow: a rank or id
// that is no idset (RFC 22), hosts that are no hostlist (RFC 29), a number
// of hosts that is not the number of ranks, or a rank that appears twice.
func ParseR(data []byte) (*Set, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("resource set is not UTF-8")
	}
	r := newReader(data)
	s := &Set{}
	var seen setKeys
	if err := r.set(s, &seen); err != nil {
		return nil, err
	}
	scheduling := seen.schedulings > 0 && !seen.unscheduled
	switch {
	case seen.graphs > 0:
	case seen.versions == 0:
		return nil, fmt.Errorf("no version")
	case seen.executions == 0 && !scheduling:
		return nil, fmt.Errorf("neither execution nor scheduling")
	case !scheduling:
		if err := r.listed(s, &seen); err != nil {
			return nil, in("execution", err)
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// listed reads the vertices from the keys of execution whose positions passOver recorded.
func (r *reader) listed(s *Set, seen *setKeys) error {
	if seen.rlite == 0 {
		return fmt.Errorf("no R_lite")
	}
	r.pos = seen.rlite
	ranks, err := r.rlite()
	if err != nil {
		return in("R_lite", err)
	}
	var hosts []string
	if seen.nodelist > 0 {
		r.pos = seen.nodelist
		if hosts, err = r.nodelist(len(ranks)); err != nil {
			return in("nodelist", err)
		}
	}
	var properties []property
	if seen.properties > 0 {
		r.pos = seen.properties
		if properties, err = r.listedProperties(); err != nil {
			return in("properties", err)
		}
	}
	for i, rank := range ranks {
		for _, p := range rank.pools {
			for id := range p.ids.All() {
				v := Vertex{Type: p.vertexType, Basename: p.vertexType, Name: fmt.Sprint(p.vertexType, id), ID: id, Rank: rank.rank, Size: 1}
				s.Vertices = append(s.Vertices, Share{Vertex: v, Amount: 1, Exclusively: true})
			}
		}
		if hosts != nil {
			s.Vertices = append(s.Vertices, listedNode(hosts[i], rank.rank, properties))
		}
	}
	return nil
}

func listedNode(name string, rank int64, properties []property) Share {
	v := Vertex{Type: TypeNode, Basename: TypeNode, Name: name, ID: rank, Rank: rank, Size: 1}
	if id, ok := trailingInteger(name); ok {
		v.ID = id
	}
	for _, p := range properties {
		if !p.ranks.Has(rank) {
			continue
		}
		if v.Properties == nil {
			v.Properties = map[string]string{}
		}
		v.Properties[p.name] = p.value
	}
	return Share{Vertex: v, Amount: 1}
}
