package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	graph "github.com/flux-k8s/fluence/pkg/resource"
)

// A nodeList is the list of nodes as JSON and YAML.
type nodeList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []*treeNode `json:"items"`
}

// nodeListKind is the kind of a nodeList.
var nodeListKind = metav1.TypeMeta{Kind: "NodeList", APIVersion: groupListKind.APIVersion}

func (o *options) nodesCommand() *cobra.Command {
	var c choice
	var noHeaders bool
	cmd := &cobra.Command{
		Use:     "nodes [NAME...]",
		Aliases: []string{"node"},
		Short:   "List the nodes: their topology, what is free, and the groups that have pods there",
		Long: `List the nodes: their topology, what is free, and the groups that have pods there.

A NAME may be a list such as node-[0000-0003].`,
		Example:           "  kubectl fluence nodes\n  kubectl fluence nodes node-[0000-0003] -o wide\n  kubectl fluence nodes -l node-role.kubernetes.io/worker",
		ValidArgsFunction: o.completeNodes,
	}
	cmd.Flags().BoolVar(&noHeaders, "no-headers", false, "print no headers")
	f := addOutputFlag(cmd, formatWide, formatJGF, formatName, formatJSONPath, formatColumns)
	o.addTree(cmd, f, &c, func(w io.Writer, v *tree) error {
		switch f.value {
		case formatJGF:
			return writeJGF(w, v.graph)
		case formatName:
			for _, n := range v.root.nodes() {
				fmt.Fprintf(w, "node/%s\n", n.Name)
			}
			return nil
		}
		for _, n := range v.root.nodes() {
			n.Status = cmp.Or(n.Status, ready)
		}
		return f.print(w, nodeList{nodeListKind, v.root.nodes()}, func(w io.Writer) error { return o.writeNodes(w, v, f.value == formatWide, !noHeaders) })
	})
	return cmd
}

func (o *options) graphCommand() *cobra.Command {
	c := choice{domains: true}
	var d drawing
	cmd := &cobra.Command{
		Use:   "graph [DOMAIN|NODE...]",
		Short: "Draw the cluster level by level: what is free, and where the groups are",
		Long: `Draw the cluster level by level, as in the scheduler's graph: how much of each resource is
free, and which groups have pods where, or seats for pods that do not exist yet. Nodes that the scheduler has chosen for pods that are
not bound yet count as free.

Nodes that are equal share a line. If the cluster has more than ` + fmt.Sprint(manyNodes) + ` nodes, the graph may end at an
outer level, so that it fits on a screen; --depth says where. DOMAIN is a domain of a level,
such as rack0 or rack/rack0. NODE may be a list such as node-[0000-0003].

With --at the scheduler's own code says what will be there: pods have ended at their deadlines, and those on nodes also after
their annotation ` + "`duration`" + `. Groups that would start now are on their nodes, and so are those that are promised
room by then.

-o svg prints a picture: a block for each domain of the innermost level, and in it a cell for
each node. -o jgf prints the graph itself in the JSON Graph Format of the Flux project. The
property "used" of each pool says how much of it is held.`,
		Example:           "  kubectl fluence graph\n  kubectl fluence graph rack0\n  kubectl fluence graph --depth rack\n  kubectl fluence graph --at 30m\n  kubectl fluence graph -o svg > cluster.svg",
		ValidArgsFunction: o.completeDomains,
	}
	cmd.Flags().StringVar(&d.depth, "depth", "", "the innermost level to draw: a level such as rack, or node; by default as deep as fits")
	cmd.Flags().StringVar(&c.at, "at", "", "draw the cluster as it will be at a time: a duration from now such as 30m, a time of today in UTC such as 15:04, or one of RFC 3339")
	cmd.Flags().BoolVar(&d.others, "others", false, "name the pods of other schedulers")
	if err := cmd.RegisterFlagCompletionFunc("depth", o.completeLevelTypes); err != nil {
		panic(err) // the flag was added right above
	}
	f := addOutputFlag(cmd, formatWide, formatJGF, formatSVG, formatJSONPath)
	o.addTree(cmd, f, &c, func(w io.Writer, v *tree) error {
		if !d.others {
			for _, n := range v.root.nodes() {
				n.OtherPods = nil
			}
		}
		switch f.value {
		case formatJGF:
			return writeJGF(w, v.graph)
		case formatSVG:
			return writeSVG(w, panel{title: clusterText(v), tree: v})
		}
		d.options, d.tree, d.wide = o, v, f.value == formatWide
		if err := d.validate(); err != nil {
			return err
		}
		return f.print(w, v.root, d.write)
	})
	return cmd
}

