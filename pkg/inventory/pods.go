package inventory

import (
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A hold is the slot that a pod holds, and the job of the slot.
type hold struct {
	job  match.JobID
	slot match.Slot
}

// holdDelta is the change of a pod from the slots that it may hold in the engine to the slot that
// it holds in the cluster. Pods are identified by name, not by UID, because after an interrupted
// watch one update may replace a pod by another of the same name.
type holdDelta = delta[types.NamespacedName, []hold]

// setPod records a pod that was added or changed. was is the former object of this name, or nil.
func (i *Inventory) setPod(was, pod *corev1.Pod) {
	name := nameOf(pod)
	if was != nil && was.UID != pod.UID {
		i.ForgetBind(was) // it is gone
	}
	if !translate.Holds(pod) {
		if pod.Spec.NodeName != "" {
			i.ForgetBind(pod) // it has ended
		}
		i.removePod(name)
		return
	}
	i.readMu.Lock()
	defer i.readMu.Unlock()
	now := []hold{i.holdOf(pod)}
	job, matched, epoch := i.cfg.MatchedAs(pod)

	i.mu.Lock()
	defer i.mu.Unlock()
	if was != nil && was.UID != pod.UID {
		i.reportEnd(name)
	}
	now[0].keepEnd(i.holds.desired(name))
	now[0].keepEnd([]hold{{job, matched}})
	i.unindex(name)
	i.pods[pod.UID] = pod
	delete(i.sentBinds, pod.UID)
	if i.podsOn[pod.Spec.NodeName] == nil {
		i.podsOn[pod.Spec.NodeName] = sets.New[types.NamespacedName]()
	}
	i.podsOn[pod.Spec.NodeName].Insert(name)
	if epoch != 0 && epoch == i.epoch && now[0].isBookedAs(job, matched, i.cfg.Levels) && i.holds.addSent(name, now) {
		return
	}
	if i.holds.set(name, now, sameHolds) {
		if matched.Key != "" && matched.Key != now[0].slot.Key {
			// The pod has come to a slot that was held under another key. That
			// slot is released after the pod's own is booked.
			i.holds.mayHave(name, []hold{{job, matched}})
		}
		signal(i.wake)
	}
}

// isBookedAs reports whether what a Match has booked is what the pod holds. The Match
// names vertices, and the pod's slot names types.
func (h hold) isBookedAs(job match.JobID, matched match.Slot, levels []translate.Level) bool {
	return matched.R != nil && reflect.DeepEqual(normalize(hold{job, matched}, levels), h)
}

// sameEnd is by how much ends may differ that count as the same. The end that a Match books counts from its request, and
// that of the pod from its bind, in whole seconds.
const sameEnd = 2 * time.Second

// keepEnd keeps the end that the same slot has so far, if it is about the same.
func (h *hold) keepEnd(so []hold) {
	for _, o := range so {
		if o.slot.R == nil || o.slot.R.Expiration.IsZero() || h.slot.R.Expiration.IsZero() || !h.sameSlot(o) {
			continue
		}
		if d := h.slot.R.Expiration.Sub(o.slot.R.Expiration); d.Abs() <= sameEnd {
			h.slot.R = until(h.slot.R, o.slot.R.Expiration)
		}
	}
}

// holdOf returns the slot that a pod holds.
func (i *Inventory) holdOf(pod *corev1.Pod) hold {
	h := hold{job: i.cfg.JobOf(pod), slot: translate.HeldSlot(pod)}
	h.slot.R = until(i.canon.Amounts(h.slot.R.Vertices), i.cfg.EndOf(pod))
	if h.job == 0 {
		h.job = match.NewJobID("pod", string(pod.UID))
	}
	if !h.slot.Shared {
		h.slot.Holder = i.cfg.HolderOf(pod)
	}
	return h
}

// until returns a set that ends at a time. Sets without an end are shared.
func until(r *resource.Set, end time.Time) *resource.Set {
	if end.IsZero() {
		return r
	}
	return &resource.Set{Expiration: end.UTC(), Vertices: r.Vertices}
}

// recheck reads the pods of Recheck again.
func (i *Inventory) recheck() {
	i.readMu.Lock()
	defer i.readMu.Unlock()
	i.mu.Lock()
	var pods []*corev1.Pod
	for uid := range i.toRecheck {
		if pod := i.pods[uid]; pod != nil {
			pods = append(pods, pod)
		}
	}
	i.toRecheck = nil
	i.mu.Unlock()
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })

	for _, pod := range pods {
		name, now := nameOf(pod), i.holdOf(pod)
		i.mu.Lock()
		if i.pods[pod.UID] == pod { // it is not gone in the meantime
			now.keepEnd(i.holds.desired(name))
			i.holds.set(name, []hold{now}, sameHolds)
		}
		i.mu.Unlock()
	}
}

// unindex removes the pod of this name from pods and podsOn.
func (i *Inventory) unindex(name types.NamespacedName) {
	for _, h := range i.holds.desired(name) {
		delete(i.pods, types.UID(h.slot.Key))
		if i.podsOn[h.slot.Node].Delete(name); len(i.podsOn[h.slot.Node]) == 0 {
			delete(i.podsOn, h.slot.Node)
		}
	}
}

// dropPod records that a pod is gone. last is its last known state, which may be nil.
func (i *Inventory) dropPod(gone cache.ObjectName, last *corev1.Pod) {
	name := types.NamespacedName{Namespace: gone.Namespace, Name: gone.Name}
	if last != nil {
		i.ForgetBind(last)
	} else {
		i.forgetBinds(name)
	}
	i.removePod(name)
}

func (i *Inventory) removePod(pod types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reportEnd(pod)
	i.unindex(pod)
	if i.holds.drop(pod) {
		signal(i.wake)
	}
}

// reportEnd calls OnEnd for the pod of this name, if it holds something.
func (i *Inventory) reportEnd(pod types.NamespacedName) {
	for _, h := range i.holds.desired(pod) {
		i.cfg.OnEnd(h.slot)
	}
}

// sameSlot reports whether two holds have the same job and key, by which the engine knows them.
func (h hold) sameSlot(o hold) bool { return h.job == o.job && h.slot.Key == o.slot.Key }

func sameHolds(a, b []hold) bool { return reflect.DeepEqual(a, b) }

// addSkipped returns the slots that were sent for a pod and the slots that were skipped. The
// engine may have a skipped slot too, because a Match books a pod before the cluster shows it.
func addSkipped(sent, skipped []hold) []hold {
	return append(slices.Clip(sent), endedHolds(skipped, sent)...)
}

// endedHolds returns the slots of before that are not in after.
func endedHolds(before, after []hold) []hold {
	var gone []hold
	for _, h := range before {
		if !slices.ContainsFunc(after, h.sameSlot) {
			gone = append(gone, h)
		}
	}
	return gone
}
