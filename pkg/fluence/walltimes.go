package fluence

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/pkg/walltime"
)

// podsByJob is the name of the index of pods by the UID of the Job that controls them.
const podsByJob = "fluence.podsByJob"

// walltimes knows when the room of pods is expected to be free again.
type walltimes struct {
	owners *owners
	groups *gang.Groups
	// annotationsOf returns the annotations of the PodGroup of a group.
	annotationsOf func(types.NamespacedName) map[string]string
	// endOfJob returns when the room of a group's job in a queue is free again. It returns false if the group has none.
	endOfJob func(types.NamespacedName) (time.Time, bool)
	pods     cache.Indexer
	now      func() time.Time
	// enforced reports whether the controller ends pods after their duration.
	enforced bool
}

// indexPodsByJob adds the index podsByJob to an informer of pods, unless it has it from an attempt before.
func indexPodsByJob(pods cache.SharedIndexInformer) error {
	if pods.GetIndexer().GetIndexers()[podsByJob] != nil {
		return nil
	}
	err := pods.AddIndexers(cache.Indexers{podsByJob: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		if of := group.ControllerOf(pod); isJob(of) {
			return []string{string(of.UID)}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("index pods by Job: %w", err)
	}
	return nil
}

// ofJob returns the UIDs of the pods of a Job.
func (w *walltimes) ofJob(job types.UID) (uids []types.UID) {
	pods, err := w.pods.ByIndex(podsByJob, string(job))
	if err != nil {
		return nil
	}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}

// maxOverrun is for how long a pod that is past its end counts as ending at any moment. Then it counts as one without
// an end: otherwise pods that nobody ends could keep others from room that is promised from their ends on.
const maxOverrun = 5 * time.Minute

// expectedEnd returns when the room of a pod with a node is expected to be free. A pod that has gone on beyond a duration that
// nobody keeps ends at its deadline. expectedEnd returns the zero time if no end is known.
func (w *walltimes) expectedEnd(pod *corev1.Pod) time.Time {
	if translate.OnEveryNode(pod) {
		return time.Time{} // it does not end to make room
	}
	key, _ := w.groups.KeyOf(pod.UID)
	end := walltime.EndOf(pod, w.bounds(pod, w.annotationsOf(key)), time.Time{})
	if at, ok := w.endOfJob(key); ok {
		end.Expected = at // its queue has the room free by then
	}
	for _, at := range []time.Time{end.Expected, end.Kept} {
		if !at.IsZero() && w.now().Sub(at) <= maxOverrun {
			return at
		}
	}
	return time.Time{}
}

// needed returns for how long the pods of a plan hold their nodes at most if they are bound now. It returns 0 if
// nobody enforces an end.
func (w *walltimes) needed(plan gang.Plan, now time.Time) time.Duration {
	if end, ok := w.endOfJob(plan.Key); ok {
		return walltime.Until(end, now)
	}
	annotations := w.annotationsOf(plan.Key)
	var last walltime.End
	for i, pods := range [][]*corev1.Pod{plan.Required, plan.Optional} {
		for j, pod := range pods {
			end := walltime.EndOf(pod, w.bounds(pod, annotations), now)
			if i+j > 0 {
				end = walltime.Last(last, end)
			}
			if last = end; last.Kept.IsZero() {
				return 0
			}
		}
	}
	return walltime.Until(last.Kept, now)
}

// bounds returns what bounds the time of a pod whose PodGroup has these annotations. A duration that is
// wrong is none: a group that has not started is refused for it.
func (w *walltimes) bounds(pod *corev1.Pod, podGroup map[string]string) walltime.Bounds {
	b := walltime.Bounds{Enforced: w.enforced}
	b.Duration, _ = group.ParseDuration(group.Annotation(group.DurationAnnotation, podGroup, pod))
	if of := group.ControllerOf(pod); isJob(of) {
		b.JobDeadline = w.owners.deadline(pod.Namespace, of)
	}
	return b
}

// jobDeadline returns when the first Job of a plan's pods is ended. It returns the zero time if none is.
func (w *walltimes) jobDeadline(plan gang.Plan) (first time.Time) {
	for _, pod := range plan.Required {
		if at := w.bounds(pod, nil).JobDeadline; first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

func isJob(o group.Owner) bool { return o.Group == batchv1.GroupName && o.Kind == "Job" }

// observeDeadline handles a change of a Job's deadline. A group that waits may get or be promised room now. A Job has its deadline
// only when its first pods exist, so a match of them may be on its way.
func (w *watcher) observeDeadline(job types.UID) {
	uids := w.walltimes.ofJob(job)
	if len(uids) == 0 {
		return
	}
	w.inventory.Recheck(uids...)
	endsChanged(w.base, uids...)
	keys := sets.New[types.NamespacedName]()
	for _, uid := range uids {
		if key, ok := w.groups.KeyOf(uid); ok {
			keys.Insert(key)
		}
	}
	for key := range keys {
		w.groups.EndsChanged(key)
		w.activator.activateGroups(key)
	}
}

// sameBounds reports whether two states of a pod say the same of its end.
func sameBounds(a, b *corev1.Pod) bool {
	return ptr.Equal(a.Spec.ActiveDeadlineSeconds, b.Spec.ActiveDeadlineSeconds) && a.Annotations[group.DurationAnnotation] == b.Annotations[group.DurationAnnotation]
}

// endsChanged lets groups ask that are promised room on the nodes of pods whose ends may have changed.
func endsChanged(b *base, pods ...types.UID) {
	for _, uid := range pods {
		if pod := b.occupants.podOf(match.NewJobID("pod", string(uid))); pod != nil {
			b.promises.askSoon(pod.Spec.NodeName, b.now())
		}
	}
}
