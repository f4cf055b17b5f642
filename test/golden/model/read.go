package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

type jgf struct {
	Graph *struct {
		Nodes *[]jgfNode `json:"nodes"`
		Edges *[]jgfEdge `json:"edges"`
	} `json:"graph"`
}

type jgfNode struct {
	ID       *string `json:"id"`
	Metadata *struct {
		Type       *string            `json:"type"`
		Basename   *string            `json:"basename"`
		Name       *string            `json:"name"`
		ID         *int64             `json:"id"`
		UniqID     *int64             `json:"uniq_id"`
		Rank       *int64             `json:"rank"`
		Size       *int64             `json:"size"`
		Status     *int64             `json:"status"`
		Unit       *string            `json:"unit"`
		Exclusive  *bool              `json:"exclusive"`
		Properties map[string]string  `json:"properties"`
		Paths      *map[string]string `json:"paths"`
	} `json:"metadata"`
}

type jgfEdge struct {
	Source   *string `json:"source"`
	Target   *string `json:"target"`
	Metadata *struct {
		Subsystem *string `json:"subsystem"`
	} `json:"metadata"`
}

func (g *graph) read(text []byte) error {
	var doc jgf
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	if doc.Graph == nil || doc.Graph.Nodes == nil || doc.Graph.Edges == nil {
		return errors.New("graph: graph, nodes or edges is missing")
	}
	byID := map[string]*vertex{}
	for i := range *doc.Graph.Nodes {
		if err := g.node(&(*doc.Graph.Nodes)[i], byID); err != nil {
			return fmt.Errorf("graph: node %d: %w", i, err)
		}
	}
	for i, e := range *doc.Graph.Edges {
		if err := g.edge(e, byID); err != nil {
			return fmt.Errorf("graph: edge %d: %w", i, err)
		}
	}
	return nil
}

var (
	leading  = regexp.MustCompile(`^\s*([+-]?\d+)`)
	trailing = regexp.MustCompile(`\d+$`)
)

func (g *graph) node(n *jgfNode, byID map[string]*vertex) error {
	if n.ID == nil || n.Metadata == nil || n.Metadata.Type == nil || n.Metadata.Paths == nil {
		return errors.New("id, metadata, type or paths is missing")
	}
	m := n.Metadata
	if _, twice := byID[*n.ID]; twice {
		return fmt.Errorf("id %q: there twice", *n.ID)
	}
	v := &vertex{typ: *m.Type, rank: or(m.Rank, -1), size: or(m.Size, 1), properties: m.Properties, paths: *m.Paths}
	v.down = or(m.Status, 0) == 1
	v.basename = or(m.Basename, v.typ)
	if m.UniqID != nil {
		v.uniq = *m.UniqID
	} else {
		digits := leading.FindStringSubmatch(*n.ID)
		if digits == nil {
			return fmt.Errorf("id %q: neither a number nor a uniq_id beside it", *n.ID)
		}
		v.uniq, _ = strconv.ParseInt(digits[1], 10, 64)
	}
	v.id = or(m.ID, v.uniq)
	if m.ID == nil && v.typ == "node" && m.Name != nil {
		if digits := trailing.FindString(*m.Name); digits != "" {
			v.id, _ = strconv.ParseInt(digits, 10, 64)
		}
	}
	v.name = or(m.Name, v.basename+strconv.FormatInt(v.id, 10))
	if v.size < 0 {
		return fmt.Errorf("size %d: less than 0", v.size)
	}
	path := v.paths[containment]
	for _, w := range g.vertices {
		if path != "" && w.paths[containment] == path && w.rank == v.rank {
			byID[*n.ID] = w
			return nil
		}
	}
	if strings.Count(path, "/") == 1 {
		if g.root != nil {
			return fmt.Errorf("path %q: a second root", path)
		}
		g.root = v
	}
	g.intern(v.typ)
	g.vertices = append(g.vertices, v)
	byID[*n.ID] = v
	return nil
}

func (g *graph) edge(e jgfEdge, byID map[string]*vertex) error {
	if e.Source == nil || e.Target == nil {
		return errors.New("source or target is missing")
	}
	from, to := byID[*e.Source], byID[*e.Target]
	if from == nil || to == nil {
		return fmt.Errorf("%s -> %s: an end is not there", *e.Source, *e.Target)
	}
	if e.Metadata != nil && e.Metadata.Subsystem != nil && *e.Metadata.Subsystem != containment {
		return nil
	}
	for _, other := range from.out {
		if other.to.uniq == to.uniq {
			return fmt.Errorf("%s -> %s: there is a child of this uniq_id", *e.Source, *e.Target)
		}
	}
	from.out = append(from.out, &edge{from: from, to: to, weight: ^uint64(0)})
	return nil
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
