package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	graph "github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A clusterAnswer is the cluster on one screen.
type clusterAnswer struct {
	Nodes     nodeCounts      `json:"nodes"`
	Resources []resourceTotal `json:"resources"`
	Levels    []levelCounts   `json:"levels"`
	// Groups is nil if PodGroups could not be read.
	Groups *groupCounts `json:"groups,omitempty"`
	// First is the group with place 1 in the queue. It may run while more of its pods wait. Oldest is the waiting
	// group that was created first.
	First  *groupSummary `json:"first,omitempty"`
	Oldest *groupSummary `json:"oldest,omitempty"`
	// Largest are the running groups with the most pods on nodes, the largest first.
	Largest []groupSummary `json:"largest,omitempty"`
}

// nodeCounts counts nodes.
type nodeCounts struct {
	Total int `json:"total"`
	// Status counts nodes by status: Ready, Exclusive, and what keeps pods away. A node may have several.
	Status map[string]int `json:"status"`
	// Full is the number of nodes that take pods and have no cpu or no memory left, Partial the number of those
	// that hold pods of groups and have some left, and Empty the number of those without groups. Closed is the
	// number of nodes that take no pods of further groups.
	Full    int `json:"full"`
	Partial int `json:"partial"`
	Empty   int `json:"empty"`
	Closed  int `json:"closed"`
}

// resourceTotal is who holds how much of a resource, as quantities of Kubernetes.
type resourceTotal struct {
	Name string `json:"name"`
	// Total is Free, Groups, Seats, Others and Closed together, unless a node is charged more than it has.
	Total  string `json:"total"`
	Free   string `json:"free"`
	Groups string `json:"byGroups"`
	Seats  string `json:"bySeats"`
	Others string `json:"byOthers"`
	// Closed is what is free on nodes that take no pods of further groups.
	Closed string `json:"closed"`
	// row is the same as the text shows it.
	row []string
}

// levelCounts counts the domains of a level.
type levelCounts struct {
	Type string `json:"type"`
	// Label is the node label of the level.
	Label   string `json:"label"`
	Domains int    `json:"domains"`
	// Full is the number of domains without free cpu, and Empty the number of those without groups.
	Full  int `json:"full"`
	Empty int `json:"empty"`
	// Outside is the number of nodes without the label.
	Outside int `json:"outside,omitempty"`
}

// groupCounts counts groups, single pods among them.
type groupCounts struct {
	Status map[string]int `json:"status"`
	// Reasons counts the groups that wait, by reason.
	Reasons map[string]int `json:"reasons"`
}

// maxLargest is how many of the largest groups are shown.
const maxLargest = 3

func (o *options) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cluster",
		Short:   "Show the whole cluster on one screen: nodes, who holds what, levels, and the queue",
		Example: "  kubectl fluence cluster\n  kubectl fluence cluster -o jsonpath='{.nodes.empty}'",
		Args:    cobra.NoArgs,
	}
	f := addOutputFlag(cmd, formatJSONPath)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error {
			r, err := o.reader()
			if err != nil {
				return err
			}
			v, err := o.readTree(ctx, r, (&choice{}).nodes, time.Time{})
			if err != nil {
				return err
			}
			all := &groupsOptions{format: &outputFormat{}, all: true, sortBy: byPosition}
			if err := all.validate(nil); err != nil {
				return err
			}
			a := clusterAnswerOf(v)
			if !v.namespaces.groupsUnreadable {
				groups, err := o.rowsOf(ctx, r, v.namespaces, true, all)
				if err != nil {
					return err
				}
				a.addGroups(groups)
			}
			o.notes(r.notes)
			return f.print(o.Out, a, func(w io.Writer) error { return o.writeCluster(w, a) })
		})
	}
	return cmd
}

func clusterAnswerOf(v *tree) *clusterAnswer {
	a := &clusterAnswer{Nodes: countNodes(v.root.nodes()), Resources: v.root.totals(), Levels: []levelCounts{}}
	domains := []*treeNode{v.root}
	for _, l := range v.levels {
		c := levelCounts{Type: l.Type, Label: l.Key}
		var below []*treeNode
		for _, d := range domains {
			below = append(below, d.Children...)
		}
		domains = below
		for _, d := range domains {
			switch {
			case d.Name == translate.Unlabelled:
				c.Outside += d.Nodes
				continue
			case d.free(translate.TypeCore) == 0:
				c.Full++
			case len(d.Groups)+len(d.Seats) == 0:
				c.Empty++
			}
			c.Domains++
		}
		a.Levels = append(a.Levels, c)
	}
	return a
}

// countNodes counts nodes by what they do.
func countNodes(nodes []*treeNode) nodeCounts {
	c := nodeCounts{Total: len(nodes), Status: map[string]int{}}
	for _, n := range nodes {
		for status := range strings.SplitSeq(cmp.Or(n.Status, "Ready"), ",") {
			c.Status[status]++
		}
		switch {
		case n.unschedulable():
			c.Closed++
		case n.free(translate.TypeCore) == 0 || n.Size[translate.TypeMemory] > 0 && n.free(translate.TypeMemory) == 0:
			c.Full++
		case len(n.Groups)+len(n.Seats) > 0:
			c.Partial++
		default:
			c.Empty++
		}
	}
	return c
}

