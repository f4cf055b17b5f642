package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// untilResumed says why a suspended Job has no pods.
const untilResumed = "the Job is suspended, and has no pods until it is resumed (spec.suspend)"

// suspended reports whether an object is a Job that is suspended.
func suspended(o runtime.Object) bool {
	job, ok := o.(*batchv1.Job)
	return ok && job.Spec.Suspend != nil && *job.Spec.Suspend
}

// isSuspended reports whether an owner of a group is a Job that is suspended, as the Job says.
func (ns *namespace) isSuspended(pg *scheduling.PodGroup) bool {
	return slices.ContainsFunc(ns.owners, func(o runtime.Object) bool {
		return suspended(o) && slices.ContainsFunc(pg.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.(metav1.Object).GetUID() })
	})
}

// addSuspension makes the suspension the reason of a group, in the words of the controller, or else in those given. What
// the scheduler said of the group before is no longer so.
func (g *groupSummary) addSuspension(pg *scheduling.PodGroup, message string) {
	g.WaitingFor, g.Message, g.Since, g.Decided = reason.Suspended, message, metav1.Time{}, metav1.Time{}
	if c := meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionMembersExpected); c != nil && isSuspended(pg) {
		g.Message, g.Since = c.Message, g.notBeforeCreation(c.LastTransitionTime)
	}
}

// addHowToResume adds how to resume the owner of a suspended group, if its kind is known.
func (s *whyAnswer) addHowToResume() {
	of := group.Owner{Group: "batch", Kind: s.Kind, Name: s.Name}
	if s.podGroup != nil && len(s.podGroup.OwnerReferences) > 0 {
		of = group.OwnerOf(s.podGroup.OwnerReferences[0])
	}
	k := group.KindOf(of)
	if k.Lifecycle == nil || k.Lifecycle.SuspendPath == nil {
		return
	}
	patch := "false"
	for _, field := range slices.Backward(append([]string{"spec"}, k.Lifecycle.SuspendPath...)) {
		patch = fmt.Sprintf("{%q:%s}", field, patch)
	}
	resource := k.Resource
	if of.Group != "batch" {
		resource += "." + of.Group
	}
	s.Hints = append(s.Hints, fmt.Sprintf("spec.%s of the %s is true; unless a queue such as Kueue resumes it: kubectl -n %s patch %s %s --type merge -p '%s'",
		strings.Join(k.Lifecycle.SuspendPath, "."), of.Kind, s.Namespace, resource, printableName(of.Name), patch))
}

// podToCome returns a pod as a Job makes it, with what decides its group.
func podToCome(job *batchv1.Job) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: job.Spec.Template.Spec}
	pod.Namespace = job.Namespace
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}}
	return pod
}

// suspendedJobs describes the groups of Jobs that were created suspended: they have had no pods, and so the controller has
// made no PodGroup. Jobs of other schedulers are left out, and Jobs whose pods are in the group of an object above, such as
// a JobSet, because only that object says how many pods the group wants.
func (ns *namespace) suspendedJobs(scheduler string) []listedGroup {
	jobs := map[types.NamespacedName][]*batchv1.Job{}
	for _, job := range ofType[*batchv1.Job](ns.owners) {
		if why, _ := withoutPods("Job", job); why != reason.Suspended || job.Spec.Template.Spec.SchedulerName != scheduler {
			continue
		}
		id := group.IdentityOf(podToCome(job), ns.ownersOf)
		if id.Owner.UID == job.UID && id.InPodGroup && ns.byKey[id.Key] == nil && len(ns.members[id.Key]) == 0 {
			jobs[id.Key] = append(jobs[id.Key], job)
		}
	}
	var all []listedGroup
	for _, key := range slices.SortedFunc(maps.Keys(jobs), compareKeys) {
		all = append(all, ns.listedToCome(key, jobs[key], scheduler))
	}
	return all
}

// listedToCome describes a group that suspended Jobs will make. Its size is as the controller will compute it: by labels, or
// else the sum of what the Jobs ask for. A size that is invalid counts as 0.
func (ns *namespace) listedToCome(key types.NamespacedName, jobs []*batchv1.Job, scheduler string) listedGroup {
	g := groupSummary{
		Namespace: key.Namespace, Name: shownName(key.Name), Nodes: map[string]int{}, groupTimes: groupTimes{Created: jobs[0].CreationTimestamp},
		Status: statusSuspended, Phase: reason.Suspended, WaitingFor: reason.Suspended, Message: untilResumed,
	}
	if len(jobs) == 1 {
		g.Owner = "Job/" + jobs[0].Name
	}
	if _, queued := jobs[0].Annotations[v1alpha1.QueuedAnnotation]; queued {
		g.Phase, g.WaitingFor, g.Message = string(scheduling.PodGroupPending), reason.Queued, "waits for its turn in a queue: kubectl fluence jobs"
	}
	var pods []*corev1.Pod
	var owned group.Size
	for i, job := range jobs {
		pods = append(pods, podToCome(job))
		if size, err := defaultSize(job, scheduler); err == nil {
			owned = group.Size{Size: owned.Size + size.Size, Min: owned.Min + size.Min}
		}
		if p := ns.priorities.of(&job.Spec.Template.Spec); i == 0 || p > g.Priority {
			g.Priority = p
		}
		if job.CreationTimestamp.Before(&g.Created) {
			g.Created = job.CreationTimestamp
		}
	}
	if said, err := group.SizeOfPods(pods); err == nil {
		if said != (group.Size{}) {
			owned = said.WithDefault(owned.Size)
		}
		g.Size, g.Minimum = owned.Size, owned.Min
	}
	return listedGroup{groupSummary: g, key: key, pods: pods}
}

// defaultSize returns how many pods a Job asks for.
func defaultSize(job *batchv1.Job, scheduler string) (group.Size, error) {
	spec, err := json.Marshal(job.Spec)
	if err != nil {
		return group.Size{}, err
	}
	return group.DefaultSize(group.Owner{Group: "batch", Kind: "Job", Name: job.Name, UID: job.UID}, spec, scheduler)
}
