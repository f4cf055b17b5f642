package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-k8s/fluence/pkg/group"
)

// seeing returns an ownerReader that has Jobs in the cache, and asks
// for other kinds. get is called before each request to the API server.
func seeing(get func(context.Context) error, cached, live []client.Object) *ownerReader {
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{batchv1.SchemeGroupVersion, appsv1.SchemeGroupVersion})
	kinds.Add(schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, meta.RESTScopeNamespace)
	kinds.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, meta.RESTScopeNamespace)
	build := func(objs []client.Object) *fake.ClientBuilder {
		return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objs...)
	}
	asked := build(live).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := get(ctx); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	return newOwnerReader(build(cached).Build(), asked, kinds, "fluence", time.Second)
}

func replicaSet(name string, controller group.Owner) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf("ReplicaSet", name)}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3))}}
	if controller != (group.Owner{}) {
		rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: controller.Group + "/v1", Kind: controller.Kind, Name: controller.Name, UID: controller.UID, Controller: new(true)}}
	}
	return rs
}

func TestFind(t *testing.T) {
	web := owner("apps", "Deployment", "web")
	cases := map[string]struct {
		owner group.Owner
		want  OwnerInfo
		seen  bool
		asked int32
	}{
		"a Job that is watched is not asked for": {
			owner: owner("batch", "Job", "watched"), want: OwnerInfo{Size: group.Size{Size: 4, Min: 4}}, seen: true,
		},
		"a Job that is not watched yet": {
			owner: owner("batch", "Job", "fresh"), want: OwnerInfo{Size: group.Size{Size: 5, Min: 5}}, seen: true, asked: 1,
		},
		"a Job whose predecessor of the same name is watched": {
			owner: group.Owner{Group: "batch", Kind: "Job", Name: "watched", UID: "successor"}, want: OwnerInfo{Size: group.Size{Size: 6, Min: 6}}, seen: true, asked: 1,
		},
		"a ReplicaSet that is watched": {
			owner: owner("apps", "ReplicaSet", "web-2"), want: OwnerInfo{Controller: web, Size: group.Size{Size: 3, Min: 1}}, seen: true,
		},
		"a StatefulSet that is watched": {
			owner: owner("apps", "StatefulSet", "db"), want: OwnerInfo{Size: group.Size{Size: 2, Min: 2}}, seen: true,
		},
		"an object that a Deployment controls": {
			owner: owner("apps", "ReplicaSet", "web-1"), want: OwnerInfo{Controller: web, Size: group.Size{Size: 3, Min: 1}}, seen: true, asked: 1,
		},
		"an object whose successor has its name": {
			owner: group.Owner{Group: "apps", Kind: "ReplicaSet", Name: "web-1", UID: "predecessor"}, asked: 1,
		},
		"an object that is gone": {
			owner: owner("apps", "ReplicaSet", "gone"), asked: 1,
		},
		"a kind that the API server does not know": {
			owner: owner("jobset.x-k8s.io", "JobSet", "set"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			s := seeing(func(context.Context) error { asked.Add(1); return nil },
				[]client.Object{aJob("watched", uidOf("Job", "watched"), 4), replicaSet("web-2", web), statefulSet("db")},
				[]client.Object{aJob("fresh", uidOf("Job", "fresh"), 5), aJob("watched", "successor", 6), replicaSet("web-1", web)})
			for range 2 { // the second time from memory
				got, seen := s.find(t.Context(), "ns", tc.owner)
				if got != tc.want || seen != tc.seen {
					t.Errorf("find(%v) = %v, %t, want %v, %t", tc.owner, got, seen, tc.want, tc.seen)
				}
			}
			if asked.Load() != tc.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), tc.asked)
			}
			if _, seen := s.find(t.Context(), "other", tc.owner); seen {
				t.Error("it is seen in another namespace")
			}
		})
	}
}

func aJob(name string, uid types.UID, parallelism int32) client.Object {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}, Spec: batchv1.JobSpec{Parallelism: &parallelism}}
}

func statefulSet(name string) client.Object {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uidOf("StatefulSet", name)},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(2)), PodManagementPolicy: appsv1.ParallelPodManagement},
	}
}

func TestFindIsAskedOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answer := make(chan struct{})
		s := seeing(func(ctx context.Context) error {
			asked.Add(1)
			select {
			case <-answer:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil, []client.Object{replicaSet("web-1", group.Owner{})})
		var seen atomic.Int32
		for range 100 {
			go func() {
				if _, ok := s.find(t.Context(), "ns", owner("apps", "ReplicaSet", "web-1")); ok {
					seen.Add(1)
				}
			}()
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if _, ok := s.find(impatient, "ns", owner("apps", "ReplicaSet", "web-1")); ok {
			t.Error("seen before there is an answer")
		}
		synctest.Wait()
		close(answer)
		synctest.Wait()
		if asked.Load() != 1 || seen.Load() != 100 {
			t.Errorf("asked %d times, %d saw it, want 1 and 100", asked.Load(), seen.Load())
		}
		time.Sleep(rememberFor) // of the bubble's clock
		if _, ok := s.find(t.Context(), "ns", owner("apps", "ReplicaSet", "web-1")); !ok || asked.Load() != 2 {
			t.Errorf("asked %d times after the memory ran out, want 2", asked.Load())
		}
	})
}

func TestFindGivesUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeing(func(ctx context.Context) error { <-ctx.Done(); return errors.New("the API server does not answer") }, nil, nil)
		begin := time.Now()
		if _, ok := s.find(t.Context(), "ns", owner("apps", "ReplicaSet", "web-1")); ok || time.Since(begin) != s.timeout {
			t.Errorf("gave up after %v, want %v", time.Since(begin), s.timeout)
		}
	})
}

// A user who causes requests for a thousand different objects
// uses only a part of the requests that the controller may send.
func TestFindAsksNoMoreThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, now, most atomic.Int32
		s := seeing(func(ctx context.Context) error {
			asked.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(10 * time.Millisecond)
			return nil
		}, nil, nil)
		var known sync.WaitGroup
		for i := range 1000 {
			known.Go(func() { s.find(t.Context(), "ns", owner("apps", "ReplicaSet", fmt.Sprint("other-", i))) })
		}
		known.Wait()
		if got, want := asked.Load(), int32(maxLookupsInFlight+s.timeout/lookupInterval); got > want || got < want/2 || most.Load() > maxLookupsInFlight {
			t.Errorf("asked %d times, %d at once, want at most %d and %d", got, most.Load(), want, maxLookupsInFlight)
		}
		time.Sleep(time.Second)
		before := asked.Load()
		s.find(t.Context(), "ns", owner("apps", "ReplicaSet", "new"))
		if asked.Load() != before+1 {
			t.Error("it does not ask again")
		}
	})
}

// slowKinds takes long to find out that a kind is not served.
type slowKinds struct {
	meta.RESTMapper
	takes time.Duration
}

func (k slowKinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := k.RESTMapper.RESTMapping(kind, versions...)
	if err != nil {
		time.Sleep(k.takes)
	}
	return found, err
}

// Owners of other kinds are found, however many owners of unknown kinds
// pods name, and however long it takes to find out that these are unknown.
func TestWhoWaitsForAKindHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeing(func(context.Context) error { return nil }, nil, []client.Object{replicaSet("web-1", group.Owner{})})
		s.kinds = slowKinds{s.kinds, 5 * time.Second}
		var known sync.WaitGroup
		for i := range 10 * maxLookupsInFlight {
			known.Go(func() { s.find(t.Context(), "ns", owner("example.com", "Kind", fmt.Sprint("o-", i))) })
		}
		synctest.Wait()
		begin := time.Now()
		if _, ok := s.find(t.Context(), "ns", owner("apps", "ReplicaSet", "web-1")); !ok || time.Since(begin) > lookupInterval {
			t.Errorf("an owner of a kind that is served is found: %t, after %s; want it at once", ok, time.Since(begin))
		}
		known.Wait()
	})
}

func TestFindRemembersNotTooMuch(t *testing.T) {
	s := seeing(func(context.Context) error { return nil }, nil, nil)
	for i := range 3 * maxRemembered {
		s.remember(ownerKey{"ns", group.Owner{Name: string(rune(i))}}, answer{})
	}
	if n := s.cache.Load().Len(); n > maxRemembered {
		t.Errorf("remembers %d objects, want at most %d", n, maxRemembered)
	}
}

// What is remembered of one reference is bounded in size.
func TestFindRemembersNothingThatCannotExist(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	asked := 0
	s := seeing(func(context.Context) error { asked++; return nil }, nil,
		[]client.Object{replicaSet("of-nobody", group.Owner{Group: "apps", Kind: "Deployment", Name: "web", UID: types.UID(long)})})
	for what, o := range map[string]group.Owner{
		"a UID":   {Group: "apps", Kind: "ReplicaSet", Name: "a", UID: types.UID(long)},
		"a name":  {Group: "apps", Kind: "ReplicaSet", Name: long, UID: "1"},
		"a kind":  {Group: "apps", Kind: long, Name: "a", UID: "1"},
		"a group": {Group: long, Kind: "ReplicaSet", Name: "a", UID: "1"},
	} {
		if _, ok := s.find(t.Context(), "ns", o); ok || asked > 0 || s.cache.Load().Len() > 0 {
			t.Errorf("%s of a megabyte: seen %t, asked %d times, remembers %d objects", what, ok, asked, s.cache.Load().Len())
		}
	}
	ofNobody := owner("apps", "ReplicaSet", "of-nobody")
	if known, ok := s.find(t.Context(), "ns", ofNobody); ok || asked != 1 {
		t.Errorf("an object that such a one controls: seen %t, asked %d times", ok, asked)
	} else if n := len(known.Controller.UID); n > 0 {
		t.Errorf("a UID of %d bytes is remembered", n)
	}
	if a, ok := s.cache.Load().Get(ownerKey{"ns", ofNobody}); !ok || a.(answer) != (answer{}) {
		t.Errorf("remembered of it: %t, %+v; want that it is not seen", ok, a)
	}
}

func TestFindForgetsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeing(func(context.Context) error { return nil }, nil, nil)
		for i := range 100 {
			s.find(t.Context(), "ns", owner("apps", "ReplicaSet", fmt.Sprint("other-", i)))
		}
		if n := s.cache.Load().Len(); n != 100 {
			t.Fatalf("remembers %d objects, want 100", n)
		}
		time.Sleep(rememberFor) // of the bubble's clock
		s.find(t.Context(), "ns", owner("apps", "ReplicaSet", "new"))
		if n := s.cache.Load().Len(); n != 1 {
			t.Errorf("remembers %d objects when all others are out of date, want 1", n)
		}
	})
}
