package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// completeTargets completes one argument as completeGroups and completeJobs do.
func (o *options) completeTargets(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	groups, directive := o.completeGroups(cmd, args, begun)
	jobs, _ := o.completeJobs(cmd, args, begun)
	words := slices.Concat(groups, jobs)
	slices.Sort(words)
	return slices.Compact(words), directive
}

// completeGroups completes the owners of groups as kind/name, and PodGroups.
func (o *options) completeGroups(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return o.complete(cmd, begun, func(ctx context.Context, r *reader) ([]string, error) {
		groups, err := r.readGroups(ctx, r.namespace)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, pg := range groups {
			for _, owner := range pg.OwnerReferences {
				names = append(names, strings.ToLower(owner.Kind)+"/"+owner.Name)
			}
			names = append(names, shownName(pg.Name))
		}
		return names, nil
	})
}

// completeJobs completes the Jobs and pods of jobs in queues that have not ended, as kind/name.
func (o *options) completeJobs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return o.complete(cmd, begun, func(ctx context.Context, r *reader) ([]string, error) {
		jobs, err := r.readFluxJobs(ctx, r.namespace)
		var names []string
		for _, fj := range jobs {
			name := strings.ToLower(fj.Spec.Workload.Kind) + "/" + fj.Spec.Workload.Name
			if fj.Status.Phase != v1alpha1.Finished && !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
		return names, err
	})
}

// completeQueues completes the names of Queues.
func (o *options) completeQueues(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return o.complete(cmd, begun, func(ctx context.Context, r *reader) ([]string, error) {
		queues, err := r.readQueues(ctx)
		var names []string
		for _, q := range queues {
			names = append(names, q.Name)
		}
		return names, err
	})
}

// completeNodes completes the names of nodes.
func (o *options) completeNodes(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return o.complete(cmd, begun, func(ctx context.Context, r *reader) ([]string, error) {
		nodes, err := r.readNodes(ctx)
		var names []string
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		return names, err
	})
}

// completeDomains completes the domains of all levels, as LEVEL/NAME and NAME.
func (o *options) completeDomains(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return o.complete(cmd, begun, func(ctx context.Context, r *reader) ([]string, error) {
		levels, err := o.completedLevels(ctx, r)
		if err != nil {
			return nil, err
		}
		nodes, err := r.readNodes(ctx)
		var names []string
		for _, n := range nodes {
			for of, name := range domainsOf(n, levels) {
				names = append(names, name, of+"/"+name)
			}
		}
		return names, err
	})
}

// completeLevelTypes completes the levels of the graph.
func (o *options) completeLevelTypes(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return o.complete(cmd, begun, func(ctx context.Context, r *reader) ([]string, error) {
		levels, err := o.completedLevels(ctx, r)
		return (&tree{levels: levels}).depths(), err
	})
}

// completeLabelKeys completes the keys of node labels. Each of them could be a level.
func (o *options) completeLabelKeys(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	before, last := "", begun
	if i := strings.LastIndexByte(begun, ','); i >= 0 {
		before, last = begun[:i+1], begun[i+1:]
	}
	keys, directive := o.complete(cmd, last, func(ctx context.Context, r *reader) ([]string, error) {
		nodes, err := r.readNodes(ctx)
		var keys []string
		for _, n := range nodes {
			keys = append(keys, sortedKeys(n.Labels)...)
		}
		return keys, err
	})
	for i := range keys {
		keys[i] = before + keys[i]
	}
	return keys, directive
}

// completeNamespaces completes namespaces.
func (o *options) completeNamespaces(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return o.complete(cmd, begun, func(ctx context.Context, r *reader) ([]string, error) {
		objects, err := listAll(ctx, "namespaces", lister(r.client.CoreV1().Namespaces().List))
		var names []string
		for _, n := range ofType[*corev1.Namespace](objects) {
			names = append(names, n.Name)
		}
		return names, err
	})
}

// offered matches the words that a completion offers. The others are left out: the completion script of bash
// expands a word such as $(command), and users of the cluster choose the names of owners.
var offered = regexp.MustCompile(`^[A-Za-z0-9._/,:=-]+$`)

// complete returns the words that begin with what the user has typed, sorted, each once. What cannot be read
// completes nothing.
func (o *options) complete(cmd *cobra.Command, begun string, words func(context.Context, *reader) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	r, err := o.reader()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var found []string
	err = o.withTimeout(cmd.Context(), func(ctx context.Context) error {
		found, err = words(ctx, r)
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found = slices.DeleteFunc(found, func(w string) bool { return !strings.HasPrefix(w, begun) || !offered.MatchString(w) })
	slices.Sort(found)
	return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
}

func (o *options) completedLevels(ctx context.Context, r *reader) ([]translate.Level, error) {
	// The flags before the completed one are parsed twice, and a list of values is then there twice.
	var once []string
	for _, l := range o.levels {
		if !slices.Contains(once, l) {
			once = append(once, l)
		}
	}
	o.levels = once
	c, err := o.configuration(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.Levels()
}

func (r *reader) readNodes(ctx context.Context) ([]*corev1.Node, error) {
	objects, err := listAll(ctx, "nodes", lister(r.client.CoreV1().Nodes().List))
	return ofType[*corev1.Node](objects), err
}

// registerCompletions adds the completions of the flags that all commands have.
func (o *options) registerCompletions(cmd *cobra.Command) {
	for name, f := range map[string]cobra.CompletionFunc{
		"namespace": o.completeNamespaces, "scheduler-namespace": o.completeNamespaces, "topology-levels": o.completeLabelKeys,
		"color": cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
			panic(err) // the flags were added right above
		}
	}
}
