package podgroup

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// apiServer is the answer of the API server itself about every owner.
type apiServer struct {
	client.Client
	uid types.UID
	err error
}

func (s apiServer) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetUID(s.uid)
	return s.err
}

// List returns no objects.
func (apiServer) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// After the API server was away, a cache may show for a minute an owner that is long
// gone. Meanwhile the garbage collector removes at once what is created for this owner.
func TestMayMake(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	owned := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "job-train-1",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "1"}},
	}}
	bare := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "crew"}}
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	gone := apiServer{err: apierrors.NewNotFound(jobs, "train")}
	cases := map[string]struct {
		pg      *scheduling.PodGroup
		made    time.Duration // ago; 0 means never
		server  apiServer
		want    bool
		wantErr bool
	}{
		"one that was never made is made unasked":      {pg: owned, server: gone, want: true},
		"one of long ago, too":                         {pg: owned, made: time.Hour, server: gone, want: true},
		"one of nobody's, too":                         {pg: bare, made: time.Second, server: gone, want: true},
		"its owner is gone":                            {pg: owned, made: time.Second, server: gone},
		"its owner has a successor":                    {pg: owned, made: time.Second, server: apiServer{uid: "2"}},
		"its owner is there: somebody else removed it": {pg: owned, made: time.Second, server: apiServer{uid: "1"}, want: true},
		"its owner may not be read":                    {pg: owned, made: time.Second, server: apiServer{err: apierrors.NewForbidden(jobs, "train", nil)}, want: true},
		"the server does not say":                      {pg: owned, made: time.Second, server: apiServer{err: errors.New("away")}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &reconciler{live: tc.server}
			if tc.made > 0 {
				r.rememberCreation(client.ObjectKeyFromObject(tc.pg), now.Add(-tc.made))
			}
			got, err := r.mayCreate(t.Context(), tc.pg, now)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("mayMake() = %v, %v; want %v, an error: %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestWhatWasMadeLongAgoIsForgotten(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	r := &reconciler{}
	for i := range 3 * minSweepSize {
		r.rememberCreation(types.NamespacedName{Namespace: "ns", Name: time.Duration(i).String()}, now.Add(time.Duration(i)*recreateWindow/100))
	}
	if n := len(r.lastCreated); n > minSweepSize+100 {
		t.Errorf("%d are remembered, want at most about %d", n, minSweepSize)
	}
}

// A PodGroup that the controller has removed itself is made anew for the next run, and not made again.
func TestAPodGroupThatTheControllerRemovedIsForgotten(t *testing.T) {
	o := observation{key: key, now: now, podGroup: podGroup(1)}
	r := fakeReconciler(t, o.podGroup)
	r.live = apiServer{}
	if err := r.client.Get(t.Context(), key, o.podGroup); err != nil {
		t.Fatal(err)
	}
	r.rememberCreation(key, now)
	if err := r.remove(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if r.rememberCreation(key, now.Add(time.Minute)) {
		t.Error("the PodGroup of the next run counts as made again")
	}
}
