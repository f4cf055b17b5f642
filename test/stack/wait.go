package stack

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// placeTimeout bounds the wait for a group to be placed.
	placeTimeout = 60 * time.Second
	pollEvery    = 100 * time.Millisecond
)

// PodGroups returns the PodGroups of a namespace.
func (s *Stack) PodGroups(ctx context.Context, namespace string) ([]scheduling.PodGroup, error) {
	client, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}
	list, err := client.Resource(scheduling.PodGroups).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}
	groups := make([]scheduling.PodGroup, len(list.Items))
	for i, item := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &groups[i]); err != nil {
			return nil, fmt.Errorf("read PodGroup %s: %w", item.GetName(), err)
		}
	}
	return groups, nil
}

// WaitPlaced waits until n PodGroups of a namespace are placed and their pods run. It returns
// the name of one of them. On failure the error has the state of the others and quotes the logs.
func (s *Stack) WaitPlaced(ctx context.Context, namespace string, n int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, placeTimeout)
	defer cancel()
	var name, last string
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		groups, err := s.PodGroups(ctx, namespace)
		if err != nil {
			return false, err
		}
		placed := 0
		last = ""
		for _, g := range groups {
			if meta.IsStatusConditionTrue(g.Status.Conditions, "Scheduled") && g.Status.Phase == scheduling.PodGroupRunning {
				placed++
				name = g.Name
				continue
			}
			last += fmt.Sprintf("\n%s: phase %q, conditions %+v", g.Name, g.Status.Phase, g.Status.Conditions)
		}
		return placed >= n, nil
	})
	if err != nil {
		for _, name := range []string{Scheduler, Controller, Sidecar} {
			if p := s.Process(name); p != nil {
				last += fmt.Sprintf("\n--- %s (%s):\n%s", name, p.Log(), p.Tail(15))
			}
		}
		return "", fmt.Errorf("wait for %d PodGroups in %s to be placed: %w%s", n, namespace, err, last)
	}
	return name, nil
}
