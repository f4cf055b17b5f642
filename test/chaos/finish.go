package chaos

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flux-k8s/fluence/test/stack"
)

// leakPatience is how long it may take, after everything is deleted,
// until all resources are released and all PodGroups are gone.
const leakPatience = 60 * time.Second

// perNode is added to the time limit of the last probe for each node.
const perNode = 200 * time.Millisecond

// finish ends all faults, waits for rest, deletes everything, and counts what is still held.
func (r *run) finish(ctx context.Context) error {
	if err := r.keeper.well(ctx); err != nil {
		return err
	}
	fmt.Fprintln(r.cfg.Log, "No more events; waiting for rest")
	settling, cancel := context.WithTimeout(ctx, r.cfg.Settle)
	defer cancel()
	if err := r.checker.Settle(settling); err != nil { // the violations name the groups
		fmt.Fprintln(r.cfg.Log, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for rest: %w", err)
	}
	r.comeTrue(ctx)
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
	// auditRounds is the number of rounds of the audit that must run
	// from beginning to end at rest before everything is deleted.
	auditRounds = 2
	// auditTime is the minimum time for these rounds,
	// because a difference counts as drift only if it lasts.
	auditTime = 8 * time.Second
	// auditPatience bounds the wait for the rounds.
	auditPatience = 5 * time.Minute
)

// audited waits until every scheduler has compared its graph with
// the cluster as it is now. Otherwise the deletion could hide drift.
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
			// A process that was restarted meanwhile counts from 0.
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
		// A controller may have created more pods meanwhile.
		for _, ns := range append(groupNamespaces(), foreignNamespace) {
			if err := r.clearNamespace(ctx, ns); err != nil {
				return false, err
			}
		}
		// The API server is asked, because a watch may have missed a deletion.
		var err error
		left, err = r.podsLeft(ctx)
		return len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait until no pod is left (%v are): %w", left[:min(len(left), 10)], err)
	}
	return nil
}

// podsLeft lists all pods, and what keeps each from going.
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

// stuckAfter is how long after a pod's deletion its finalizers are
// removed. The Job controller forgets some when its watches were down.
const stuckAfter = 30 * time.Second

// freeStuck removes the finalizers of pods that were deleted and cannot go.
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

// clearNamespace deletes all objects that create pods, and all pods.
// That includes objects created by a request whose answer was lost.
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

// countLeaks returns the number of jobs that the sidecars hold
// plus the number of PodGroups and FluxJobs that exist when no pod is left.
func (r *run) countLeaks(ctx context.Context) int {
	leaks := 0
	ctx, cancel := context.WithTimeout(ctx, leakPatience)
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		// The last answer counts, even if it comes after the time limit.
		leaks = r.heldJobs(context.WithoutCancel(ctx)) + r.left(context.WithoutCancel(ctx), podGroups) + r.left(context.WithoutCancel(ctx), fluxJobs)
		return leaks == 0, nil
	})
	if leaks > 0 {
		fmt.Fprintf(r.cfg.Log, "Without any pod %d jobs are held, and %d PodGroups and %d FluxJobs are left\n", r.heldJobs(context.WithoutCancel(ctx)),
			r.left(context.WithoutCancel(ctx), podGroups), r.left(context.WithoutCancel(ctx), fluxJobs))
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
			total++ // an unknown number counts as one
		}
		total += int(jobs)
	}
	return total
}

// left returns the number of objects of a resource.
func (r *run) left(ctx context.Context, of schema.GroupVersionResource) int {
	list, err := r.dynamic.Resource(of).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintf(r.cfg.Log, "Listing %s: %v\n", of.Resource, err)
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
