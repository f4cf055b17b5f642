package backlog

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// pollInterval is the interval of the checks whether objects are gone.
const pollInterval = 200 * time.Millisecond

// These are the kinds of objects that a gang consists of, beside Fluence's PodGroups.
var (
	corePods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nativeGroups = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}
)

// made are the kinds of objects that a run leaves in the namespace, in
// the order in which they can be removed. A native PodGroup remains until
// its pods are gone, and any change of an object may make an event.
var made = []schema.GroupVersionResource{
	corePods,
	nativeGroups,
	scheduling.PodGroups,
	{Version: "v1", Resource: "events"},
}

// Clear removes all pods, PodGroups and events of the namespace. It returns when they are gone.
func (s *Store) Clear(ctx context.Context) error {
	for _, kind := range made {
		if err := s.remove(ctx, kind, s.namespace); err != nil {
			return err
		}
	}
	return nil
}

// ClearLeases removes the leases and events of a scheduler's namespace,
// so that the next scheduler need not wait until a lease runs out.
func (s *Store) ClearLeases(ctx context.Context, namespace string) error {
	for _, kind := range []schema.GroupVersionResource{
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		{Version: "v1", Resource: "events"},
	} {
		if err := s.remove(ctx, kind, namespace); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes all objects of a kind, repeatedly until there are none.
func (s *Store) remove(ctx context.Context, kind schema.GroupVersionResource, namespace string) error {
	objects := s.names.Resource(kind).Namespace(namespace)
	what := fmt.Sprintf("remove %s of namespace %s", kind.Resource, namespace)
	return poll(ctx, what, func(ctx context.Context) (bool, error) {
		list, err := objects.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return err == nil, err
		}
		var calls []func(context.Context) error
		for _, o := range list.Items {
			calls = append(calls, s.removal(kind, namespace, o.Name))
		}
		return false, all(ctx, calls)
	})
}

// poll calls done until it returns true or an error, or ctx is done.
func poll(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextCancel(ctx, pollInterval, true, done); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Remove removes a gang that Make created: its pods, and then its PodGroup. It does
// not wait until they are gone. What is gone already is no error.
func (s *Store) Remove(ctx context.Context, by Scheduler, g Gang) error {
	var pods []func(context.Context) error
	for _, name := range g.Pods {
		pods = append(pods, s.removal(corePods, s.namespace, name))
	}
	if err := all(ctx, pods); err != nil || !g.Group {
		return err
	}
	kind := scheduling.PodGroups
	if g.isNative(by) {
		kind = nativeGroups
	}
	return all(ctx, []func(context.Context) error{s.removal(kind, s.namespace, g.Name)})
}

// removal returns a call that removes an object at once.
func (s *Store) removal(kind schema.GroupVersionResource, namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := s.names.Resource(kind).Namespace(namespace).Delete(ctx, name, *metav1.NewDeleteOptions(0))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove %s %s: %w", kind.Resource, name, err)
		}
		return nil
	}
}
