package fluence

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// initEvictor builds the evictor. It is built whatever the mode is, because an earlier process may have left marks.
func (tl *groupReporter) initEvictor(leading func() bool) error {
	client, err := eviction.NewClient(tl.handle.KubeConfig())
	if err != nil {
		return err
	}
	tl.evictor = eviction.New(eviction.Config{
		API: queuedEvictions{client, tl.base}, Leading: leading, MayGo: tl.binder.bindQueue.whenIdle, Observe: tl.observeEviction, Failed: tl.counters.countFailedEviction, Now: func() time.Time { return tl.now() },
		PodOf: func(namespace, name string) *corev1.Pod {
			pod, err := tl.pods.Pods(namespace).Get(name)
			if err != nil {
				return nil // a lister that reads a cache fails only if there is no such pod
			}
			return pod
		},
	})
	return nil
}

// observeEviction tells users of a change of a plan. When a victim has gone, its new pods and the group for which it was
// evicted ask again. This group also asks again when it is known that a victim of an earlier process is going to end. It
// may have been refused before, without the room of that victim.
func (tl *groupReporter) observeEviction(c eviction.Change) {
	eviction.Tell(tl.recorder, c)
	tl.counters.countEviction(c)
	switch v := c.Victim; {
	case c.Outcome != "":
		tl.log.V(2).Info("A plan to evict others has changed", "group", c.For.Namespace+"/"+c.For.Name, "outcome", c.Outcome, "victims", len(c.Victims))
		return
	case c.Refusal != "":
		tl.observeEvent(gang.Released)
	case v.State == eviction.Gone, v.State == eviction.TakenBack:
		tl.log.V(2).Info("A victim needs no more requests for its eviction", "victim", v.Namespace+"/"+v.Name, "kind", v.Kind, "state", v.State)
		if key := eviction.KeyOf(v.Victim); key != (types.NamespacedName{}) {
			if v.State == eviction.TakenBack {
				tl.yields.drop(key)
			}
			tl.activator.activateGroups(key)
		}
		tl.observeEvent(gang.Released)
	case v.State == eviction.Ending && c.Resumed:
		tl.observeEvent(gang.Released)
	}
}

// abandonPlan ends the plan of a preemptor that needs it no more, if there is one. That is no failure of the plan.
func (b *base) abandonPlan(of types.UID) {
	b.evictor.Cancel(of, eviction.Abandoned)
	b.preemptions.abandon(of)
}

// endYields lets the groups go on that were evicted for a preemptor.
func endYields(b *base, of types.UID) {
	if keys := b.yields.end(of); len(keys) > 0 {
		b.activator.activateGroups(keys...)
	}
}

// endPlans says what has become of the plans of some preemptors.
func (b *base) endPlans(of []types.UID, o eviction.Outcome) {
	for _, uid := range of {
		b.evictor.Cancel(uid, o)
		endYields(b, uid)
	}
}

// resumeEvictions hands the marks that an earlier process has left to the evictor, once. It is called when this
// scheduler leads and has received the objects of the first lists, and before the first group asks for room.
func (b *base) resumeEvictions(podGroups bothPodGroups, owners *owners) {
	b.resumeOnce.Do(func() {
		found := b.findMarks(podGroups, owners)
		b.evictor.Resume(found...)
		for _, key := range podGroups.evictedSince(b.now().Add(-maxTakeover)) {
			b.yields.begin(key, yield{until: b.now().Add(unknownYield)})
		}
		for _, f := range found {
			if key := eviction.KeyOf(f.Victim); key != (types.NamespacedName{}) {
				b.yields.begin(key, yield{to: f.Mark.For.UID})
			}
		}
		if b.args.Promises.Depth > 0 {
			b.promises.expect(podGroups.promised())
		}
		b.resumed.Store(true)
		if len(found) > 0 {
			b.log.Info("An earlier scheduler has marked groups or pods for eviction", "number", len(found))
		}
	})
}

// isEvicted reports whether a group is being evicted for another one, or waits until that has nodes. Until the marks
// of an earlier process are handed to the evictor, each of them counts. It is called with the lock of the groups held.
func (tl *groupReporter) isEvicted(key types.NamespacedName) bool {
	if tl.evictor.IsMarked(key) || tl.yields.has(key) {
		return true
	}
	if tl.resumed.Load() {
		return false
	}
	_, marked := tl.podGroups.markOf(key)
	return marked
}

// markOf returns the mark of the PodGroup of a key.
func (b bothPodGroups) markOf(key types.NamespacedName) (eviction.Mark, bool) {
	if name, isNative := group.NativeName(key); isNative {
		if native := b.native.get(key.Namespace, name); native != nil {
			return eviction.OfNative(native.Status.Conditions)
		}
		return eviction.Mark{}, false
	}
	if pg := b.podGroups.Get(key); pg != nil {
		return eviction.OfPodGroup(pg.Status.Conditions)
	}
	return eviction.Mark{}, false
}

// marked returns the PodGroups that have a mark, without their pods.
func (b bothPodGroups) marked() map[types.NamespacedName]*eviction.Found {
	all := map[types.NamespacedName]*eviction.Found{}
	add := func(kind preemption.Kind, key types.NamespacedName, name string, uid types.UID) {
		if m, is := b.markOf(key); is {
			all[key] = &eviction.Found{Mark: m, Victim: preemption.Victim{Kind: kind, Namespace: key.Namespace, Name: name, UID: uid, Priority: m.Priority}}
		}
	}
	for _, obj := range b.podGroups.informer.GetStore().List() {
		pg := obj.(*scheduling.PodGroup)
		add(preemption.Group, types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}, pg.Name, pg.UID)
	}
	for _, obj := range b.native.informer.GetStore().List() {
		pg := obj.(*schedulingv1beta1.PodGroup)
		add(preemption.NativeGroup, group.NativeKey(pg.Namespace, pg.Name), pg.Name, pg.UID)
	}
	return all
}

// findMarks returns the groups that have a mark, and the other pods that have one.
func (b *base) findMarks(podGroups bothPodGroups, owners *owners) (found []eviction.Found) {
	groups := podGroups.marked()
	// A lister that reads a cache does not fail.
	pods, _ := b.pods.List(labels.Everything())
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			continue
		}
		id, of := group.IdentityOf(pod, owners), preemption.VictimPod{Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName}
		switch f := groups[id.Key]; {
		case f != nil && id.InPodGroup && !translate.Holds(pod):
			f.Ended++
		case f != nil && id.InPodGroup:
			f.Victim.Pods = append(f.Victim.Pods, of)
			if f.Victim.Suspend.UID == "" && f.Mark.Suspends != "" {
				f.Victim.Suspend = owners.above(pod, f.Mark.Suspends)
			}
		case translate.Holds(pod):
			if m, is := eviction.OfPod(pod); is {
				// A pod of a group without a mark has its own from when it was alone, or from an eviction that was taken back.
				found = append(found, eviction.Found{Mark: m, Victim: preemption.Victim{
					Kind: preemption.Pod, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Priority: m.Priority, Pods: []preemption.VictimPod{of},
				}})
			}
		}
	}
	for _, f := range groups {
		found = append(found, *f)
	}
	return found
}

// above returns the object with a UID among those that control a pod. It returns the zero Owner if there is none.
func (o *owners) above(pod *corev1.Pod, uid types.UID) group.Owner {
	for at, known := group.ControllerOf(pod), true; known && at != (group.Owner{}); at, known = o.ControllerOf(pod.Namespace, at) {
		if at.UID == uid {
			return at
		}
	}
	return group.Owner{}
}
