package podgroup

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A group waits for one group of another namespace, not for all thousand.
func TestNobodyWaitsForTheGroupsOfAnotherNamespace(t *testing.T) {
	r := &reconciler{config: Config{Workers: 3, Timeout: time.Second}}
	options := r.options()
	if options.MaxConcurrentReconciles != 3 || options.ReconciliationTimeout != time.Second {
		t.Errorf("it runs with %d workers and %v each, want what its configuration says", options.MaxConcurrentReconciles, options.ReconciliationTimeout)
	}
	q := options.NewQueue("test", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute))
	defer q.ShutDown()
	request := func(namespace, name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	for i := range 1000 {
		q.Add(request("many", fmt.Sprint(i)))
	}
	q.Add(request("one", "0"))
	for n := 1; ; n++ {
		r, _ := q.Get()
		q.Done(r)
		if r == request("one", "0") {
			break
		}
		if n == 2 {
			t.Fatalf("the group of another namespace waits behind %d", n)
		}
	}
}
