package fluence

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// endedPods has the pods that have ended, while the scheduler's cache may still count them on
// their nodes. The matcher's graph and the cache follow the cluster independently, and the cache
// is slower under load. The filters would reject a match that takes the room of such a pod. The
// zero value is ready for use.
type endedPods struct {
	mu sync.Mutex
	// pods is ordered by since, except that two ends at about the same time may be exchanged.
	pods []endedPod
	// keys has the keys of the slots in pods.
	keys sets.Set[string]
	// counted is true if slots has returned pods since the last call of takeCounted.
	counted bool
}

// endedPod is a pod of endedPods.
type endedPod struct {
	slot match.Slot
	// since is when the end was recorded.
	since time.Time
	// seenIn is the generation of the node's snapshot in which the pod was seen last.
	seenIn int64
}

// maxCacheLag is how long a pod is kept that the scheduler's cache does not drop.
const maxCacheLag = 30 * time.Second

// add records the end of the pod with this slot, once. Invariant: whoever
// makes the matcher release the slot of a bound pod calls add before.
func (e *endedPods) add(slot match.Slot, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expire(now)
	if e.keys.Has(slot.Key) {
		return
	}
	if e.keys == nil {
		e.keys = sets.New[string]()
	}
	e.keys.Insert(slot.Key)
	// A pod that has ended keeps only its amounts from others.
	// It keeps no group from the rest of the node.
	slot.Holder, slot.Shared = "", true
	e.pods = append(e.pods, endedPod{slot: slot, since: now})
}

// expire drops the pods that are older than maxCacheLag.
func (e *endedPods) expire(now time.Time) {
	old := 0
	for old < len(e.pods) && now.Sub(e.pods[old].since) > maxCacheLag {
		e.keys.Delete(e.pods[old].slot.Key)
		old++
	}
	clear(e.pods[:old])
	e.pods = e.pods[old:]
}

// slots returns the slots of the pods that a snapshot of the scheduler's
// cache still counts on their nodes. It drops the other pods.
func (e *endedPods) slots(snapshot fwk.NodeInfoLister, now time.Time) []match.Slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expire(now)
	var all []match.Slot
	present := e.pods[:0]
	for _, p := range e.pods {
		if p.isIn(snapshot) {
			all, present = append(all, p.slot), append(present, p)
		} else {
			e.keys.Delete(p.slot.Key)
		}
	}
	clear(e.pods[len(present):])
	e.pods = present
	e.counted = e.counted || len(all) > 0
	return all
}

// isIn reports whether a snapshot counts the pod on its node.
func (p *endedPod) isIn(snapshot fwk.NodeInfoLister) bool {
	node, err := snapshot.Get(p.slot.Node)
	if err != nil {
		return false
	}
	if node.GetGeneration() == p.seenIn {
		return true // the node is as it was
	}
	p.seenIn = node.GetGeneration()
	return slices.ContainsFunc(node.GetPods(), func(o fwk.PodInfo) bool { return string(o.GetPod().UID) == p.slot.Key })
}

// takeCounted reports whether slots has returned pods since the last call.
func (e *endedPods) takeCounted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.counted
	e.counted = false
	return was
}

// observedCache is a scheduler's cache that tells the plugin when it drops a pod.
type observedCache struct {
	internalcache.Cache
	pl *Fluence
}

// RemovePod implements Cache. If an attempt counted pods that had ended as present, the
// groups that wait for room may retry afterwards. The watcher does the same with each tick,
// because the cache may drop a pod between its snapshot and the attempt, or never.
func (c observedCache) RemovePod(logger klog.Logger, pod *corev1.Pod) error {
	err := c.Cache.RemovePod(logger, pod)
	if c.pl.endedPods.takeCounted() {
		c.pl.observeEvent(gang.Released)
	}
	return err
}
