package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
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
	cache client.Reader
	live  client.Reader
	kinds meta.RESTMapper
	clock clock.PassiveClock
	// timeout bounds a question to the API server.
	timeout time.Duration

	// limit and places bound the questions; nil bounds nothing.
	limit  *rate.Limiter
	places chan struct{}

	asking singleflight.Group
	mu     sync.Mutex
	memory map[object]answer
	// sweepAt is when answers that are out of date go next.
	sweepAt time.Time
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
	if !o.CanExist() {
		return Known{}, false
	}
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
		known, err := s.askInTurn(ctx, namespace, o)
		if errors.Is(err, errBusy) {
			// Nothing is known of it: the next pod asks again.
			return answer{}, nil
		}
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
	if !o.Followed() {
		return Known{}, false
	}
	obj := group.KindOf(o).New()
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, obj); err != nil || obj.GetUID() != o.UID {
		return Known{}, false
	}
	text, err := json.Marshal(specOf(obj))
	return knownOf(o, group.ControllerOf(obj), text), err == nil
}

// specOf is the spec of an object of a kind that the controller watches.
func specOf(obj client.Object) any {
	switch obj := obj.(type) {
	case *batchv1.Job:
		return obj.Spec
	case *appsv1.ReplicaSet:
		return obj.Spec
	case *appsv1.StatefulSet:
		return obj.Spec
	}
	return nil
}

// newLimit is how often objects may be asked for.
func newLimit() *rate.Limiter { return rate.NewLimiter(rate.Every(askEach), askAtOnce) }

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
	if s.limit == nil {
		return func() {}, nil
	}
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

// remember keeps an answer. Those that are out of date go, once each rememberFor at most.
func (s *objects) remember(key object, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock.Now(); !now.Before(s.sweepAt) {
		maps.DeleteFunc(s.memory, func(_ object, a answer) bool { return !now.Before(a.until) })
		s.sweepAt = now.Add(rememberFor)
	}
	if s.memory == nil || len(s.memory) >= rememberMost {
		s.memory = map[object]answer{}
	}
	s.memory[key] = a
}
