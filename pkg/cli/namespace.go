package cli

import (
	"context"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/simulate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A namespace has the objects that were read from one namespace, or from all of them.
type namespace struct {
	pods []*corev1.Pod
	// own are the PodGroups of Fluence, native those of Kubernetes, and groups both in one form.
	own      []scheduling.PodGroup
	native   []schedulingv1beta1.PodGroup
	groups   []scheduling.PodGroup
	owners   []runtime.Object
	ownersOf group.Owners
	members  map[types.NamespacedName][]*corev1.Pod
	byKey    map[types.NamespacedName]*scheduling.PodGroup
	// staying has the UIDs of the owners that are not being deleted.
	staying map[types.UID]bool
	// jobEnds are the conditions with which Jobs ended.
	jobEnds    map[types.UID]batchv1.JobCondition
	priorities priorities
	// hidden are the kinds of owners that could not be read.
	hidden []string
	// groupsUnreadable is true if PodGroups could not be read.
	groupsUnreadable bool
	// now is the time of the question.
	now metav1.Time
}

// readNamespace reads the objects of the reader's namespace, or of all if it is empty. With podsOnly it
// returns the pods with a note if PodGroups cannot be read.
func (r *reader) readNamespace(ctx context.Context, podsOnly bool) (*namespace, error) {
	ns := &namespace{now: r.now}
	var err error
	if ns.own, err = r.readPodGroups(ctx, r.namespace); err == nil {
		ns.native, err = r.readNativePodGroups(ctx, r.namespace)
	}
	switch {
	case err != nil && !podsOnly:
		return nil, err
	case err != nil:
		ns.groupsUnreadable = true
		r.notes = append(r.notes, err.Error())
	}
	// The pods are read last: what PodGroups say of them may be older, and not newer.
	if ns.pods, err = r.readPods(ctx, r.namespace); err != nil {
		return nil, err
	}
	if ns.owners, ns.hidden, err = r.readVisibleOwners(ctx); err != nil {
		return nil, err
	}
	r.noteHidden(ns.hidden, ns.pods)
	if ns.ownersOf = simulate.OwnersOf(ns.owners); len(ns.hidden) == 0 {
		ns.ownersOf = ownersThatWere{ns.ownersOf}
	}
	ns.index()
	return ns, r.readClasses(ctx, ns)
}

// readQueue reads all namespaces, because their groups are in one queue. If the user may not, it reads the
// reader's namespace alone, and whole is false.
func (r *reader) readQueue(ctx context.Context) (ns *namespace, whole bool, err error) {
	all := *r
	all.namespace = ""
	ns, err = all.readNamespace(ctx, false)
	if r.namespace != "" && (apierrors.IsForbidden(err) || err == nil && len(ns.hidden) > 0) {
		ns, err = r.readNamespace(ctx, false)
		return ns, false, err
	}
	r.notes = all.notes
	return ns, true, err
}

// in returns the part of one namespace. It returns all if the name is empty.
func (ns *namespace) in(name string) *namespace {
	if name == "" {
		return ns
	}
	part := *ns
	part.pods = slices.DeleteFunc(slices.Clone(ns.pods), func(pod *corev1.Pod) bool { return pod.Namespace != name })
	part.own = slices.DeleteFunc(slices.Clone(ns.own), func(pg scheduling.PodGroup) bool { return pg.Namespace != name })
	part.native = slices.DeleteFunc(slices.Clone(ns.native), func(pg schedulingv1beta1.PodGroup) bool { return pg.Namespace != name })
	part.owners = slices.DeleteFunc(slices.Clone(ns.owners), func(o runtime.Object) bool { return o.(metav1.Object).GetNamespace() != name })
	part.index()
	return &part
}

// index sets what follows from the objects.
func (ns *namespace) index() {
	ns.groups = slices.Concat(ns.own, converted(ns.native))
	ns.members = membersOf(ns.pods, ns.ownersOf)
	ns.byKey = make(map[types.NamespacedName]*scheduling.PodGroup, len(ns.groups))
	for i := range ns.groups {
		ns.byKey[keyOf(&ns.groups[i])] = &ns.groups[i]
	}
	ns.jobEnds, ns.priorities.templates = endsOf(ns.owners), templatesOf(ns.owners)
	ns.staying = make(map[types.UID]bool, len(ns.owners))
	for _, o := range ns.owners {
		m := o.(metav1.Object)
		ns.staying[m.GetUID()] = m.GetDeletionTimestamp() == nil
	}
}

// summary describes a PodGroup.
func (ns *namespace) summary(pg *scheduling.PodGroup) groupSummary {
	pods := ns.members[keyOf(pg)]
	g := summaryOf(pg, pods, ns.now)
	ns.addJobEnd(&g, pg)
	if len(pods) == 0 {
		g.Priority = ns.priorityToCome(pg)
	}
	if g.Status != statusFinished && ns.isBeingDeleted(pg, pods) {
		g.addDeletion()
		return g
	}
	if g.Status == statusWaiting && g.Pending == 0 && ns.isSuspended(pg) && !meta.IsStatusConditionFalse(pg.Status.Conditions, podgroup.ConditionValid) {
		// The controller has not written it yet.
		g.Status, g.Phase = statusSuspended, reason.Suspended
		g.addSuspension(pg, untilResumed)
	}
	if len(pods) == 0 && len(ns.hidden) > 0 {
		// Its pods may be among those whose owners cannot be read.
		g.Bound, g.Phase = pg.Status.Scheduled, string(pg.Status.Phase)
		g.Status = g.status(pg)
		g.asked = g.Created
		g.measure(ns.now)
	}
	return g
}

// endsOf returns the conditions with which Jobs ended, by the UIDs of the Jobs.
func endsOf(owners []runtime.Object) map[types.UID]batchv1.JobCondition {
	ends := map[types.UID]batchv1.JobCondition{}
	for _, job := range ofType[*batchv1.Job](owners) {
		for _, c := range job.Status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				ends[job.UID] = c
			}
		}
	}
	return ends
}

