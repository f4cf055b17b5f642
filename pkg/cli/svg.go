package cli

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/reason"
	graph "github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A panel is one map of the cluster in a picture.
type panel struct {
	title string
	tree  *tree
	// marked are the groups whose nodes are framed.
	marked map[string]bool
}

// The colours of a picture. It has a background of its own, so that it looks the same on light and dark pages.
const (
	backgroundColour = "#22272e"
	textColour       = "#dee4ea"
	faintColour      = "#8b98a5"
	freeColour       = "#39424e"
	closedColour     = "#8a8a8a"
	othersColour     = "#a9b4c0"
	markColour       = "#ffd33d"
)

// Sizes in a picture, in pixels.
const (
	margin     = 16
	gap        = 3
	lineHeight = 20
	// letter is about the width of a letter at the size of the text.
	letter = 7
	// minWidth is the width that the legend has at least.
	minWidth = 560
	// maxLegend is how many groups the legend names.
	maxLegend = 20
	// maxLabel bounds a name in the picture, in letters.
	maxLabel = 60
)

// A picture is a map of a cluster in SVG 1.1. It is built as text, top down, with all names escaped.
type picture struct {
	b       bytes.Buffer
	colours map[string]string
	// cell is the size of a node, and width the most that a panel may have.
	cell, width int
	// y is where the next line begins.
	y int
}

