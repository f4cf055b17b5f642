package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

const (
	// rememberFor is how long an object is not asked for again: all pods of a large
	// JobSet are created within that. Its controller never changes, and its spec
	// rarely.
	rememberFor = 10 * time.Second
	// rememberMost bounds the memory, and group.Owner.CanExist each entry.
	rememberMost = 4096
	// askAtOnce and askEach bound the questions to the API server: so many at a time, and one
	// each so often after as many at once. Whoever may create pods, or reach the port, has them
	// asked, with the controller's own rights.
	askAtOnce = 8
	askEach   = 20 * time.Millisecond
)

// objects finds what controls pods: among what the controller watches and, where
// that has not been seen or is of another kind, by asking the API server.
type objects struct {
	watched client.Reader
	live    client.Reader
	kinds   meta.RESTMapper
	// timeout bounds a question to the API server.
	timeout time.Duration

	// limit and places bound the questions.
	limit  *rate.Limiter
	places chan struct{}

	asking singleflight.Group
	// memory holds the answer about each object that was asked for. When it is full an empty one
	// takes its place.
	memory atomic.Pointer[cache.Expiring]
}

// newObjects makes objects that have asked for nothing yet.
func newObjects(watched, live client.Reader, kinds meta.RESTMapper, timeout time.Duration) *objects {
	s := &objects{
		watched: watched, live: live, kinds: kinds, timeout: timeout,
		limit: rate.NewLimiter(rate.Every(askEach), askAtOnce), places: make(chan struct{}, askAtOnce),
	}
	s.memory.Store(cache.NewExpiring())
	return s
}

type object struct {
	namespace string
	group.Owner
}

// An answer is what the API server said about an object.
type answer struct {
	known Known
	ok    bool
}

// find is a lookup. It returns false also when ctx ends before there is an answer.
func (s *objects) find(ctx context.Context, namespace string, o group.Owner) (Known, bool) {
	if !o.CanExist() {
		return Known{}, false
	}
	if known, ok := s.seen(ctx, namespace, o); ok {
		return known, true
	}
	key := object{namespace, o}
	if a, ok := s.memory.Load().Get(key); ok {
		return a.(answer).known, a.(answer).ok
	}
	// One question for all pods that are created at this time. It goes on when the
	// pod that it was first asked for is let go.
	asked := s.asking.DoChan(fmt.Sprintf("%q", key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		known, err := s.askInTurn(ctx, namespace, o)
		if errors.Is(err, errBusy) {
			// Nothing is known of it: the next pod asks again.
			return answer{}, nil
		}
		if err != nil {
			klog.FromContext(ctx).V(4).Info("An object that controls pods is not seen", "kind", o.Kind, "object", klog.KRef(namespace, o.Name), "reason", err)
		}
		a := answer{known: known, ok: err == nil}
		s.remember(key, a)
		return a, nil
	})
	select {
	case r := <-asked:
		a := r.Val.(answer)
		return a.known, a.ok
	case <-ctx.Done():
		return Known{}, false
	}
}

// seen finds an object in the cache.
func (s *objects) seen(ctx context.Context, namespace string, o group.Owner) (Known, bool) {
	if !o.Followed() {
		return Known{}, false
	}
	obj := group.KindOf(o).New()
	if err := s.watched.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, obj); err != nil || obj.GetUID() != o.UID {
		return Known{}, false
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return Known{}, false
	}
	spec, err := json.Marshal(fields["spec"])
	return knownOf(o, group.ControllerOf(obj), spec), err == nil
}

// errBusy is that too many questions are asked.
var errBusy = errors.New("too many objects are asked for")

// askInTurn asks as soon as it may, by the deadline of ctx. To find out which API has a kind may take
// longer, and no place: those who wait for that keep nobody from asking for kinds that are known.
func (s *objects) askInTurn(ctx context.Context, namespace string, o group.Owner) (Known, error) {
	mapping, err := s.kinds.RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
	if err != nil {
		return Known{}, fmt.Errorf("find the API: %w", err)
	}
	end, err := s.turn(ctx)
	if err != nil {
		return Known{}, err
	}
	defer end()
	return s.ask(ctx, namespace, o, mapping.GroupVersionKind)
}

// turn waits until a question may be asked, and returns what ends it. It fails with errBusy
// when that is not by the deadline of ctx.
func (s *objects) turn(ctx context.Context) (end func(), err error) {
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		return nil, errBusy
	}
	end = func() { <-s.places }
	if err := s.limit.Wait(ctx); err != nil {
		end()
		return nil, errBusy
	}
	return end, nil
}

// ask gets the object from the API server.
func (s *objects) ask(ctx context.Context, namespace string, o group.Owner, kind schema.GroupVersionKind) (Known, error) {
	var u unstructured.Unstructured
	u.SetGroupVersionKind(kind)
	if err := s.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, &u); err != nil {
		return Known{}, fmt.Errorf("get the object: %w", err)
	}
	if u.GetUID() != o.UID {
		return Known{}, fmt.Errorf("its UID is %s, not %s", u.GetUID(), o.UID)
	}
	controller := group.ControllerOf(&u)
	if !controller.CanExist() {
		return Known{}, errors.New("what is said to control it cannot exist")
	}
	spec, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return Known{}, fmt.Errorf("read the spec: %w", err)
	}
	return knownOf(o, controller, spec), nil
}

// remember keeps an answer. The cache drops those that are out of date.
func (s *objects) remember(key object, a answer) {
	if s.memory.Load().Len() >= rememberMost {
		s.memory.Store(cache.NewExpiring())
	}
	s.memory.Load().Set(key, a, rememberFor)
}
