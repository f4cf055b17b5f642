package cluster

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Resource is the part of a typed client, such as
// Client().CoreV1().Pods("ns"), that can watch objects. L is its list type.
type Resource[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Until calls done for every object that exists and then for every change, in order, until
// done returns true or ctx is done. fieldSelector, such as "metadata.name=x", selects the
// objects. An empty one selects all. T is the object's type, such as *corev1.Pod.
func Until[T, L runtime.Object](ctx context.Context, r Resource[L], fieldSelector string, done func(watch.EventType, T) bool) error {
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = fieldSelector
			return r.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fieldSelector
			return r.Watch(ctx, o)
		},
	}, r)
	var none T
	_, err := watchtools.UntilWithSync(ctx, lw, none, nil, func(e watch.Event) (bool, error) {
		object, ok := e.Object.(T)
		return ok && done(e.Type, object), nil
	})
	if err != nil {
		return fmt.Errorf("watch: %w", errors.Join(err, ctx.Err()))
	}
	return nil
}