// writeSVG draws panels side by side, with one legend. Equal trees give equal bytes.
func writeSVG(w io.Writer, panels ...panel) error {
	p := &picture{colours: coloursOf(panels), cell: 12, width: 960}
	nodes := 0
	for _, panel := range panels {
		nodes = max(nodes, panel.tree.root.Nodes)
	}
	switch {
	case nodes <= manyNodes:
		p.cell = 30
	case nodes <= 6*manyNodes:
		p.cell = 18
	}
	if len(panels) > 1 {
		p.width = 600
	}
	x, right, bottom := margin, 0, 0
	for _, panel := range panels {
		p.y = margin
		right = max(right, p.drawPanel(x, panel))
		x, bottom = right+2*margin, max(bottom, p.y)
	}
	p.y = bottom + lineHeight/2
	right = max(right, minWidth)
	p.drawLegend(panels, right)
	width := right + margin
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12">
<defs><pattern id="kept" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2.5" height="5" fill="%[3]s"/></pattern></defs>
<rect width="%[1]d" height="%[2]d" rx="6" fill="%[3]s"/>
%[4]s</svg>
`, width, p.y+margin, backgroundColour, p.b.Bytes())
	return err
}

// coloursOf gives each group of the panels a colour, by the order of their names. The hues of neighbours differ by
// the golden angle, so that few groups have colours far apart.
func coloursOf(panels []panel) map[string]string {
	groups := map[string]string{}
	for _, p := range panels {
		for _, of := range []map[string]int{p.tree.root.Groups, p.tree.root.Seats} {
			for g := range of {
				groups[g] = ""
			}
		}
	}
	for i, g := range sortedKeys(groups) {
		groups[g] = hue(math.Mod(210+float64(i)*137.508, 360), 0.50-0.12*float64(i/12%3), 0.62)
	}
	return groups
}

// hue returns a colour of the HSL model as #rrggbb.
func hue(degrees, saturation, lightness float64) string {
	channel := func(n float64) int {
		k := math.Mod(n+degrees/30, 12)
		c := lightness - saturation*min(lightness, 1-lightness)*max(-1, min(k-3, 9-k, 1))
		return int(math.Round(c * 255))
	}
	return fmt.Sprintf("#%02x%02x%02x", channel(0), channel(8), channel(4))
}

// text writes a line of text. It is cut after maxLabel letters, or fewer.
func (p *picture) text(x, y int, colour, text string, most int) {
	fmt.Fprintf(&p.b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", x, y, colour, escaped(cut(text, most)))
}

// cut cuts a text to some letters.
func cut(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return string(letters[:max(0, most-1)]) + "…"
}

// escaped returns a text for use in XML, in elements and in attributes. What XML 1.0 cannot have is replaced.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes all
	return b.String()
}

// drawPanel draws the map of a cluster from x on, and returns where it ends on the right.
func (p *picture) drawPanel(x int, of panel) int {
	p.y += lineHeight / 2
	p.text(x, p.y, textColour, of.title, p.width/letter)
	p.y += lineHeight
	return max(p.drawDomain(x, of.tree.root, nil, of.marked), x+len([]rune(cut(of.title, p.width/letter)))*letter)
}

// drawDomain draws what is below a vertex: the blocks of the innermost level in rows, and before them the names of the
// levels above.
func (p *picture) drawDomain(x int, at *treeNode, above []string, marked map[string]bool) int {
	if len(at.Children) == 0 {
		return x
	}
	if at.Children[0].Type == graph.TypeNode {
		// There are no levels, so the cluster is one block.
		return p.drawBlocks(x, []*treeNode{at}, marked)
	}
	if innermost := at.Children[0].Children; len(innermost) > 0 && innermost[0].Type == graph.TypeNode {
		if len(above) > 0 {
			p.text(x, p.y, textColour, strings.Join(above, ", "), p.width/letter)
			p.y += lineHeight - 4
		}
		return p.drawBlocks(x, at.Children, marked)
	}
	right := x
	for _, c := range at.Children {
		right = max(right, p.drawDomain(x, c, append(slices.Clone(above), domainText(c)), marked))
	}
	return right
}

// domainText names a domain in words.
func domainText(p *treeNode) string {
	switch {
	case p.Type == graph.TypeCluster:
		return ""
	case p.Name == translate.Unlabelled:
		return "outside of any " + p.Type
	}
	return p.Type + " " + p.Name
}

// drawBlocks draws domains with their nodes in rows, and returns where they end on the right.
func (p *picture) drawBlocks(x int, domains []*treeNode, marked map[string]bool) int {
	left, right, height := x, x, 0
	pitch := p.cell + gap
	for _, d := range domains {
		columns := len(d.Children)
		if columns > 4 {
			columns = min(int(math.Ceil(math.Sqrt(float64(columns)))), p.width/pitch)
		}
		label := domainText(d)
		width := columns * pitch
		if len(domains) <= 2*manyNodes && width < 9*letter {
			width = 9 * letter // so that there is room for a name
		}
		if left > x && left+width > x+p.width {
			p.y += height + lineHeight/2
			left, height = x, 0
		}
		p.text(left, p.y, faintColour, label, width/letter)
		for i, n := range d.Children {
			p.drawNode(left+i%columns*pitch, p.y+6+i/columns*pitch, n, marked)
		}
		height = max(height, 6+(len(d.Children)+columns-1)/columns*pitch+lineHeight/2)
		left += width + 4*gap
		right = max(right, left-4*gap)
	}
	p.y += height + lineHeight/2
	return right
}

// drawNode draws a node: who holds how much of its dominant resource, from the bottom up.
func (p *picture) drawNode(x, y int, n *treeNode, marked map[string]bool) {
	background := freeColour
	closed := n.unschedulable() && n.Status != exclusive || n.has(tainted)
	if closed {
		background = closedColour
	}
	fmt.Fprintf(&p.b, `<g><title>%s</title><rect x="%d" y="%d" width="%d" height="%[4]d" fill="%s"/>`, escaped(nodeText(n)), x, y, p.cell, background)
	resource := n.dominant()
	from := 0.0
	segment := func(a translate.Amounts, colour string, kept bool) {
		share := float64(a[resource]) / float64(max(1, n.Size[resource]))
		if share = min(share, 1-from); share <= 0 {
			return
		}
		height := share * float64(p.cell)
		at := fmt.Sprintf(`x="%d" y="%.1f" width="%d" height="%.1f"`, x, float64(y)+float64(p.cell)*(1-from)-height, p.cell, height)
		fmt.Fprintf(&p.b, `<rect %s fill="%s"/>`, at, colour)
		if kept {
			fmt.Fprintf(&p.b, `<rect %s fill="url(#kept)"/>`, at)
		}
		from += share
	}
	frame := ""
	for _, g := range sortedKeys(n.holders.pods) {
		segment(n.holders.pods[g], p.colours[g], false)
		if marked[g] {
			frame = markColour
		}
	}
	segment(n.holders.others, othersColour, false)
	for _, g := range sortedKeys(n.holders.seats) {
		segment(n.holders.seats[g], p.colours[g], true)
	}
	if n.has(exclusive) {
		fmt.Fprintf(&p.b, `<rect x="%d.5" y="%d.5" width="%d" height="%[3]d" fill="none" stroke="#ffffff" stroke-width="2"/>`, x, y, p.cell-1)
	}
	if frame != "" {
		fmt.Fprintf(&p.b, `<rect x="%d" y="%d" width="%d" height="%[3]d" fill="none" stroke="%[4]s" stroke-width="2"/>`, x-1, y-1, p.cell+2, frame)
	}
	p.b.WriteString("</g>\n")
}

// dominant returns the resource of which the largest share of a node is held, except its number of pods.
func (p *treeNode) dominant() string {
	best, most := translate.TypeCore, -1.0
	for _, r := range p.Size.Types() {
		if r == translate.TypePods || p.Size[r] == 0 {
			continue
		}
		if share := float64(p.Used[r]) / float64(p.Size[r]); share > most || share == most && r == translate.TypeCore {
			best, most = r, share
		}
	}
	return best
}

// nodeText says in words what is on a node.
func nodeText(n *treeNode) string {
	text := fmt.Sprintf("%s: %s, free: cpu %s, memory %s", n.Name, cmp.Or(n.Status, "Ready"), freeText(n, translate.TypeCore), freeText(n, translate.TypeMemory))
	if g := groupsText(n, false); g != "" {
		text += "; " + g
	}
	if n.Others > 0 {
		text += fmt.Sprintf("; other pods: %d", n.Others)
	}
	return text
}

// A legendEntry explains a colour.
type legendEntry struct {
	text, colour  string
	kept, outline bool
}

// legend explains the colours that the panels have: those of the largest groups, and what else there is.
func (p *picture) legend(panels []panel) []legendEntry {
	pods, others, kept, closed, whole := map[string]int{}, false, false, false, false
	marked := map[string]bool{}
	for _, of := range panels {
		for g := range of.marked {
			marked[g] = true
		}
		for g, n := range of.tree.root.Groups {
			pods[g] = max(pods[g], n)
		}
		for g := range of.tree.root.Seats {
			pods[g] = max(pods[g], 0)
			kept = true
		}
		for _, n := range of.tree.root.nodes() {
			others = others || n.Others > 0
			whole = whole || n.has(exclusive)
			closed = closed || n.unschedulable() && n.Status != exclusive || n.has(tainted)
		}
	}
	var entries []legendEntry
	groups := slices.SortedFunc(slices.Values(sortedKeys(pods)), func(a, b string) int {
		return cmp.Or(cmp.Compare(pods[b], pods[a]), cmp.Compare(a, b))
	})
	for _, g := range groups[:min(len(groups), maxLegend)] {
		text := g + ": " + reason.Plural(pods[g], "pod")
		if marked[g] {
			text += " (new)"
		}
		entries = append(entries, legendEntry{text: text, colour: p.colours[g]})
	}
	if more := len(groups) - maxLegend; more > 0 {
		entries = append(entries, legendEntry{text: fmt.Sprintf("and %s", reason.Plural(more, "more group")), colour: backgroundColour})
	}
	entries = append(entries, legendEntry{text: "free", colour: freeColour})
	for _, e := range []struct {
		there bool
		legendEntry
	}{
		{others, legendEntry{text: "pods of other schedulers", colour: othersColour}},
		{kept, legendEntry{text: "kept for pods to come", colour: othersColour, kept: true}},
		{closed, legendEntry{text: "cordoned, tainted or not ready", colour: closedColour}},
		{whole, legendEntry{text: "held as a whole", colour: freeColour, outline: true}},
	} {
		if e.there {
			entries = append(entries, e.legendEntry)
		}
	}
	return entries
}

// drawLegend draws the legend in rows up to the given width.
func (p *picture) drawLegend(panels []panel, width int) {
	x := margin
	for _, e := range p.legend(panels) {
		text := cut(e.text, maxLabel)
		if wide := 18 + (len([]rune(text))+3)*letter; x > margin && x+wide > width {
			x, p.y = margin, p.y+lineHeight
		}
		fmt.Fprintf(&p.b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/>`, x, p.y, e.colour)
		if e.kept {
			fmt.Fprintf(&p.b, `<rect x="%d" y="%d" width="12" height="12" fill="url(#kept)"/>`, x, p.y)
		}
		if e.outline {
			fmt.Fprintf(&p.b, `<rect x="%d" y="%d" width="11" height="11" fill="none" stroke="#ffffff" stroke-width="2"/>`, x, p.y)
		}
		p.text(x+18, p.y+11, textColour, text, maxLabel)
		x += 18 + (len([]rune(text))+3)*letter
	}
	p.y += lineHeight
}

// clusterText is the title of a map: how many nodes there are, and what is free.
func clusterText(v *tree) string {
	root := v.root
	nodes := reason.Plural(root.Nodes, "node")
	if root.Nodes != v.all {
		nodes = fmt.Sprintf("%d of %s", root.Nodes, reason.Plural(v.all, "node"))
	}
	var free []string
	for _, r := range root.resources(false) {
		if root.Size[r] > 0 {
			free = append(free, resourceName(r)+" "+freeText(root, r))
		}
	}
	return fmt.Sprintf("%s, free/total: %s", nodes, strings.Join(free, ", "))
}
