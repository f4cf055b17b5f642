package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// chooseNodes chooses the nodes that a command shows.
type chooseNodes func([]*corev1.Node, []translate.Level) ([]*corev1.Node, error)

// A choice says which nodes a user wants to see. The zero choice has all nodes.
type choice struct {
	// selector is a label selector.
	selector string
	// names are nodes, as NAME, node/NAME or a list of hosts such as node-[0-3], and with domains also
	// domains, as NAME or LEVEL/NAME.
	names   []string
	domains bool
	// at is the value of the flag --at. It is empty for now.
	at string
}

func (c *choice) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.selector, "selector", "l", "", "show only the nodes whose labels match, as in kubectl get -l")
}

// nodes returns the chosen nodes. It fails if one of the names chooses none.
func (c *choice) nodes(all []*corev1.Node, levels []translate.Level) ([]*corev1.Node, error) {
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %q: %w", c.selector, err)
	}
	matching := slices.DeleteFunc(slices.Clone(all), func(n *corev1.Node) bool { return !selector.Matches(labels.Set(n.Labels)) })
	if len(c.names) == 0 {
		return matching, nil
	}
	chosen := map[string]bool{}
	for _, name := range c.names {
		names, err := c.matcher(name, levels)
		if err != nil {
			return nil, err
		}
		found := false
		for _, n := range matching {
			if names(n) {
				chosen[n.Name], found = true, true
			}
		}
		switch {
		case found:
		case c.domains:
			return nil, fmt.Errorf("%q: no node has this name, and no domain of the levels%s; kubectl fluence graph shows them all", name, typesOf(levels))
		default:
			return nil, fmt.Errorf("%q: no node has this name; kubectl fluence nodes lists them all, and kubectl fluence graph takes domains", name)
		}
	}
	return slices.DeleteFunc(matching, func(n *corev1.Node) bool { return !chosen[n.Name] }), nil
}

// matcher returns whether a node is chosen by a name.
func (c *choice) matcher(name string, levels []translate.Level) (func(*corev1.Node) bool, error) {
	kind, rest, typed := strings.Cut(name, "/")
	if typed && strings.TrimSuffix(strings.ToLower(kind), "s") != "node" {
		i := slices.IndexFunc(levels, func(l translate.Level) bool { return l.Type == kind })
		if !c.domains || i < 0 {
			return nil, fmt.Errorf("%q: %q is not a level%s", name, kind, typesOf(levels))
		}
		return func(n *corev1.Node) bool { return n.Labels[levels[i].Key] == rest }, nil
	}
	if !typed {
		rest = name
	}
	list, err := hostlist.Parse(rest)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	const most = 100_000
	if list.Len(most) >= most {
		return nil, fmt.Errorf("%q: has %d names or more", name, most)
	}
	names := map[string]bool{}
	for n := range list.Names() {
		names[n] = true
	}
	return func(n *corev1.Node) bool {
		return names[n.Name] || c.domains && !typed && slices.ContainsFunc(levels, func(l translate.Level) bool { return rest != "" && n.Labels[l.Key] == rest })
	}, nil
}

// typesOf names levels in parentheses.
func typesOf(levels []translate.Level) string {
	if len(levels) == 0 {
		return " (none is configured)"
	}
	var types []string
	for _, l := range levels {
		types = append(types, l.Type)
	}
	return " (" + strings.Join(types, ", ") + ")"
}
