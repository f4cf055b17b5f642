package reapitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

// A graph is the graph that a client has loaded, with the jobs that hold parts of it.
type graph struct {
	*traverser.Traverser
	// format is the format of R.
	format string
	nodes  []resource.Vertex
	// types are the types of the children of each vertex, by its path.
	types map[string]map[string]bool
}

// readGraph loads JGF.
func readGraph(jgf, options string) (*graph, error) {
	o, err := traverser.ParseOptions([]byte(options))
	if err != nil {
		return nil, err
	}
	t, err := traverser.New(o)
	if err != nil {
		return nil, err
	}
	part, err := traverser.Read([]byte(jgf))
	if err != nil {
		return nil, err
	}
	if err := t.Add(part); err != nil {
		return nil, err
	}
	g := &graph{Traverser: t, format: o.MatchFormat}
	g.index()
	return g, nil
}

// index records the nodes, and which types are where.
func (g *graph) index() {
	g.nodes, g.types = nil, make(map[string]map[string]bool)
	for _, v := range g.Graph().Vertices {
		if v.Type == resource.TypeNode {
			g.nodes = append(g.nodes, v)
		}
		above := path.Dir(v.Path)
		if g.types[above] == nil {
			g.types[above] = make(map[string]bool)
		}
		g.types[above][v.Type] = true
	}
}

// couldMatch reports whether the empty graph has room.
func (g *graph) couldMatch(js *jobspec.Jobspec) bool {
	_, err := g.ask(js, match.Satisfiability, 0)
	return err == nil
}

func (g *graph) ask(js *jobspec.Jobspec, op match.Op, number int64) (*match.Allocation, error) {
	r := &match.Request{
		Op: op, ID: match.JobID(number), Jobspec: js, Now: time.Unix(0, 0), Duration: js.Attributes.System.Duration,
	}
	return g.Match(context.Background(), r, traverser.Fingerprint{})
}

// lacks reports whether a node that may be used lacks a
// type that a slot has. Release 0.39 fails on such nodes.
func (g *graph) lacks(js *jobspec.Jobspec) bool {
	allowed, err := js.Attributes.System.Constraints.Compile()
	return err == nil && slices.ContainsFunc(g.nodes, func(n resource.Vertex) bool {
		return allowed(n.Name, n.Rank, n.Properties) && slices.ContainsFunc(js.Resources[0].With, func(w jobspec.Resource) bool {
			return !g.types[n.Path][w.Type]
		})
	})
}

// write encodes R. Vertices that a failed match has booked (lost) come first.
func (g *graph) write(lost, r *resource.Set) (string, error) {
	if lost != nil {
		both := slices.Clone(lost.Vertices)
		for _, v := range r.Vertices {
			if !slices.ContainsFunc(lost.Vertices, func(l resource.Share) bool { return l.UniqID == v.UniqID }) {
				both = append(both, v)
			}
		}
		r = &resource.Set{Vertices: both}
	}
	text, err := r.Format(g.format)
	return string(text), err
}

// update books R under a number.
func (g *graph) update(number int64, text string, form UpdateForm) error {
	if form == UpdateWrapped {
		var whole struct {
			Version    int             `json:"version"`
			Scheduling json.RawMessage `json:"scheduling"`
		}
		if err := json.Unmarshal([]byte(text), &whole); err != nil {
			return err
		}
		if text = string(whole.Scheduling); whole.Version != 1 || text == "" {
			return errors.New("no R of version 1")
		}
	} else if !strings.HasPrefix(text, `{"graph"`) {
		return errors.New("no JGF")
	}
	r, err := resource.ParseR([]byte(text))
	if err != nil {
		return err
	}
	held := g.held()
	some := false
	for _, v := range r.Vertices {
		if p := v.Path; v.Exclusively && held[p] {
			return fmt.Errorf("%s is held", p)
		}
		some = some || v.Exclusively
	}
	if !some {
		return errors.New("nothing to book")
	}
	return g.Update(match.Job{ID: match.JobID(number), Slots: []match.Slot{{Key: "r", R: r}}})
}

// held returns the paths of the vertices that jobs hold exclusively.
func (g *graph) held() map[string]bool {
	held := make(map[string]bool)
	for _, j := range g.Jobs() {
		for _, s := range j.Slots {
			for _, v := range s.R.Vertices {
				if v.Exclusively {
					held[v.Path] = true
				}
			}
		}
	}
	return held
}
