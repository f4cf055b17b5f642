package inventory

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A hold is the slot that a pod holds, and the job that it counts as.
type hold struct {
	job  match.JobID
	slot match.Slot
}

// holdStep is the way of a pod from the slots it may hold in the engine to the
// one that it holds in the cluster. Pods go by name, not by UID: where a watch
// was interrupted, a pod may turn into its successor in one update.
type holdStep = step[types.NamespacedName, []hold]

func (i *Inventory) setPod(pod *corev1.Pod) {
	name := nameOf(pod)
	if !translate.Holds(pod) {
		i.release(name, pod)
		return
	}
	i.reading.Lock()
	defer i.reading.Unlock()
	now := []hold{i.read(pod)}

	i.mu.Lock()
	defer i.mu.Unlock()
	i.forget(name)
	i.pods[pod.UID] = pod
	i.forgetBind(name, pod.UID)
	if i.on[pod.Spec.NodeName] == nil {
		i.on[pod.Spec.NodeName] = sets.New[types.NamespacedName]()
	}
	i.on[pod.Spec.NodeName].Insert(name)
	if i.holds.want(name, now, sameHolds) {
		signal(i.wake)
	}
}

// read returns what a pod holds.
func (i *Inventory) read(pod *corev1.Pod) hold {
	h := hold{job: i.cfg.JobOf(pod), slot: translate.Held(pod)}
	if h.job == 0 {
		h.job = match.NewJobID("pod", string(pod.UID))
	}
	if !h.slot.Shared {
		h.slot.Holder = i.cfg.HolderOf(pod)
	}
	return h
}

// recheck reads the pods anew that Recheck was given.
func (i *Inventory) recheck() {
	i.reading.Lock()
	defer i.reading.Unlock()
	i.mu.Lock()
	var pods []*corev1.Pod
	for uid := range i.doubted {
		if pod := i.pods[uid]; pod != nil {
			pods = append(pods, pod)
		}
	}
	i.doubted = nil
	i.mu.Unlock()
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })

	for _, pod := range pods {
		name, now := nameOf(pod), i.read(pod)
		i.mu.Lock()
		if i.pods[pod.UID] == pod { // and is not gone meanwhile
			i.holds.want(name, []hold{now}, sameHolds)
		}
		i.mu.Unlock()
	}
}

// forgetBinds forgets the bind that was sent for a pod which has ended or is gone, and none
// that was sent for another that has its name now.
func (i *Inventory) forgetBinds(name types.NamespacedName, pod *corev1.Pod) {
	uid := i.sent[name].uid
	switch holds := i.holds.wanted(name); {
	case pod != nil && pod.UID == uid && pod.Spec.NodeName == "":
		return // it waits
	case pod == nil && len(holds) > 0 && holds[0].slot.Key != string(uid):
		return // it is another that is gone
	}
	i.forgetBind(name, uid)
}

// forget forgets the pod that a name stood for.
func (i *Inventory) forget(name types.NamespacedName) {
	for _, h := range i.holds.wanted(name) {
		delete(i.pods, types.UID(h.slot.Key))
		if i.on[h.slot.Node].Delete(name); len(i.on[h.slot.Node]) == 0 {
			delete(i.on, h.slot.Node)
		}
	}
}

func (i *Inventory) dropPod(name cache.ObjectName) {
	i.release(types.NamespacedName{Namespace: name.Namespace, Name: name.Name}, nil)
}

// release takes note that a pod holds nothing, of which the cluster shows what it is now;
// nil is that it is gone.
func (i *Inventory) release(name types.NamespacedName, pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forgetBinds(name, pod)
	i.forget(name)
	if i.holds.drop(name) {
		signal(i.wake)
	}
}

// sameSlot reports whether the engine knows both by the same job and key.
func (h hold) sameSlot(o hold) bool { return h.job == o.job && h.slot.Key == o.slot.Key }

func sameHolds(a, b []hold) bool { return reflect.DeepEqual(a, b) }

// mayHold adds to what the engine was sent for a pod what it was not, and may
// have all the same: a Match books a pod before the cluster tells of it.
func mayHold(sent, skipped []hold) []hold {
	return append(slices.Clip(sent), ended(skipped, sent)...)
}

// ended lists the slots of before that are not in after.
func ended(before, after []hold) []hold {
	var gone []hold
	for _, h := range before {
		if !slices.ContainsFunc(after, h.sameSlot) {
			gone = append(gone, h)
		}
	}
	return gone
}
