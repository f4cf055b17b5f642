package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	graph "github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

const (
	// manyNodes is the number of nodes above which the graph is drawn only as deep as fits.
	manyNodes = 64
	// maxLines is how many lines fit.
	maxLines = 48
)

// A drawing is how the tree is drawn as text.
type drawing struct {
	*options
	tree *tree
	// depth is the type of the innermost level that is drawn. If it is empty, the drawing is as deep as fits.
	depth string
	// others says that the pods of other schedulers are named.
	others bool
	// wide says that nothing is cut.
	wide      bool
	resources []string
}

// depths returns the types of the vertices that may be the innermost, the outermost first.
func (v *tree) depths() []string {
	var types []string
	for _, l := range v.levels {
		types = append(types, l.Type)
	}
	return append(types, graph.TypeNode)
}

func (d *drawing) validate() error {
	if types := d.tree.depths(); d.depth != "" && !slices.Contains(types, d.depth) {
		return fmt.Errorf("--depth: %q: must be one of %s", d.depth, strings.Join(types, ", "))
	}
	return nil
}

// write draws the tree.
func (d *drawing) write(w io.Writer) error {
	root := d.tree.root
	d.resources = root.resources(d.wide)
	fmt.Fprintf(w, "%s, %s, free/total: %s\n", d.paint(bold, root.Name), root.nodesText(), d.freeTexts(root, d.resources))
	_, err := w.Write(d.body())
	if f := d.tree.future; f != nil && err == nil {
		d.writeFuture(w, f, d.tree.at)
	}
	return err
}

// body draws what is below the cluster. If that is too long for a screen and the user did not ask for it, the
// drawing ends at an outer level. If even the outermost is too long, its last domains are left out.
func (d *drawing) body() []byte {
	root, limited := d.tree.root, d.depth == "" && d.tree.root.Nodes > manyNodes
	depths := d.tree.depths()
	if d.depth != "" {
		depths = []string{d.depth}
	}
	var b bytes.Buffer
	for _, depth := range slices.Backward(depths) {
		b.Reset()
		d.draw(&b, root, "", depth)
		if !limited {
			return b.Bytes()
		}
		if bytes.Count(b.Bytes(), []byte("\n")) <= maxLines {
			if depth != graph.TypeNode {
				d.notes([]string{fmt.Sprintf("drawn down to the level %s: --depth node draws all nodes, and kubectl fluence graph %s/NAME a part of them", depth, depth)})
			}
			return b.Bytes()
		}
	}
	lines := bytes.SplitAfter(b.Bytes(), []byte("\n"))
	d.notes([]string{fmt.Sprintf("%d lines are left out: --depth %s draws them", len(lines)-1-maxLines, depths[0])})
	return bytes.Join(lines[:maxLines], nil)
}

// A branch is one line of the drawing: a domain, a node, or several that are equal.
type branch struct {
	names []string
	at    *treeNode
	text  string
}

// branches returns the lines right below a vertex. Equal nodes, and equal domains at the innermost level, share one.
func (d *drawing) branches(p *treeNode, depth string) []branch {
	var all []branch
	index := map[string]int{}
	for _, c := range p.Children {
		text := d.properties(c)
		if i, found := index[text]; found && (c.Type == graph.TypeNode || c.Type == depth) {
			all[i].names = append(all[i].names, c.Name)
			continue
		}
		index[text] = len(all)
		all = append(all, branch{names: []string{c.Name}, at: c, text: text})
	}
	return all
}

func (d *drawing) draw(w io.Writer, p *treeNode, indent, depth string) {
	branches := d.branches(p, depth)
	for i, b := range branches {
		line, below := "├─ ", "│  "
		if i == len(branches)-1 {
			line, below = "└─ ", "   "
		}
		fmt.Fprintf(w, "%s%s\n", d.paint(dim, indent+line), d.line(b))
		if b.at.Type != depth {
			d.draw(w, b.at, indent+below, depth)
		}
	}
}

// line returns the line of a branch.
func (d *drawing) line(b branch) string {
	name, each := d.paint(bold, hosts(b.names, d.wide)), ""
	if len(b.names) > 1 {
		each = "each "
	}
	switch {
	case b.at.Type != graph.TypeNode && b.names[0] == translate.Unlabelled:
		name = "outside of any " + b.at.Type
	case b.at.Type != graph.TypeNode:
		name = b.at.Type + " " + name
	case each != "":
		name = fmt.Sprintf("%s, %d nodes", name, len(b.names))
	}
	return name + ", " + each + b.text
}

// properties returns what a line says of a vertex, besides its name.
func (d *drawing) properties(p *treeNode) string {
	text := "free: " + d.freeTexts(p, d.resources)
	if p.Type != graph.TypeNode {
		text = p.nodesText() + ", " + text
	}
	if p.Status != "" {
		text += "  " + d.paint(p.colour(), p.Status)
	}
	if g := groupsText(p, d.wide); g != "" {
		text += "  " + d.paint(green, g)
	}
	switch {
	case d.others && len(p.OtherPods) > 0:
		text += "  other pods: " + printable(strings.Join(p.OtherPods, ", "))
	case (d.wide || d.others) && p.Others > 0:
		text += "  other pods: " + fmt.Sprint(p.Others)
	}
	return text
}
