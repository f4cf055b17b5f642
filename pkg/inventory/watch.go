package inventory

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// An Informer passes all objects of one kind and their changes to its
// handlers, in order, for instance a cache.SharedIndexInformer. Its
// owner starts it. Its store is updated before its handlers are called.
type Informer interface {
	GetStore() cache.Store
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error
}

// An IndexInformer is an Informer with an index, for instance a cache.SharedIndexInformer.
type IndexInformer interface {
	Informer
	GetIndexer() cache.Indexer
	AddIndexers(indexers cache.Indexers) error
}

// podsByNode is the name of the index of pods by their node. Pods without a node are not in it.
const podsByNode = "fluence.podsByNode"

// addNodeIndex adds the index podsByNode if the informer does not have it yet. With the
// index, a page of an audit reads the pods on its own nodes. It does not look at pods without a node.
func addNodeIndex(pods IndexInformer) error {
	if pods.GetIndexer().GetIndexers()[podsByNode] != nil {
		return nil
	}
	err := pods.AddIndexers(cache.Indexers{podsByNode: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	return nil
}

// watch calls set for each object that exists or changes, with its former state. It calls gone for
// each object that is deleted, with its last known state. A state that is not known is nil. watch
// ends with ctx. The channel is closed when all objects that existed at first have been passed on.
func watch[T any](ctx context.Context, informer Informer, set func(was, is *T), gone func(cache.ObjectName, *T)) (<-chan struct{}, error) {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { set(nil, obj.(*T)) },
		UpdateFunc: func(old, obj any) {
			was, _ := old.(*T)
			set(was, obj.(*T))
		},
		DeleteFunc: func(obj any) {
			// The watch may have missed a deletion. Then only the name is known.
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
			utilruntime.HandleErrorWithContext(ctx, err, "Cannot remove the event handler of an informer", "type", fmt.Sprintf("%T", *new(T)))
		}
	})
	return registration.HasSyncedChecker().Done(), nil
}
