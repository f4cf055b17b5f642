package fluence

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// maxYield is for how long a group that was evicted waits for its preemptor after the last of its pods has gone.
	maxYield = 10 * time.Second
	// unknownYield is for how long it waits if an earlier process has evicted it, and the preemptor is not known.
	unknownYield = 5 * time.Second
	// maxTakeover is how long ago an eviction may have ended for that: the lease of a process that was killed lasts 15
	// seconds, and the next process takes some to start.
	maxTakeover = 30 * time.Second
)

// yields are the groups that were evicted and wait until their preemptor has nodes. Their owners make new pods at once.
// If these did not wait, they could take the room back before the preemptor asks, and it would evict more. The preemptor
// asks late if its search for room took too long, or if the scheduler was restarted. The zero value is ready for use.
type yields struct {
	mu  sync.Mutex
	all map[types.NamespacedName]yield
}

// A yield says for whom a group waits, and for how long.
type yield struct {
	// to is the UID of the preemptor. It is empty if that is not known.
	to types.UID
	// until is when the group waits no longer. It is zero while pods of it are evicted.
	until time.Time
}

// begin makes a group wait that is to be evicted for a preemptor.
func (y *yields) begin(key types.NamespacedName, of yield) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.all == nil {
		y.all = map[types.NamespacedName]yield{}
	}
	y.all[key] = of
}

// drop lets a group go on that is not evicted after all.
func (y *yields) drop(key types.NamespacedName) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.all, key)
}

// has reports whether a group waits.
func (y *yields) has(key types.NamespacedName) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	_, has := y.all[key]
	return has
}

// end lets the groups go on that wait for a preemptor, and returns them.
func (y *yields) end(to types.UID) (keys []types.NamespacedName) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for key, of := range y.all {
		if of.to == to {
			delete(y.all, key)
			keys = append(keys, key)
		}
	}
	return keys
}

// over lets the groups go on that have waited long enough, and returns them. isMarked reports whether pods of a
// group are evicted.
func (y *yields) over(now time.Time, isMarked func(types.NamespacedName) bool) (keys []types.NamespacedName) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for key, of := range y.all {
		switch {
		case of.until.IsZero() && isMarked(key):
		case of.until.IsZero():
			of.until = now.Add(maxYield)
			y.all[key] = of
		case !now.Before(of.until):
			delete(y.all, key)
			keys = append(keys, key)
		}
	}
	return keys
}

// evictedSince returns the groups of which the last pod that was evicted has gone after a time.
func (b bothPodGroups) evictedSince(at time.Time) (keys []types.NamespacedName) {
	evicted := func(conditions []metav1.Condition, kind string) bool {
		c := meta.FindStatusCondition(conditions, kind)
		return c != nil && c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(at)
	}
	for _, obj := range b.podGroups.informer.GetStore().List() {
		if pg := obj.(*scheduling.PodGroup); evicted(pg.Status.Conditions, eviction.ConditionPreempted) {
			keys = append(keys, types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name})
		}
	}
	for _, obj := range b.native.informer.GetStore().List() {
		if pg := obj.(*schedulingv1beta1.PodGroup); evicted(pg.Status.Conditions, string(corev1.DisruptionTarget)) {
			keys = append(keys, group.NativeKey(pg.Namespace, pg.Name))
		}
	}
	return keys
}
