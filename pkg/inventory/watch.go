package inventory

import (
	"context"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// An Informer tells its handlers of all objects of one kind and of their
// changes, in order; for instance a cache.SharedIndexInformer. Its owner starts
// it. Its store has what it tells of, and has it first.
type Informer interface {
	GetStore() cache.Store
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error
}

// watch calls set for each object as it is and as it becomes, with what it was, and gone
// when it is there no more, with what it was last; what was not seen is nil. It does so until
// ctx ends. The channel is closed when the objects that were there at first have been passed
// on.
func watch[T any](ctx context.Context, informer Informer, set func(was, is *T), gone func(cache.ObjectName, *T)) (<-chan struct{}, error) {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { set(nil, obj.(*T)) },
		UpdateFunc: func(old, obj any) {
			was, _ := old.(*T)
			set(was, obj.(*T))
		},
		DeleteFunc: func(obj any) {
			// An object may have gone unseen; then there is its name alone.
			name, err := cache.DeletionHandlingObjectToName(obj)
			if err != nil {
				utilruntime.HandleErrorWithContext(ctx, err, "An object without a name was deleted", "type", fmt.Sprintf("%T", obj))
				return
			}
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			last, _ := obj.(*T)
			gone(name, last)
		},
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() {
		if err := informer.RemoveEventHandler(registration); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "A watch could not be ended")
		}
	})
	return registration.HasSyncedChecker().Done(), nil
}
