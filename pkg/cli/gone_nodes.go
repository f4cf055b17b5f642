package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// goneOf returns the nodes of a list that do not exist any more. It returns none if the user may not list nodes.
func (r *reader) goneOf(ctx context.Context, names []string) ([]string, error) {
	nodes, err := listAll(ctx, "nodes", lister(r.client.CoreV1().Nodes().List))
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	exists := map[string]bool{}
	for _, n := range ofType[*corev1.Node](nodes) {
		exists[n.Name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool { return exists[name] }), nil
}

// markGone sets the nodes of each group that do not exist any more. It reads the nodes once, if a group has any.
func (r *reader) markGone(ctx context.Context, rows []listedGroup) error {
	names := map[string]bool{}
	for i := range rows {
		for _, name := range rows[i].allNodes() {
			names[name] = true
		}
	}
	if len(names) == 0 {
		return nil
	}
	gone, err := r.goneOf(ctx, sortedKeys(names))
	for i := range rows {
		rows[i].gone = slices.DeleteFunc(rows[i].allNodes(), func(name string) bool { return !slices.Contains(gone, name) })
	}
	return err
}

// allNodes returns the nodes of the pods of a group, sorted. For a group that has finished these are the nodes on which its
// pods were, as far as the pods are still there.
func (g *listedGroup) allNodes() []string {
	if g.Status != statusFinished {
		return sortedKeys(g.Nodes)
	}
	on := map[string]bool{}
	for _, pod := range g.pods {
		if pod.Spec.NodeName != "" {
			on[pod.Spec.NodeName] = true
		}
	}
	return slices.Sorted(maps.Keys(on))
}

// nodesText returns the nodes of a group as the table shows them. Nodes that do not exist any more come last and are marked.
func (g *listedGroup) nodesText() string {
	var parts []string
	if there := slices.DeleteFunc(g.allNodes(), func(name string) bool { return slices.Contains(g.gone, name) }); len(there) > 0 {
		parts = append(parts, hosts(there, true))
	}
	for _, name := range g.gone {
		parts = append(parts, name+" (gone)")
	}
	return strings.Join(parts, ",")
}
