package backlog

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// refusedInterval is the interval of the checks whether groups were refused.
// A list of thousands of groups keeps an API server busy for a while.
const refusedInterval = 2 * time.Second

// Fill takes all CPU of nodes: it creates one pod on each in another
// namespace, where Clear leaves it. Nodes that are full already stay as they are.
func (s *Store) Fill(ctx context.Context) error {
	filled := s.namespace + "-full"
	if err := s.makeNamespace(ctx, filled); err != nil {
		return err
	}
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var calls []func(context.Context) error
	for i := range nodes.Items {
		node := &nodes.Items[i]
		p := pod(Default, *node.Status.Allocatable.Cpu(), Gang{}, node.Name)
		p.Spec.NodeName = node.Name
		calls = append(calls, func(ctx context.Context) error {
			if _, err := s.client.CoreV1().Pods(filled).Create(ctx, p, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("fill node %s: %w", p.Name, err)
			}
			return nil
		})
	}
	return all(ctx, calls)
}

// Populate replaces the pods of another namespace by pods of priority 0: each node has this many of them, which request
// this amount of CPU each. They end at once when they are deleted. It returns the name of the namespace, and how
// many pods it has.
func (s *Store) Populate(ctx context.Context, by Scheduler, each int, cpu resource.Quantity) (populated string, pods int, err error) {
	populated = s.namespace + "-low"
	if err := s.makeNamespace(ctx, populated); err != nil {
		return "", 0, err
	}
	if err := s.remove(ctx, corePods, populated); err != nil {
		return "", 0, err
	}
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", 0, fmt.Errorf("list nodes: %w", err)
	}
	var calls []func(context.Context) error
	for i := range each * len(nodes.Items) {
		p := pod(by, cpu, Gang{}, fmt.Sprintf("low-%05d", i))
		p.Spec.NodeName = nodes.Items[i%len(nodes.Items)].Name
		p.Spec.TerminationGracePeriodSeconds = new(int64)
		calls = append(calls, func(ctx context.Context) error {
			if _, err := s.client.CoreV1().Pods(populated).Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create pod %s: %w", p.Name, err)
			}
			return nil
		})
	}
	return populated, len(calls), all(ctx, calls)
}

// makeNamespace creates a namespace, unless there is one, and waits until it can have pods.
func (s *Store) makeNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return s.waitServiceAccount(ctx, name)
}

// WaitRefused returns when Fluence has refused a number of PodGroups
// after it looked for nodes: the condition of each says so.
func (s *Store) WaitRefused(ctx context.Context, groups int) error {
	tick := time.NewTicker(refusedInterval)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %d groups are refused (%d are): %w", groups, n, ctx.Err())
		}
		var list scheduling.PodGroupList
		listing, cancel := context.WithTimeout(ctx, callTimeout)
		err := s.fluence.Get().Namespace(s.namespace).Resource(scheduling.PodGroups.Resource).Do(listing).Into(&list)
		cancel()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("list PodGroups: %w", err)
		}
		if n = refused(list.Items); n >= groups {
			return nil
		}
	}
}

// refused counts the groups that have no room at present.
func refused(groups []scheduling.PodGroup) int {
	n := 0
	for i := range groups {
		c := meta.FindStatusCondition(groups[i].Status.Conditions, report.ConditionScheduled)
		if c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason.NoRoom {
			n++
		}
	}
	return n
}