// totals returns who holds how much of each resource.
func (p *treeNode) totals() []resourceTotal {
	groups, seats, others := translate.Amounts{}, translate.Amounts{}, translate.Amounts{}
	for _, n := range p.nodes() {
		for _, a := range n.holders.pods {
			groups.Add(a)
		}
		for _, a := range n.holders.seats {
			seats.Add(a)
		}
		others.Add(n.holders.others)
	}
	totals := []resourceTotal{}
	for _, r := range p.resources(false) {
		if p.Size[r] == 0 {
			continue
		}
		text := func(n int64) string {
			q := quantities(translate.Amounts{r: n})[corev1.ResourceName(resourceName(r))]
			return q.String()
		}
		row := []string{resourceName(r)}
		for _, n := range []int64{p.Size[r], p.free(r), groups[r], seats[r], others[r], p.Unschedulable[r]} {
			row = append(row, amount(r, n))
		}
		totals = append(totals, resourceTotal{
			row:  row,
			Name: resourceName(r), Total: text(p.Size[r]), Free: text(p.free(r)), Groups: text(groups[r]), Seats: text(seats[r]), Others: text(others[r]), Closed: text(p.Unschedulable[r]),
		})
	}
	return totals
}

// addGroups adds what the groups do. They are in the order of the queue.
func (a *clusterAnswer) addGroups(groups []listedGroup) {
	a.Groups = &groupCounts{Status: map[string]int{}, Reasons: map[string]int{}}
	var running []groupSummary
	for _, l := range groups {
		g := l.groupSummary
		a.Groups.Status[g.Status]++
		if g.Status == statusRunning {
			running = append(running, g)
		}
		if a.First == nil && g.Position > 0 {
			a.First = &g
		}
		if g.Status != statusWaiting {
			continue
		}
		a.Groups.Reasons[cmp.Or(g.WaitingFor, "none yet")]++
		if a.Oldest == nil || g.Created.Before(&a.Oldest.Created) {
			a.Oldest = &g
		}
	}
	slices.SortStableFunc(running, func(a, b groupSummary) int { return cmp.Compare(b.Bound, a.Bound) })
	a.Largest = running[:min(len(running), maxLargest)]
	for _, g := range []*groupSummary{a.First, a.Oldest} {
		if g != nil {
			g.Nodes, g.Seats = nil, nil
		}
	}
	for i := range a.Largest {
		a.Largest[i].Nodes, a.Largest[i].Seats = nil, nil
	}
}

// writeCluster writes the answer in at most 24 lines of 80 columns, as long as there are few levels and resources.
func (o *options) writeCluster(w io.Writer, a *clusterAnswer) error {
	n := a.Nodes
	fmt.Fprintf(w, "%s\n", o.paint(bold, fmt.Sprintf("%s: %d empty, %d partly used, %d full, %d closed", reason.Plural(n.Total, graph.TypeNode), n.Empty, n.Partial, n.Full, n.Closed)))
	fmt.Fprintf(w, "  status: %s\n", dash(counts(n.Status, 0)))
	for _, l := range a.Levels {
		outside := ""
		if l.Outside > 0 {
			outside = fmt.Sprintf("; %s outside", reason.Plural(l.Outside, "node"))
		}
		fmt.Fprintf(w, "  level %s (%s): %s, %d empty, %d full%s\n", l.Type, l.Label, reason.Plural(l.Domains, "domain"), l.Empty, l.Full, outside)
	}
	rows := [][]string{{"RESOURCE", "TOTAL", "FREE", "GROUPS", "SEATS", "OTHERS", "CLOSED"}}
	for _, r := range a.Resources {
		rows = append(rows, r.row)
	}
	fmt.Fprintln(w)
	if err := table(w, rows); err != nil || a.Groups == nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", o.paint(bold, "Groups of all namespaces: "+cmp.Or(counts(a.Groups.Status, 0), "none")))
	if len(a.Groups.Reasons) > 0 {
		fmt.Fprintf(w, "  waiting for: %s\n", printable(counts(a.Groups.Reasons, 5)))
	}
	line := func(which string, g *groupSummary) {
		pods, lasts := reason.Plural(int(g.Size), "pod"), "since "+o.age(g.Created)
		if g.Status == statusRunning {
			// It is older than its wait.
			pods, lasts = fmt.Sprintf("%d of %s waiting", g.Pending, pods), "for "+lasted(g.WaitSeconds)
		}
		fmt.Fprintf(w, "  %s: %s, %s, priority %d, %s: %s\n", which, groupText(g), pods, g.Priority, lasts, cmp.Or(printable(g.WaitingFor), "no reason yet"))
	}
	same := a.First != nil && a.Oldest != nil && a.First.Namespace == a.Oldest.Namespace && a.First.Name == a.Oldest.Name
	switch {
	case same:
		line("first and oldest", a.First)
	case a.First != nil:
		line("first in the queue", a.First)
	}
	if a.Oldest != nil && !same {
		line("oldest", a.Oldest)
	}
	if len(a.Largest) > 0 {
		var texts []string
		for _, g := range a.Largest {
			texts = append(texts, fmt.Sprintf("%s (%s)", groupText(&g), reason.Plural(int(g.Bound), "pod")))
		}
		fmt.Fprintf(w, "  largest: %s\n", strings.Join(texts, ", "))
	}
	return nil
}

// groupText names a group with its namespace.
func groupText(g *groupSummary) string { return printableName(g.workload()) + " of " + g.Namespace }
