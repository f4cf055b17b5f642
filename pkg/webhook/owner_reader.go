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
	// maxRemembered bounds the memory, and group.Owner.CanExist each entry.
	maxRemembered = 4096
	// askAtOnce and askEach bound the questions to the API server: so many at a time, and one
	// each so often after as many at once. Whoever may create pods, or reach the port, has them
	// asked, with the controller's own rights.
	askAtOnce = 8
	askEach   = 20 * time.Millisecond
)

// ownerReader finds what controls pods: among what the controller watches and, where
// that has not been seen or is of another kind, by asking the API server.
type ownerReader struct {
	watched client.Reader
	live    client.Reader
	kinds   meta.RESTMapper
	// timeout bounds a question to the API server.
	timeout time.Duration

	// limit and places bound the questions.
	limit    *rate.Limiter
	inFlight chan struct{}

	asking singleflight.Group
	// cache holds the answer about each object that was asked for. When it is full an empty one
	// takes its place.
	cache atomic.Pointer[cache.Expiring]
}

// newOwnerReader makes objects that have asked for nothing yet.
func newOwnerReader(watched, live client.Reader, kinds meta.RESTMapper, timeout time.Duration) *ownerReader {
	s := &ownerReader{
		watched: watched, live: live, kinds: kinds, timeout: timeout,
		limit: rate.NewLimiter(rate.Every(askEach), askAtOnce), inFlight: make(chan struct{}, askAtOnce),
	}
	s.cache.Store(cache.NewExpiring())
	return s
}

type ownerKey struct {
	namespace string
	group.Owner
}

// An answer is what the API server said about an object.
type answer struct {
	known OwnerInfo
	ok    bool
}

// find is a lookup. It returns false also when ctx ends before there is an answer.
func (s *ownerReader) find(ctx context.Context, namespace string, o group.Owner) (OwnerInfo, bool) {
	if !o.CanExist() {
		return OwnerInfo{}, false
	}
	if known, ok := s.seen(ctx, namespace, o); ok {
		return known, true
	}
	key := ownerKey{namespace, o}
	if a, ok := s.cache.Load().Get(key); ok {
		return a.(answer).known, a.(answer).ok
	}
	// One question for all pods that are created at this time. It goes on when the
	// pod that it was first asked for is let go.
	asked := s.asking.DoChan(fmt.Sprintf("%q", key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		known, err := s.askLimited(ctx, namespace, o)
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
		return OwnerInfo{}, false
	}
}

// seen finds an object in the cache.
func (s *ownerReader) seen(ctx context.Context, namespace string, o group.Owner) (OwnerInfo, bool) {
	if !o.Followed() {
		return OwnerInfo{}, false
	}
	obj := group.KindOf(o).New()
	if err := s.watched.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, obj); err != nil || obj.GetUID() != o.UID {
		return OwnerInfo{}, false
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return OwnerInfo{}, false
	}
	spec, err := json.Marshal(fields["spec"])
	return ownerInfoOf(o, group.ControllerOf(obj), spec), err == nil
}

// errBusy is that too many questions are asked.
var errBusy = errors.New("too many objects are asked for")

// askLimited asks as soon as it may, by the deadline of ctx. To find out which API has a kind may take
// longer, and no place: those who wait for that keep nobody from asking for kinds that are known.
func (s *ownerReader) askLimited(ctx context.Context, namespace string, o group.Owner) (OwnerInfo, error) {
	mapping, err := s.kinds.RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
	if err != nil {
		return OwnerInfo{}, fmt.Errorf("find the API: %w", err)
	}
	end, err := s.acquire(ctx)
	if err != nil {
		return OwnerInfo{}, err
	}
	defer end()
	return s.ask(ctx, namespace, o, mapping.GroupVersionKind)
}

// acquire waits until a question may be asked, and returns what ends it. It fails with errBusy
// when that is not by the deadline of ctx.
func (s *ownerReader) acquire(ctx context.Context) (end func(), err error) {
	select {
	case s.inFlight <- struct{}{}:
	case <-ctx.Done():
		return nil, errBusy
	}
	end = func() { <-s.inFlight }
	if err := s.limit.Wait(ctx); err != nil {
		end()
		return nil, errBusy
	}
	return end, nil
}

// ask gets the object from the API server.
func (s *ownerReader) ask(ctx context.Context, namespace string, o group.Owner, kind schema.GroupVersionKind) (OwnerInfo, error) {
	var u unstructured.Unstructured
	u.SetGroupVersionKind(kind)
	if err := s.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.Name}, &u); err != nil {
		return OwnerInfo{}, fmt.Errorf("get the object: %w", err)
	}
	if u.GetUID() != o.UID {
		return OwnerInfo{}, fmt.Errorf("its UID is %s, not %s", u.GetUID(), o.UID)
	}
	controller := group.ControllerOf(&u)
	if !controller.CanExist() {
		return OwnerInfo{}, errors.New("what is said to control it cannot exist")
	}
	spec, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return OwnerInfo{}, fmt.Errorf("read the spec: %w", err)
	}
	return ownerInfoOf(o, controller, spec), nil
}

// remember keeps an answer. The cache drops those that are out of date.
func (s *ownerReader) remember(key ownerKey, a answer) {
	if s.cache.Load().Len() >= maxRemembered {
		s.cache.Store(cache.NewExpiring())
	}
	s.cache.Load().Set(key, a, rememberFor)
}
