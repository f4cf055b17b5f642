package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

const (
	// rememberFor is how long an object is not asked for again: all pods of a large
	// JobSet are created within that. Its controller never changes, and its spec
	// rarely.
	rememberFor = 10 * time.Second
	// rememberMost bounds the memory.
	rememberMost = 4096
)

// watched makes an object of a kind that the controller watches.
var watched = map[schema.GroupKind]func() client.Object{
	{Group: "batch", Kind: "Job"}:        func() client.Object { return &batchv1.Job{} },
	{Group: "apps", Kind: "ReplicaSet"}:  func() client.Object { return &appsv1.ReplicaSet{} },
	{Group: "apps", Kind: "StatefulSet"}: func() client.Object { return &appsv1.StatefulSet{} },
}

// objects finds what controls pods: among what the controller watches and, where
// that has not been seen or is of another kind, by asking the API server.
type objects struct {
	cache client.Reader
	live  client.Reader
	kinds meta.RESTMapper
	clock clock.PassiveClock
	// timeout bounds a question to the API server.
	timeout time.Duration

	asking singleflight.Group
	mu     sync.Mutex
	memory map[object]answer
}

type object struct {
	namespace string
	group.Owner
}

// An answer is what the API server said about an object.
type answer struct {
	known Known
	ok    bool
	until time.Time
}

// find is a lookup. It returns false also when ctx ends before there is an answer.
func (s *objects) find(ctx context.Context, namespace string, o group.Owner) (Known, bool) {
	if known, ok := s.seen(ctx, namespace, o); ok {
		return known, true
	}
	key := object{namespace, o}
	s.mu.Lock()
	a, ok := s.memory[key]
	s.mu.Unlock()
	if ok && s.clock.Now().Before(a.until) {
		return a.known, a.ok
	}
	// One question for all pods that are created at this time. It goes on when the
	// pod that it was first asked for is let go.
	asked := s.asking.DoChan(fmt.Sprintf("%q", key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		known, err := s.ask(ctx, namespace, o)
		if err != nil {
			klog.FromContext(ctx).V(4).Info("An object that controls pods is not seen", "kind", o.Kind, "object", klog.KRef(namespace, o.Name), "reason", err)
		}
		a := answer{known: known, ok: err == nil, until: s.clock.Now().Add(rememberFor)}
		s.remember(key, a)
		return a, nil
	})
	select {
	case r := <-asked:
		a = r.Val.(answer)
		return a.known, a.ok
	case <-ctx.Done():
		return Known{}, false
	}
}

// seen finds an object in the cache.
func (s *objects) seen(ctx context.Context, namespace string, o group.Owner) (Known, bool) {
	empty, ok := watched[schema.GroupKind{Group: o.Group, Kind: o.Kind}]
	if !ok {
		return Known{}, false
	}
	obj := empty()
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, obj); err != nil || obj.GetUID() != o.UID {
		return Known{}, false
	}
	var spec any
	switch obj := obj.(type) {
	case *batchv1.Job:
		spec = obj.Spec
	case *appsv1.ReplicaSet:
		spec = obj.Spec
	case *appsv1.StatefulSet:
		spec = obj.Spec
	}
	text, err := json.Marshal(spec)
	return knownOf(o, controllerOf(obj), text), err == nil
}

// ask gets the object from the API server.
func (s *objects) ask(ctx context.Context, namespace string, o group.Owner) (Known, error) {
	mapping, err := s.kinds.RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
	if err != nil {
		return Known{}, fmt.Errorf("find the API: %w", err)
	}
	var u unstructured.Unstructured
	u.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := s.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, &u); err != nil {
		return Known{}, fmt.Errorf("get the object: %w", err)
	}
	if u.GetUID() != o.UID {
		return Known{}, fmt.Errorf("its UID is %s, not %s", u.GetUID(), o.UID)
	}
	spec, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return Known{}, fmt.Errorf("read the spec: %w", err)
	}
	return knownOf(o, controllerOf(&u), spec), nil
}

func (s *objects) remember(key object, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil || len(s.memory) >= rememberMost {
		s.memory = map[object]answer{}
	}
	s.memory[key] = a
}
