package chaos

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flux-k8s/fluence/test/stack"
)

// leakPatience is how long what is held may take to be given back when nothing is
// left, and PodGroups to go.
const leakPatience = 60 * time.Second

// perNode is added for each node to what bounds the last probe.
const perNode = 200 * time.Millisecond

// finish ends all faults, lets all come to rest, takes everything away and counts
// what is still held.
func (r *run) finish(ctx context.Context) error {
	if err := r.keeper.well(ctx); err != nil {
		return err
	}
	fmt.Fprintln(r.cfg.Log, "No more events; waiting for rest")
	settling, cancel := context.WithTimeout(ctx, r.cfg.Settle)
	defer cancel()
	if err := r.checker.Settle(settling); err != nil { // the groups are among the violations
		fmt.Fprintln(r.cfg.Log, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for rest: %w", err)
	}
	if err := r.audited(ctx); err != nil {
		return err
	}
	r.look(ctx)
	if err := r.clear(ctx); err != nil {
		return err
	}
	if err := r.restoreNodes(ctx); err != nil {
		return err
	}
	r.leaks = r.countLeaks(ctx)
	ending, cancel := context.WithTimeout(ctx, 2*r.cfg.Settle+time.Duration(r.cfg.Nodes)*perNode)
	defer cancel()
	if _, err := r.checker.End(ending); err != nil {
		return fmt.Errorf("ask for all room at once: %w", err)
	}
	r.look(ctx)
	return nil
}

const (
	// auditRounds is how many rounds of the audit begin and end at rest before all is
	// cleared, and auditTime how long that takes at the least: a difference has to last
	// before it is one.
	auditRounds = 2
	auditTime   = 8 * time.Second
	// auditPatience bounds the wait for them.
	auditPatience = 5 * time.Minute
)

// audited waits until every scheduler has compared its graph with the cluster as it
// is now, so that no drift is cleared away unseen.
func (r *run) audited(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	schedulers := []string{stack.Scheduler}
	if r.cfg.Standby {
		schedulers = append(schedulers, stack.StandbyScheduler)
	}
	begin, first := time.Now(), map[sample]float64{}
	left := ""
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		left = ""
		for _, name := range schedulers {
			rounds, err := r.stack.Metric(ctx, name, roundsMetric)
			// One that was started meanwhile counts anew.
			key := sample{r.stack.Process(name).PID(), roundsMetric}
			before, ok := first[key]
			if err == nil && !ok {
				first[key] = rounds
			}
			if err != nil || !ok || rounds < before+auditRounds {
				left = name
			}
		}
		return left == "" && time.Since(begin) >= auditTime, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s has compared its graph with the cluster: %w", left, err)
	}
	return nil
}

// clear deletes all groups and all foreign pods, and waits until no pod is left.
func (r *run) clear(ctx context.Context) error {
	if err := (drain{}).do(ctx, r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Settle)
	defer cancel()
	var left []string
	err := wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(ctx context.Context) (bool, error) {
		// What makes pods may have been at work still.
		for _, ns := range append(groupNamespaces(), foreignNamespace) {
			if err := r.clearNamespace(ctx, ns); err != nil {
				return false, err
			}
		}
		// By what the API server says, since a watch may have lost a deletion.
		var err error
		left, err = r.podsLeft(ctx)
		return len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait until no pod is left (%v are): %w", left[:min(len(left), 10)], err)
	}
	return nil
}

// podsLeft lists all pods, and what keeps them.
func (r *run) podsLeft(ctx context.Context) (left []string, err error) {
	err = r.try(ctx, func(ctx context.Context) error {
		pods, err := r.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		left = nil
		for _, p := range pods.Items {
			left = append(left, fmt.Sprintf("%s/%s on %q, deleted %v, finalizers %v", p.Namespace, p.Name, p.Spec.NodeName, p.DeletionTimestamp, p.Finalizers))
		}
		return nil
	})
	return left, err
}

