package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/report"
)

const (
	// readPoll is the time between two questions whether a kind can be read that is not served, or that may not be read.
	readPoll = 10 * time.Second
	// readRetry is this time if the last question had no answer.
	readRetry = 2 * time.Second
)

// A kindWatch keeps a store equal to all objects of a kind. The scheduler's start does not wait for it. While the API server does not
// serve the kind, the store is empty. While the scheduler may not read it, the store stays as it is. In both cases the API server is
// asked again from time to time.
type kindWatch struct {
	resource schema.GroupVersionResource
	client   rest.Interface
	// example is an empty object of the kind.
	example runtime.Object
	store   *listedStore
	// changed is called when whyUnread has another answer.
	changed func()

	mu     sync.Mutex
	unread string
}

// newKindWatch returns a watch that does nothing until run is called.
func newKindWatch(client rest.Interface, resource schema.GroupVersionResource, example runtime.Object, store cache.ReflectorStore, changed func()) *kindWatch {
	w := &kindWatch{resource: resource, client: client, example: example, changed: changed, unread: "they have not been read yet"}
	w.store = &listedStore{ReflectorStore: store, replaced: func() { w.setUnread("") }}
	return w
}

// whyUnread returns why the objects are not known, in words fit for a user. It is empty if they are.
func (w *kindWatch) whyUnread() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unread
}

// setUnread sets why the objects are not known.
func (w *kindWatch) setUnread(why string) {
	w.mu.Lock()
	same := w.unread == why
	w.unread = why
	w.mu.Unlock()
	if !same {
		w.changed()
	}
}

// Why objects cannot be read. The name of the resource comes before.
const (
	whyNotServed  = "the API server does not serve %s: the CRD is not installed"
	whyMayNotRead = "the scheduler may not read %s"
)

// run watches until ctx ends. It calls listed when all objects were received once, or cannot be read.
func (w *kindWatch) run(ctx context.Context, listed func()) {
	w.store.listed = sync.OnceFunc(listed)
	lastError := ""
	for ctx.Err() == nil {
		err := w.ask(ctx)
		if err == nil {
			err = w.follow(ctx)
		}
		pause := readRetry
		switch {
		case apierrors.IsNotFound(err):
			pause = readPoll
			// With its definition all objects of a kind are gone.
			_ = w.store.ReflectorStore.Replace(nil, "")
			w.cannotRead(fmt.Sprintf(whyNotServed, w.resource.GroupResource()))
		case apierrors.IsForbidden(err):
			pause = readPoll
			w.cannotRead(fmt.Sprintf(whyMayNotRead, w.resource.GroupResource()))
			if why := err.Error(); why != lastError {
				klog.FromContext(ctx).Error(err, "The scheduler may not read objects of queues, so pods with the label of a queue wait; grant list and watch", "resource", w.resource.GroupResource())
				lastError = why
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// cannotRead records that the objects cannot be read.
func (w *kindWatch) cannotRead(why string) {
	w.setUnread(why)
	w.store.listed()
}

// ask asks the API server whether the objects can be read. It returns nil if they can.
func (w *kindWatch) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	return w.client.Get().Resource(w.resource.Resource).Param("limit", "1").Do(ctx).Error()
}

// follow watches until the objects cannot be read any more, and returns why, or until ctx ends.
func (w *kindWatch) follow(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	lw := cache.NewListWatchFromClient(w.client, w.resource.Resource, metav1.NamespaceAll, fields.Everything())
	list, follow := lw.ListWithContextFunc, lw.WatchFuncWithContext
	observe := func(err error) {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			stop(err)
		}
	}
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all, err := list(ctx, o)
			observe(err)
			return all, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			changes, err := follow(ctx, o)
			observe(err)
			return changes, err
		},
	}, w.example, w.store, cache.ReflectorOptions{Name: w.resource.Resource})
	for ctx.Err() == nil {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("The watch of objects of queues ended; it begins again", "resource", w.resource.GroupResource(), "err", err)
		}
		timer := time.NewTimer(watchPause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// watchPause is the time from the end of a watch to the next one.
const watchPause = time.Second

// A listedStore is a store that tells when all objects were received.
type listedStore struct {
	cache.ReflectorStore
	replaced, listed func()
}

// Replace implements cache.ReflectorStore.
func (s *listedStore) Replace(all []any, version string) error {
	err := s.ReflectorStore.Replace(all, version)
	s.replaced()
	s.listed()
	return err
}

// Transformer implements cache.TransformingStore.
func (s *listedStore) Transformer() cache.TransformFunc {
	if t, ok := s.ReflectorStore.(cache.TransformingStore); ok {
		return t.Transformer()
	}
	return nil
}