// addJobEnd adds when and why the Job of a finished group ended, if its PodGroup does not say it.
func (ns *namespace) addJobEnd(g *groupSummary, pg *scheduling.PodGroup) {
	if g.Status != statusFinished || meta.IsStatusConditionTrue(pg.Status.Conditions, conditionFinished) {
		return
	}
	for _, ref := range pg.OwnerReferences {
		if c, ended := ns.jobEnds[ref.UID]; ended {
			g.Ended = c.LastTransitionTime
			if c.Type == batchv1.JobFailed && c.Reason != "" {
				g.Result = c.Reason
			}
			g.measure(ns.now)
		}
	}
}

// waitForOther reports whether a pod of a group waits for another scheduler.
func (ns *namespace) waitForOther(scheduler string) bool {
	for key := range ns.byKey {
		if slices.ContainsFunc(ns.members[key], func(pod *corev1.Pod) bool { return waits(pod) && pod.Spec.SchedulerName != scheduler }) {
			return true
		}
	}
	return false
}

func keyOf(pg *scheduling.PodGroup) types.NamespacedName {
	return types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
}

// lone describes a pod that is in no PodGroup, or whose PodGroup does not exist.
func (ns *namespace) lone(pod *corev1.Pod) groupSummary {
	g := groupSummary{Namespace: pod.Namespace, Name: pod.Name, groupTimes: groupTimes{Created: pod.CreationTimestamp}, Phase: string(pod.Status.Phase), Nodes: map[string]int{}}
	g.WaitingFor, g.Message, g.Decided = whyPodWaits(pod)
	g.addPods([]*corev1.Pod{pod}, ns.now)
	g.addPromise(ns.now)
	return g
}

// addPods adds what follows from the pods alone, for a group without a PodGroup.
func (g *groupSummary) addPods(pods []*corev1.Pod, now metav1.Time) {
	g.count(pods)
	g.Started = startOf(pods)
	switch {
	case g.Bound > 0:
		g.Status = statusRunning
	case int(g.Succeeded+g.Failed) == len(pods):
		g.Status, g.Ended, g.Result = statusFinished, endOf(pods), string(pods[0].Status.Phase)
	default:
		g.Status = statusWaiting
	}
	g.addWait(pods)
	g.measure(now)
}

// A listedGroup is a group in the list of groups.
type listedGroup struct {
	groupSummary
	key      types.NamespacedName
	podGroup *scheduling.PodGroup
	// pods are its pods. Where suspended Jobs will make them, pods has one as each of the Jobs will make it.
	pods []*corev1.Pod
	// gone has the nodes of the group that do not exist any more. It is set only by markGone.
	gone []string
}

// list describes all groups: PodGroups, groups whose PodGroup does not exist, groups of Jobs that were created suspended, and
// pods that are scheduled alone by this scheduler.
func (ns *namespace) list(scheduler string) []listedGroup {
	var all []listedGroup
	exists := map[types.NamespacedName]bool{}
	for i := range ns.groups {
		pg := &ns.groups[i]
		exists[keyOf(pg)] = true
		all = append(all, listedGroup{groupSummary: ns.summary(pg), key: keyOf(pg), podGroup: pg, pods: ns.members[keyOf(pg)]})
	}
	missing := map[types.NamespacedName][]*corev1.Pod{}
	for _, pod := range ns.pods {
		id := group.IdentityOf(pod, ns.ownersOf)
		switch {
		case pod.Spec.SchedulerName != scheduler || exists[id.Key] || pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil:
		case !id.InPodGroup && id.MissingOwner != (group.Owner{}): // not known to be alone
		case id.InPodGroup && id.NeedsPodGroup:
			missing[id.Key] = append(missing[id.Key], pod)
		default:
			g := ns.lone(pod)
			g.Name, g.Minimum = "pod/"+pod.Name, 1
			all = append(all, listedGroup{groupSummary: g, key: id.Key, pods: []*corev1.Pod{pod}})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(missing), compareKeys) {
		pods := missing[key]
		all = append(all, listedGroup{groupSummary: ns.summaryOfPods(key, pods), key: key, pods: pods})
	}
	return append(all, ns.suspendedJobs(scheduler)...)
}