// stuckAfter is how long a pod may be on its way out before its finalizers are taken
// off: the Job controller forgets some when its watches were down.
const stuckAfter = 30 * time.Second

// freeStuck takes the finalizers off pods whose owners are gone and that cannot go.
func (r *run) freeStuck(ctx context.Context, ns string) error {
	pods, err := r.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil || time.Since(p.DeletionTimestamp.Time) < stuckAfter || len(p.Finalizers) == 0 {
			continue
		}
		fmt.Fprintf(r.cfg.Log, "Pod %s/%s cannot go for its finalizers %v, which are taken off\n", ns, p.Name, p.Finalizers)
		_, err := r.client.CoreV1().Pods(ns).Patch(ctx, p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("take finalizers off pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// clearNamespace deletes all that makes pods, also what was created by a request
// whose answer got lost, and all pods.
func (r *run) clearNamespace(ctx context.Context, ns string) error {
	makers := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	pods := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	var none metav1.ListOptions
	for _, remove := range []func(context.Context) error{
		func(ctx context.Context) error {
			return r.client.BatchV1().Jobs(ns).DeleteCollection(ctx, makers, none)
		},
		func(ctx context.Context) error {
			return r.client.AppsV1().StatefulSets(ns).DeleteCollection(ctx, makers, none)
		},
		func(ctx context.Context) error {
			return r.client.AppsV1().Deployments(ns).DeleteCollection(ctx, makers, none)
		},
		func(ctx context.Context) error { return r.client.CoreV1().Pods(ns).DeleteCollection(ctx, pods, none) },
		func(ctx context.Context) error { return r.freeStuck(ctx, ns) },
	} {
		if err := r.try(ctx, remove); err != nil {
			return fmt.Errorf("clear namespace %s: %w", ns, err)
		}
	}
	return nil
}

func groupNamespaces() []string {
	var names []string
	for n := range namespaces {
		names = append(names, namespaceName(n))
	}
	return names
}

// countLeaks is how many jobs the sidecars still hold, and how many PodGroups
// there are, when there are no pods any more.
func (r *run) countLeaks(ctx context.Context) int {
	leaks := 0
	ctx, cancel := context.WithTimeout(ctx, leakPatience)
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		// Asked with what is left of the patience or not, the last answer counts.
		leaks = r.heldJobs(context.WithoutCancel(ctx)) + r.podGroupsLeft(context.WithoutCancel(ctx))
		return leaks == 0, nil
	})
	if leaks > 0 {
		fmt.Fprintf(r.cfg.Log, "Without any pod %d jobs are held, and %d PodGroups are left\n", r.heldJobs(context.WithoutCancel(ctx)), r.podGroupsLeft(context.WithoutCancel(ctx)))
	}
	return leaks
}

func (r *run) heldJobs(ctx context.Context) int {
	sidecars := []string{stack.Sidecar}
	if r.cfg.Standby {
		sidecars = append(sidecars, stack.StandbySidecar)
	}
	total := 0
	for _, name := range sidecars {
		jobs, err := r.stack.Metric(ctx, name, "fluence_sidecar_jobs")
		if err != nil {
			fmt.Fprintf(r.cfg.Log, "Asking %s what it holds: %v\n", name, err)
			total++ // what cannot be known is not nothing
		}
		total += int(jobs)
	}
	return total
}

func (r *run) podGroupsLeft(ctx context.Context) int {
	list, err := r.dynamic.Resource(podGroups).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintf(r.cfg.Log, "Listing PodGroups: %v\n", err)
		return 1
	}
	return len(list.Items)
}

// waitServiceAccount waits until a namespace has its service account.
func (r *run) waitServiceAccount(ctx context.Context, ns string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, giveUp, true, func(ctx context.Context) (bool, error) {
		_, err := r.client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait for the service account of namespace %s: %w", ns, err)
	}
	return nil
}