// addTree makes a command that reads a tree of the nodes that its flags and arguments choose, and prints it.
func (o *options) addTree(cmd *cobra.Command, f *outputFormat, c *choice, print func(io.Writer, *tree) error) {
	c.addFlag(cmd)
	watch := false
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "")
	cmd.Flags().Lookup("watch").Hidden = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		if watch {
			return fmt.Errorf("--watch: %s reads once; use: watch %s", cmd.CommandPath(), cmd.CommandPath())
		}
		c.names = args
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error {
			r, err := o.reader()
			if err != nil {
				return err
			}
			var at time.Time
			if c.at != "" {
				if at, err = parseAt(c.at, o.now()); err != nil {
					return err
				}
			}
			v, err := o.readTree(ctx, r, c.nodes, at)
			if err != nil {
				return err
			}
			o.notes(r.notes)
			return print(o.Out, v)
		})
	}
}

func writeJGF(w io.Writer, g *graph.Graph) error {
	text, err := g.JGF()
	if err != nil {
		return fmt.Errorf("encode the graph: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// writeNodes writes a table of the nodes.
func (o *options) writeNodes(w io.Writer, v *tree, wide, headers bool) error {
	resources := v.root.resources(wide)
	head := []string{"NODE"}
	for _, l := range v.levels {
		head = append(head, strings.ToUpper(l.Type))
	}
	head = append(head, o.paint(plain, "STATUS"))
	for _, r := range resources {
		head = append(head, o.paint(plain, strings.ToUpper(resourceName(r))+" FREE"))
	}
	rows := [][]string{append(head, o.paint(plain, "GROUPS"), "OTHERS")}
	for _, p := range v.root.nodes() {
		row := []string{p.Name}
		for _, l := range v.levels {
			row = append(row, cmp.Or(p.Domains[l.Type], "-"))
		}
		row = append(row, o.paint(p.colour(), cmp.Or(p.Status, ready)))
		for _, r := range resources {
			colour := plain
			if p.Size[r] > 0 && p.free(r) == 0 {
				colour = yellow
			}
			row = append(row, o.paint(colour, freeText(p, r)))
		}
		rows = append(rows, append(row, o.paint(green, cmp.Or(groupsText(p, wide), "-")), fmt.Sprint(p.Others)))
	}
	if !headers {
		rows = rows[1:]
	}
	return table(w, rows)
}

// colour returns the colour of a node's status.
func (p *treeNode) colour() paint {
	switch p.Status {
	case "", ready:
		return plain
	case exclusive, tainted:
		return yellow
	}
	return red
}

// maxGroups returns the number of groups that one line names. Zero means all.
func maxGroups(wide bool) int {
	if wide {
		return 0
	}
	return 3
}

// groupsText names the groups that have pods or seats on a node.
func groupsText(p *treeNode, wide bool) string {
	groups, seats := printable(counts(p.Groups, maxGroups(wide))), printable(counts(p.Seats, maxGroups(wide)))
	switch {
	case seats == "":
		return groups
	case groups == "":
		return "seats of " + seats
	}
	return groups + ", seats of " + seats
}

// freeText returns the free and the total amount of a resource.
func freeText(p *treeNode, r string) string {
	if _, ok := p.Size[r]; !ok {
		return "-"
	}
	return amount(r, p.free(r)) + "/" + amount(r, p.Size[r])
}

// freeTexts returns the free and the total amount of each resource. A resource that is used up is
// highlighted.
func (o *options) freeTexts(p *treeNode, resources []string) string {
	var parts []string
	for _, r := range resources {
		if p.Size[r] == 0 {
			continue
		}
		text := resourceName(r) + " " + freeText(p, r)
		if p.free(r) == 0 {
			text = o.paint(yellow, text)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
