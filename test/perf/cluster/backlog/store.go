package backlog

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// writers is the number of objects created or removed at a time.
	writers = 32
	// callTimeout bounds one request.
	callTimeout = 30 * time.Second
)

// A Store creates and removes the objects of a benchmark in one namespace.
type Store struct {
	namespace string
	client    kubernetes.Interface
	fluence   rest.Interface     // for Fluence's PodGroups
	names     metadata.Interface // for objects of any kind
}

// NewStore creates the namespace and the PriorityClass of
// urgent gangs. The cluster must serve both kinds of PodGroups.
func NewStore(ctx context.Context, config *rest.Config, namespace string) (*Store, error) {
	config = rest.CopyConfig(config)
	fluence, err := scheduling.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build a client: %w", err)
	}
	names, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build a client: %w", err)
	}
	s := &Store{namespace: namespace, client: client, fluence: fluence, names: names}
	return s, s.prepare(ctx)
}

func (s *Store) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", s.namespace, err)
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: UrgentClass}, Value: UrgentPriority}
	if _, err := s.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create PriorityClass %s: %w", UrgentClass, err)
	}
	return s.waitServiceAccount(ctx, s.namespace)
}

// Make creates gangs for a scheduler, whose pods request an amount of CPU: first
// their PodGroups, then their pods, in order. It returns when all are created.
func (s *Store) Make(ctx context.Context, by Scheduler, cpu resource.Quantity, gangs ...Gang) error {
	var groups, pods []func(context.Context) error
	for _, g := range gangs {
		if g.Group {
			groups = append(groups, func(ctx context.Context) error { return s.makeGroup(ctx, by, g) })
		}
		for _, name := range g.Pods {
			pods = append(pods, func(ctx context.Context) error {
				if _, err := s.client.CoreV1().Pods(s.namespace).Create(ctx, pod(by, cpu, g, name), metav1.CreateOptions{}); err != nil {
					return fmt.Errorf("create pod %s: %w", name, err)
				}
				return nil
			})
		}
	}
	if err := all(ctx, groups); err != nil {
		return err
	}
	return all(ctx, pods)
}

func (s *Store) makeGroup(ctx context.Context, by Scheduler, g Gang) error {
	var err error
	if g.isNative(by) {
		_, err = s.client.SchedulingV1beta1().PodGroups(s.namespace).Create(ctx, nativeGroup(g), metav1.CreateOptions{})
	} else {
		err = s.fluence.Post().Namespace(s.namespace).Resource(scheduling.PodGroups.Resource).Body(fluenceGroup(g)).Do(ctx).Error()
	}
	if err != nil {
		return fmt.Errorf("create PodGroup %s: %w", g.Name, err)
	}
	return nil
}

// all makes calls in order, up to writers at a time, each with a deadline.
func all(ctx context.Context, calls []func(context.Context) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for _, call := range calls {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(gctx, callTimeout)
			defer cancel()
			return call(ctx)
		})
	}
	return g.Wait()
}

// waitServiceAccount waits for a namespace's service
// account. Without it the API server refuses pods.
func (s *Store) waitServiceAccount(ctx context.Context, namespace string) error {
	return poll(ctx, "wait for the namespace's service account", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}
