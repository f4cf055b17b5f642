package podgroup

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// BenchmarkAPodEvent measures what the controller does for one pod of a group: it handles the
// event that the pod runs, and reconciles the group. It writes nothing. The cache is a real one.
func BenchmarkAPodEvent(b *testing.B) {
	for _, size := range []int{8, 512, 4096} {
		b.Run(fmt.Sprintf("of=%d", size), func(b *testing.B) {
			config := DefaultConfig()
			config.CountDelay, config.StatusDelay = time.Hour, time.Hour
			members := pods(size, bound)
			for i, pod := range members {
				pod.Name = fmt.Sprintf("p%04d", i)
				pod.UID = types.UID(pod.Name)
			}
			pg := podGroup(int32(size))
			c := servedBy(b, config, pg, members)
			r := &reconciler{config: config, client: c, ownerReader: newOwnerReader(c, clock.RealClock{}, "fluence"), clock: clock.RealClock{}, memories: map[types.NamespacedName]memory{}, pods: newPodIndex(), passing: rate.NewLimiter(rate.Inf, 0)}
			q := priorityqueue.New[ctrl.Request]("bench")
			defer q.ShutDown()
			h, ctx := r.podEvents(), b.Context()
			for _, pod := range members {
				h.Create(ctx, event.CreateEvent{Object: pod}, q)
			}
			running := make([]*corev1.Pod, size)
			for i, pod := range members {
				running[i] = pod.DeepCopy()
				running[i].Status.Phase = corev1.PodRunning
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				// Every pod but the last runs and is pending again, so that the group never runs.
				e := event.UpdateEvent{ObjectOld: members[i/2%(size-1)], ObjectNew: running[i/2%(size-1)]}
				if i%2 == 1 {
					e.ObjectOld, e.ObjectNew = e.ObjectNew, e.ObjectOld
				}
				h.Update(ctx, e, q)
				if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// servedBy returns a client with a cache like the controller's, which holds a PodGroup and its pods.
func servedBy(b *testing.B, config Config, pg *scheduling.PodGroup, members []*corev1.Pod) client.Client {
	b.Helper()
	pg.Status.Phase, pg.Status.Scheduled = scheduling.PodGroupScheduling, int32(len(members))
	o := observation{key: key, podGroup: pg, now: now}.with(pg, members)
	pg.Status = nextStatus(o, config.wantedSize(o))
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, pod := range members {
		list.Items = append(list.Items, *pod)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var answer any = metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		switch query := req.URL.Query(); {
		case query.Get("sendInitialEvents") == "true":
			http.Error(w, "no streaming lists", http.StatusBadRequest)
			return
		case query.Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-req.Context().Done() // nothing ever changes
			return
		case req.URL.Path == "/api/v1/pods":
			answer = list
		case req.URL.Path == "/apis/"+scheduling.GroupVersion.String()+"/podgroups":
			answer = &scheduling.PodGroupList{ListMeta: list.ListMeta, Items: []scheduling.PodGroup{*pg}}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			b.Error(err)
		}
	}))
	b.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, scheduling.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, gv := range []struct {
		kind string
		at   string
	}{{"Pod", "v1"}, {"Job", "batch/v1"}, {"ReplicaSet", "apps/v1"}, {"StatefulSet", "apps/v1"}, {"PodGroup", scheduling.GroupVersion.String()}} {
		mapper.Add(schema.FromAPIVersionAndKind(gv.at, gv.kind), meta.RESTScopeNamespace)
	}
	rc := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	options := CacheOptions(config)
	options.Scheme, options.Mapper = scheme, mapper
	held, err := cache.New(rc, options)
	if err != nil {
		b.Fatal(err)
	}
	for _, obj := range []client.Object{&batchv1.Job{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}} {
		if err := held.IndexField(b.Context(), obj, groupIndex, possibleGroupNames); err != nil {
			b.Fatal(err)
		}
	}
	go func() { _ = held.Start(b.Context()) }()
	if !held.WaitForCacheSync(b.Context()) {
		b.Fatal("the cache has not been filled")
	}
	c, err := client.New(rc, client.Options{Scheme: scheme, Mapper: mapper, Cache: &client.CacheOptions{Reader: held, EnableReadYourWritesConsistency: new(true)}})
	if err != nil {
		b.Fatal(err)
	}
	return c
}
