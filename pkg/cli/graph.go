package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/pkg/reason"
	graph "github.com/flux-k8s/fluence/pkg/resource"
)

func (o *options) nodesCommand() *cobra.Command {
	return o.treeCommand(&cobra.Command{
		Use:     "nodes",
		Aliases: []string{"node"},
		Short:   "List the nodes: their topology, what is free, and the groups that have pods there",
		Example: "  kubectl fluence nodes\n  kubectl fluence nodes -o wide",
	}, func(v *tree) any { return v.root.nodes() }, o.writeNodes)
}

func (o *options) graphCommand() *cobra.Command {
	return o.treeCommand(&cobra.Command{
		Use:   "graph",
		Short: "Draw the cluster level by level: what is free, and where the groups are",
		Long: `Draw the cluster level by level, as in the scheduler's graph: how much of each resource is
free, and which groups have pods where, or seats for pods that do not exist yet. Nodes that the scheduler has chosen for pods that are
not bound yet count as free.

-o jgf prints the graph itself in the JSON Graph Format of the Flux project. The property
"used" of each pool says how much of it is held.`,
		Example: "  kubectl fluence graph\n  kubectl fluence graph --topology-levels topology.kubernetes.io/zone -o jgf",
	}, func(v *tree) any { return v.root }, o.writeGraph)
}

// treeCommand returns a command that shows a tree.
func (o *options) treeCommand(cmd *cobra.Command, value func(*tree) any, text func(io.Writer, *tree, bool) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	f := addOutputFlag(cmd, formatWide, formatJGF)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error {
			r, err := o.reader()
			if err != nil {
				return err
			}
			v, err := o.readTree(ctx, r)
			if err != nil {
				return err
			}
			o.notes(r.notes)
			if f.value == formatJGF {
				return writeJGF(o.Out, v.graph)
			}
			return f.print(o.Out, value(v), func(w io.Writer) error { return text(w, v, f.value == formatWide) })
		})
	}
	return cmd
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
func (o *options) writeNodes(w io.Writer, v *tree, wide bool) error {
	resources := v.root.resources(wide)
	head := []string{"NODE"}
	for _, l := range v.levels {
		head = append(head, strings.ToUpper(l.Type))
	}
	head = append(head, "STATUS")
	for _, r := range resources {
		head = append(head, strings.ToUpper(resourceName(r))+" FREE")
	}
	rows := [][]string{append(head, "GROUPS", "OTHERS")}
	var walk func(p *treeNode, above []string)
	walk = func(p *treeNode, above []string) {
		if p.Type != graph.TypeNode {
			if p != v.root {
				above = append(slices.Clone(above), p.Name)
			}
			for _, b := range p.Children {
				walk(b, above)
			}
			return
		}
		status := p.Status
		if status == "" {
			status = "Ready"
		}
		row := append(append([]string{p.Name}, above...), status)
		for _, r := range resources {
			row = append(row, freeText(p, r))
		}
		rows = append(rows, append(row, cmp.Or(groupsText(p, wide), "-"), fmt.Sprint(p.Others)))
	}
	walk(v.root, nil)
	return table(w, rows)
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
	groups, seats := counts(p.Groups, maxGroups(wide)), counts(p.Seats, maxGroups(wide))
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

// writeGraph draws the tree.
func (o *options) writeGraph(w io.Writer, v *tree, wide bool) error {
	resources := v.root.resources(wide)
	fmt.Fprintf(w, "%s, %s, free/total: %s\n", o.paint(bold, v.root.Name), reason.Plural(v.root.Nodes, "node"), o.freeTexts(v.root, resources))
	o.draw(w, v.root, "", resources, wide)
	return nil
}

func (o *options) draw(w io.Writer, p *treeNode, indent string, resources []string, wide bool) {
	for i, b := range p.Children {
		branch, below := "├─ ", "│  "
		if i == len(p.Children)-1 {
			branch, below = "└─ ", "   "
		}
		fmt.Fprintf(w, "%s%s\n", o.paint(dim, indent+branch), o.line(b, resources, wide))
		o.draw(w, b, indent+below, resources, wide)
	}
}

// line returns the line for a treeNode.
func (o *options) line(p *treeNode, resources []string, wide bool) string {
	if p.Type != graph.TypeNode {
		return fmt.Sprintf("%s %s, %s, free: %s", p.Type, o.paint(bold, p.Name), reason.Plural(p.Nodes, "node"), o.freeTexts(p, resources))
	}
	text := fmt.Sprintf("%s, free: %s", o.paint(bold, p.Name), o.freeTexts(p, resources))
	if p.Status != "" {
		text += "  " + o.paint(red, p.Status)
	}
	if g := groupsText(p, wide); g != "" {
		text += "  " + o.paint(green, g)
	}
	if wide && p.Others > 0 {
		text += "  other pods: " + fmt.Sprint(p.Others)
	}
	return text
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
