package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/flux-k8s/fluence/pkg/idset"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// graphStats has the numbers of vertices and edges of a graph.
type graphStats struct {
	vertices, edges int
	types           map[string]*typeStats
	// levels has the types by their distance from the root.
	levels []map[string]bool
	ranks  map[int64]bool
	// properties counts the vertices with a property, by "key" or "key=value".
	properties map[string]int
}

// typeStats counts the vertices of one type.
type typeStats struct {
	vertices, down int
	// size is the sum of the vertices' sizes, in units.
	size  int64
	units map[string]bool
}

// graphStatsOf counts the vertices and edges of a graph that an engine has loaded.
func graphStatsOf(jgf []byte) (*graphStats, error) {
	c := &graphStats{types: map[string]*typeStats{}, ranks: map[int64]bool{}, properties: map[string]int{}}
	return c, resource.WalkJGF(jgf, func(v *resource.Vertex) error {
		c.add(v)
		return nil
	}, func(resource.Edge) error {
		c.edges++
		return nil
	})
}

func (c *graphStats) add(v *resource.Vertex) {
	c.vertices++
	t := c.types[v.Type]
	if t == nil {
		t = &typeStats{units: map[string]bool{}}
		c.types[v.Type] = t
	}
	t.vertices++
	t.size += v.Size
	if v.Unit != "" {
		t.units[v.Unit] = true
	}
	if v.Status == resource.Down {
		t.down++
	}
	if v.Rank != resource.NoRank {
		c.ranks[v.Rank] = true
	}
	for key, value := range v.Properties {
		if value != "" {
			key += "=" + value
		}
		c.properties[key]++
	}
	depth := strings.Count(v.Path, "/") - 1
	if depth < 0 {
		return // a vertex of another subsystem only
	}
	for len(c.levels) <= depth {
		c.levels = append(c.levels, map[string]bool{})
	}
	c.levels[depth][v.Type] = true
}

// write writes the numbers for people: a line for each, and a table of the types.
func (c *graphStats) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "vertices\t%d\n", c.vertices)
	fmt.Fprintf(w, "edges\t%d\n", c.edges)
	fmt.Fprintf(w, "levels\t%s\n", c.levelNames())
	fmt.Fprintf(w, "ranks\t%s\n", orNone(idset.Of(slices.Collect(maps.Keys(c.ranks))...).String()))
	nodes := c.types[resource.TypeNode]
	if nodes == nil {
		nodes = &typeStats{}
	}
	fmt.Fprintf(w, "nodes\t%d up, %d down\n", nodes.vertices-nodes.down, nodes.down)
	var properties []string
	for _, p := range slices.Sorted(maps.Keys(c.properties)) {
		properties = append(properties, fmt.Sprintf("%s (%d)", p, c.properties[p]))
	}
	fmt.Fprintf(w, "properties\t%s\n", orNone(strings.Join(properties, ", ")))
	fmt.Fprint(w, "\ntype\tvertices\tdown\tsize\tunit\n")
	for _, name := range slices.Sorted(maps.Keys(c.types)) {
		t := c.types[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", name, t.vertices, t.down, t.size, strings.Join(slices.Sorted(maps.Keys(t.units)), ","))
	}
	return w.Flush()
}

// levelNames returns the types from the root down.
func (c *graphStats) levelNames() string {
	names := make([]string, len(c.levels))
	for i, types := range c.levels {
		names[i] = strings.Join(slices.Sorted(maps.Keys(types)), "|")
	}
	return strings.Join(names, " > ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
