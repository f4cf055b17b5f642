package fluence

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/fairqueue"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A reporter writes what becomes of groups onto their PodGroups: a condition,
// and an event when the reason changes. It writes from goroutines of its own,
// the latest news only, and nothing that is there already.
type reporter struct {
	podGroups *podGroups
	recorder  events.EventRecorder
	// leading says whether this scheduler is the one that decides: a standby sees
	// the same groups and must not speak of them.
	leading func() bool
	// plain says that the CRD of PodGroup was found to have no conditions.
	plain atomic.Bool
	// failed is told of each write that failed.
	failed func()
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// whole says of a group that runs what is told of its nodes; nil says nothing.
	whole func(types.NamespacedName) (whole bool, inVain string, life uint64)
	// first is closed while there is nothing that goes before conditions.
	first func() <-chan struct{}
	// writing counts the workers that are at it.
	writing atomic.Int32

	mu    sync.Mutex
	items map[types.NamespacedName]*item

	// ledMu is apart: to ask whether this scheduler leads reads all metrics.
	ledMu   sync.Mutex
	led     bool
	askedAt time.Time
}

// An item is what is known of one group; a successor of the same name has
// another.
type item struct {
	news
	// at is since when there is news to write.
	at time.Time
	// pod is where the news goes while there is no PodGroup.
	pod *corev1.Pod
	// told is the news that was written last, at the time toldAt, and since when
	// the condition has had that status.
	told   news
	toldAt time.Time
	since  metav1.Time
	// again counts the writes since then that only had other numbers.
	again int
	// onPod says that it was told on the pod.
	onPod bool
}

// standbyCheck is how often a standby looks whether it has come to lead.
const standbyCheck = time.Second

// Times between two writes of a condition for other numbers alone: the first, and
// the longest that it grows to while the reason stays. Many groups may wait.
const (
	numbersAfter = 5 * time.Second
	numbersEvery = 20 * time.Second
)

func newReporter(p *podGroups, recorder events.EventRecorder, leading func() bool, failed func()) *reporter {
	return &reporter{
		podGroups: p,
		recorder:  recorder,
		leading:   leading,
		failed:    failed,
		queue: fairqueue.New("",
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 30*time.Second),
			func(k types.NamespacedName) string { return k.Namespace }),
		items: map[types.NamespacedName]*item{},
	}
}

// report takes note of the latest news of a group. While there is no PodGroup it
// goes to pod, if that is not nil.
func (r *reporter) report(k types.NamespacedName, n news, pod *corev1.Pod) {
	if r.whole != nil {
		if n.whole, n.inVain, n.life = r.whole(k); !n.tellsOfNodes() {
			n.life = 0
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n.message = translate.Shorten(n.message)
	it := r.items[k]
	if it == nil {
		it = &item{}
		r.items[k] = it
	}
	if it.news == n {
		return
	}
	if it.told == it.news {
		it.at = time.Now()
	}
	it.news = n
	if pod != nil {
		it.pod = pod
	}
	r.queue.Add(k)
}

// latest returns the latest news of a group, whether or not it was written.
func (r *reporter) latest(k types.NamespacedName) (news, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	it, ok := r.items[k]
	if !ok {
		return news{}, false
	}
	return it.news, true
}

// forget drops what is known of a group that is gone.
func (r *reporter) forget(k types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.items, k)
}

// seen tells again what was told on a pod, now that there is a PodGroup.
func (r *reporter) seen(k types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it, ok := r.items[k]; ok && it.onPod {
		r.items[k] = &item{news: it.news, pod: it.pod}
		r.queue.Add(k)
	}
}

const (
	// reportWorkers write at the same time.
	reportWorkers = 4
	// reportWithin is how old news get at most while binds go before them.
	reportWithin = 2 * time.Second
)

// busy says that news wait to be written, or are being written.
func (r *reporter) busy() bool { return r.queue.Len() > 0 || r.writing.Load() > 0 }

// run writes until the queue is shut down.
func (r *reporter) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range reportWorkers {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
}

// yield waits until no bind waits, or until news have become old enough to go first.
func (r *reporter) yield(ctx context.Context, k types.NamespacedName) {
	r.mu.Lock()
	it := r.items[k]
	if it == nil || it.told == it.news {
		r.mu.Unlock()
		return
	}
	old := it.at.Add(reportWithin)
	r.mu.Unlock()
	await(ctx, r.first(), old)
}

func (r *reporter) work(ctx context.Context) {
	for {
		k, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		r.writing.Add(1)
		r.yield(ctx, k)
		if err := r.write(ctx, k); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Report on a group", "group", k)
			r.failed()
			r.queue.AddRateLimited(k)
		} else {
			r.queue.Forget(k)
		}
		r.writing.Add(-1)
		r.queue.Done(k)
	}
}

