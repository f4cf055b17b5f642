package cli

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A groupFilter says which groups a list has.
type groupFilter struct {
	names    []target
	selector string
	statuses []string
	node     string
	priority string

	// mayBeGone is true if a name that names nothing is no error: it was there when a watch began.
	mayBeGone bool

	labels  labels.Selector
	atLeast func(int32) bool
}

// groupStatuses are the values of --status.
var groupStatuses = []string{statusWaiting, statusRunning, statusSuspended, statusIdle, statusTerminating, statusFinished}

// addFlags adds the flags of the filter.
func (f *groupFilter) addFlags(cmd *cobra.Command, completeNodes cobra.CompletionFunc) {
	flags := cmd.Flags()
	flags.StringVarP(&f.selector, "selector", "l", "", "list only groups with these labels, on the PodGroup or on a pod, such as app=solver")
	flags.StringSliceVar(&f.statuses, "status", nil, "list only groups that do this now: "+strings.Join(groupStatuses, ", "))
	flags.StringVar(&f.node, "node", "", "list only groups with pods on this node")
	flags.StringVar(&f.priority, "priority", "", "list only groups of this priority, such as 100 or '>=100'")
	for name, complete := range map[string]cobra.CompletionFunc{
		"status": cobra.FixedCompletions(groupStatuses, cobra.ShellCompDirectiveNoFileComp), "node": completeNodes,
	} {
		if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(err) // the flags were added right above
		}
	}
}

// isEmpty reports whether the filter keeps all groups.
func (f *groupFilter) isEmpty() bool {
	return len(f.names) == 0 && !f.hasFlags()
}

// hasFlags reports whether flags choose groups.
func (f *groupFilter) hasFlags() bool {
	return f.selector != "" || len(f.statuses) > 0 || f.node != "" || f.priority != ""
}

// comparison matches the value of --priority.
var comparison = regexp.MustCompile(`^(>=|<=|>|<|=)?\s*(-?\d+)$`)

// validate checks the values of the flags, and the names.
func (f *groupFilter) validate(names []string) (err error) {
	f.names = nil
	for _, name := range names {
		n, err := parseTarget(name)
		if err != nil {
			return err
		}
		f.names = append(f.names, n)
	}
	if f.labels, err = labels.Parse(f.selector); err != nil {
		return fmt.Errorf("--selector: %q: %w", f.selector, err)
	}
	for _, s := range f.statuses {
		if !slices.Contains(groupStatuses, s) {
			return fmt.Errorf("--status: %q: must be one of %s", s, strings.Join(groupStatuses, ", "))
		}
	}
	if f.priority == "" {
		f.atLeast = func(int32) bool { return true }
		return nil
	}
	parts := comparison.FindStringSubmatch(f.priority)
	if parts == nil {
		return fmt.Errorf("--priority: %q: must be a number, or a comparison such as '>=100'", f.priority)
	}
	n, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil {
		return fmt.Errorf("--priority: %q: must be a number of 32 bits", f.priority)
	}
	f.atLeast = func(p int32) bool {
		at := cmp.Compare(int64(p), n)
		switch parts[1] {
		case ">=":
			return at >= 0
		case "<=":
			return at <= 0
		case ">":
			return at > 0
		case "<":
			return at < 0
		}
		return at == 0
	}
	return nil
}

// keep returns the groups that the filter keeps. It returns an error if a name names nothing.
func (f *groupFilter) keep(ns *namespace, where string, all []listedGroup) ([]listedGroup, error) {
	named := map[types.NamespacedName]bool{}
	for _, n := range f.names {
		found := ns.candidates(n)
		if len(found) == 0 && !f.mayBeGone {
			return nil, ns.errNotFound(n, where)
		}
		for _, c := range found {
			for _, key := range c.keys(ns) {
				named[key] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(g listedGroup) bool {
		return len(f.names) > 0 && !named[g.key] || !f.keeps(&g)
	}), nil
}

// checkNode returns an error if there is no node of the name by which groups are chosen. A node that was deleted
// may still have pods. Without the right to read nodes any name is accepted.
func (r *reader) checkNode(ctx context.Context, g *groupsOptions, all []listedGroup) error {
	if g.node == "" || g.mayBeGone || slices.ContainsFunc(all, func(row listedGroup) bool { return row.Nodes[g.node] > 0 }) {
		return nil
	}
	nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: fieldselector.OneTermEqualSelector(metav1.ObjectNameField, g.node).String()})
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("list nodes: %w", err)
	case !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == g.node }):
		return fmt.Errorf("--node: %q: no node has this name; kubectl fluence nodes lists them all", g.node)
	}
	return nil
}

// keys returns the keys of the groups of an answer.
func (s *whyAnswer) keys(ns *namespace) []types.NamespacedName {
	if s.podGroup != nil {
		return []types.NamespacedName{keyOf(s.podGroup)}
	}
	var keys []types.NamespacedName
	for _, pod := range slices.Concat(s.members, s.toCome) {
		keys = append(keys, group.IdentityOf(pod, ns.ownersOf).Key)
	}
	return keys
}

// keeps reports whether the flags keep a group.
func (f *groupFilter) keeps(g *listedGroup) bool {
	labelled := f.labels.Empty() || g.podGroup != nil && f.labels.Matches(labels.Set(g.podGroup.Labels)) ||
		slices.ContainsFunc(g.pods, func(pod *corev1.Pod) bool { return f.labels.Matches(labels.Set(pod.Labels)) })
	return labelled && f.atLeast(g.Priority) && (len(f.statuses) == 0 || slices.ContainsFunc(f.statuses, g.does)) &&
		(f.node == "" || g.Nodes[f.node] > 0)
}

// does reports whether a group does what a value of --status says. A group that runs also waits while it has a place in
// the queue for more of its pods.
func (g *listedGroup) does(status string) bool {
	return g.Status == status || status == statusWaiting && g.Position > 0
}
