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
	// rememberFor is the time for which an answer is cached. All pods of a large JobSet are created
	// within this time. An object's controller never changes, and its spec rarely does.
	rememberFor = 10 * time.Second
	// maxRemembered bounds the number of cached answers.
	// group.Owner.CanExist bounds the size of each.
	maxRemembered = 4096
	// maxLookupsInFlight and lookupInterval bound the requests to the API server, by a token
	// bucket. At most maxLookupsInFlight requests are in flight. After a burst of that many there
	// is one request every lookupInterval. Anyone who can create pods or reach the port can cause
	// such requests, and they run with the controller's permissions.
	maxLookupsInFlight = 8
	lookupInterval     = 20 * time.Millisecond
)

// ownerReader finds the owners of pods. It looks into the controller's cache first. It asks
// the API server if the cache does not have the owner, or does not hold objects of its kind.
type ownerReader struct {
	watched client.Reader
	live    client.Reader
	kinds   meta.RESTMapper
	// scheduler is the schedulerName of the pods that are counted.
	scheduler string
	// timeout bounds a request to the API server.
	timeout time.Duration

	// limit bounds the rate of the requests.
	limit *rate.Limiter
	// inFlight has an element for each request in flight.
	inFlight chan struct{}

	asking singleflight.Group
	// cache holds the answer about each object that was
	// requested. When it is full, an empty one replaces it.
	cache atomic.Pointer[cache.Expiring]
}

// newOwnerReader returns an ownerReader with an empty cache.
func newOwnerReader(watched, live client.Reader, kinds meta.RESTMapper, scheduler string, timeout time.Duration) *ownerReader {
	s := &ownerReader{
		watched: watched, live: live, kinds: kinds, scheduler: scheduler, timeout: timeout,
		limit: rate.NewLimiter(rate.Every(lookupInterval), maxLookupsInFlight), inFlight: make(chan struct{}, maxLookupsInFlight),
	}
	s.cache.Store(cache.NewExpiring())
	return s
}

type ownerKey struct {
	namespace string
	group.Owner
}

// An answer is the result of a request to the API server about an object.
type answer struct {
	known OwnerInfo
	ok    bool
}

// find implements lookup. It also returns false if ctx ends before there is an answer.
func (s *ownerReader) find(ctx context.Context, namespace string, o group.Owner) (OwnerInfo, bool) {
	if !o.CanExist() {
		return OwnerInfo{}, false
	}
	if known, ok := s.fromCache(ctx, namespace, o); ok {
		return known, true
	}
	key := ownerKey{namespace, o}
	if a, ok := s.cache.Load().Get(key); ok {
		return a.(answer).known, a.(answer).ok
	}
	// One request serves all pods that are created at this time. It
	// goes on even if the admission of the first of these pods ends.
	asked := s.asking.DoChan(fmt.Sprintf("%q", key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		known, err := s.askLimited(ctx, namespace, o)
		if errors.Is(err, errBusy) {
			// Nothing is known of the object: the next pod asks again.
			return answer{}, nil
		}
		if err != nil {
			klog.FromContext(ctx).V(4).Info("Cannot look up an owner of a pod", "kind", o.Kind, "object", klog.KRef(namespace, o.Name), "reason", err)
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

// fromCache finds an object in the controller's cache.
func (s *ownerReader) fromCache(ctx context.Context, namespace string, o group.Owner) (OwnerInfo, bool) {
	if !o.Watched() {
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
	return ownerInfoOf(o, group.ControllerOf(obj), spec, s.scheduler), err == nil
}

// errBusy is the error if too many requests are waiting.
var errBusy = errors.New("too many lookups wait")

// askLimited asks the API server as soon as the limits allow it, and fails if that would be after
// the deadline of ctx. The kind is mapped to an API before that, because this may take longer:
// otherwise owners of unknown kinds would block requests for known kinds.
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

// acquire waits until a request may be sent. It returns the function
// that ends the request. It fails with errBusy if ctx ends first.
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
		return OwnerInfo{}, fmt.Errorf("%s %s has UID %s, the reference has %s", o.Kind, o.Name, u.GetUID(), o.UID)
	}
	controller := group.ControllerOf(&u)
	if !controller.CanExist() {
		return OwnerInfo{}, errors.New("its controller reference is too long to be valid")
	}
	spec, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return OwnerInfo{}, fmt.Errorf("read the spec: %w", err)
	}
	return ownerInfoOf(o, controller, spec, s.scheduler), nil
}

// remember caches an answer. The cache drops answers that are out of date.
func (s *ownerReader) remember(key ownerKey, a answer) {
	if s.cache.Load().Len() >= maxRemembered {
		s.cache.Store(cache.NewExpiring())
	}
	s.cache.Load().Set(key, a, rememberFor)
}