func (r *reporter) write(ctx context.Context, k types.NamespacedName) error {
	r.mu.Lock()
	own := r.items[k]
	var it item
	if own != nil {
		it = *own
	}
	r.mu.Unlock()
	if it.told == it.news {
		return nil
	}
	if !r.leads() {
		r.queue.AddAfter(k, standbyCheck)
		return nil
	}
	pg := r.podGroups.get(k)
	switch {
	case pg == nil:
		if it.pod != nil && it.told.reason != it.reason {
			r.event(it.pod, it.news)
		}
		it.onPod = true
		r.tell(own, it, metav1.Now())
		if r.podGroups.get(k) != nil {
			// It came meanwhile.
			r.seen(k)
		}
		return nil
	case it.reason == group.ReasonNoPodGroup:
		// It came to be meanwhile.
		r.drop(k, own)
		return nil
	}
	err := r.writeCondition(ctx, k, pg, own, it)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// It is gone, or another has its name: the informer will tell.
		r.drop(k, own)
		return nil
	}
	return err
}

// writeCondition writes the news onto the PodGroup, where they are news.
func (r *reporter) writeCondition(ctx context.Context, k types.NamespacedName, pg *scheduling.PodGroup, own *item, it item) error {
	before, since := it.told, it.since
	if old := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled); old != nil && it.toldAt.IsZero() {
		// Written by a scheduler before this one.
		before, since = newsOf(pg, old), old.LastTransitionTime
	}
	if before == it.news {
		r.tell(own, it, since)
		return nil
	}
	again := 0
	if before.reason == it.reason && before.whole == it.whole && before.inVain == it.inVain && before.life == it.life && !it.toldAt.IsZero() {
		wait := min(numbersEvery, numbersAfter<<min(it.again, 10))
		if left := wait - time.Since(it.toldAt); left > 0 {
			r.queue.AddAfter(k, left)
			return nil
		}
		again = it.again + 1
	}
	if before.status != it.status {
		since = metav1.Now()
	}
	conditions := []metav1.Condition{{
		Type:               ConditionScheduled,
		Status:             it.status,
		Reason:             it.reason,
		Message:            it.message,
		ObservedGeneration: pg.Generation,
		LastTransitionTime: since,
	}}
	if whole := it.wholeCondition(pg, before.life); whole.Type != "" {
		conditions = append(conditions, whole)
	}
	err := r.podGroups.apply(ctx, pg, conditions...)
	switch {
	case err == nil:
		r.plain.Store(false)
	case !scheduling.LacksField(err):
		return err
	case !r.plain.Swap(true):
		klog.FromContext(ctx).Error(err, "The CRD of PodGroup has no conditions, so reasons are told by events alone; apply manifests/crds", "crd", scheduling.CRDName)
	}
	if before.status != it.status || before.reason != it.reason {
		r.event(reference(pg), it.news)
	}
	it.again = again
	r.tell(own, it, since)
	return nil
}

// leads asks whether this scheduler leads, no more often than a standby has to.
func (r *reporter) leads() bool {
	r.ledMu.Lock()
	defer r.ledMu.Unlock()
	if now := time.Now(); now.Sub(r.askedAt) >= standbyCheck {
		r.led, r.askedAt = r.leading(), now
	}
	return r.led
}

// tell takes note that an item's news was written.
func (r *reporter) tell(own *item, told item, since metav1.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own.told, own.toldAt, own.since, own.onPod, own.again = told.news, time.Now(), since, told.onPod, told.again
}

// drop forgets an item, unless a successor has taken its place.
func (r *reporter) drop(k types.NamespacedName, own *item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.items[k] == own {
		delete(r.items, k)
	}
}

func (r *reporter) event(about runtime.Object, n news) {
	kind := cmp.Or(map[metav1.ConditionStatus]string{metav1.ConditionTrue: corev1.EventTypeNormal}[n.status], corev1.EventTypeWarning)
	r.recorder.Eventf(about, nil, kind, n.reason, "Scheduling", "%s", n.message)
}

func reference(pg *scheduling.PodGroup) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion:      scheduling.GroupVersion.String(),
		Kind:            "PodGroup",
		Namespace:       pg.Namespace,
		Name:            pg.Name,
		UID:             pg.UID,
		ResourceVersion: pg.ResourceVersion,
	}
}
