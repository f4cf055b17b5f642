package invariants

import (
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/test/cluster"
)

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// nativeKey returns the name of the group of a native PodGroup. No other PodGroup can have it.
func nativeKey(key types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: nativeAPI + "/" + key.Name}
}

// groupNameOf returns the name of the group that a pod names. The field counts before the label.
func groupNameOf(p *corev1.Pod) string {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return nativeKey(types.NamespacedName{Name: *g.PodGroupName}).Name
	}
	return p.Labels[groupLabel]
}

func controllerOf(o metav1.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID
	}
	return ""
}

func podFactOf(p *corev1.Pod) podFact {
	f := podFact{
		key:         nameOf(p),
		uid:         p.UID,
		created:     p.CreationTimestamp.Time,
		scheduler:   p.Spec.SchedulerName,
		label:       groupNameOf(p),
		controller:  controllerOf(p),
		node:        p.Spec.NodeName,
		phase:       p.Status.Phase,
		deleting:    p.DeletionTimestamp != nil,
		gated:       len(p.Spec.SchedulingGates) > 0,
		timeout:     p.Annotations[timeoutAnnotation],
		policy:      p.Annotations[policyAnnotation],
		priority:    ptr.Deref(p.Spec.Priority, 0),
		asks:        asksOf(p),
		annotations: p.Annotations,
		tolerations: p.Spec.Tolerations,
		labels:      p.Labels,
		said:        saidOf(p.Annotations),
		stand:       standOf(p),
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			f.told = c.Status == corev1.ConditionFalse && c.Reason != "" && c.Message != ""
			f.text = c.Message
			if c.Status == corev1.ConditionTrue {
				f.boundAt = c.LastTransitionTime.Time
			}
		}
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
			f.evictedFor, _ = preemptorIn(c.Message)
		}
	}
	return f
}

// asksOf returns the resources that a kubelet charges a node for a pod.
func asksOf(p *corev1.Pod) amounts {
	a := amountsOf(podresource.PodRequests(p, podresource.PodResourcesOptions{UseStatusResources: true}))
	a[corev1.ResourcePods] = 1
	return a
}

func nodeFactOf(n *corev1.Node) nodeFact {
	return nodeFact{
		name:        n.Name,
		allocatable: amountsOf(n.Status.Allocatable),
		closed:      n.Spec.Unschedulable,
		taints:      n.Spec.Taints,
		labels:      n.Labels,
	}
}

// groupFactOf reads a PodGroup of either kind. A field that is missing or of another type counts as empty.
func groupFactOf(u *unstructured.Unstructured) groupFact {
	f := groupFact{
		key:     nameOf(u),
		uid:     u.GetUID(),
		timeout: u.GetAnnotations()[timeoutAnnotation],
		policy:  u.GetAnnotations()[policyAnnotation],
		said:    saidOf(u.GetAnnotations()),

		annotations: u.GetAnnotations(),
	}
	_, f.made = u.GetLabels()[madeByLabel]
	for _, ref := range u.GetOwnerReferences() {
		f.owners = append(f.owners, ref.UID)
	}
	least, _, _ := unstructured.NestedInt64(u.Object, "spec", "minMember")
	f.minMember = int(least)
	if f.native = u.GroupVersionKind().Group == nativeAPI; f.native {
		// Pods that an owner makes are not of a native PodGroup because the owner has one.
		f.key, f.owners, f.minMember = nativeKey(f.key), nil, nativeMinimum(u)
	}
	f.conditions = conditionsOf(u)
	return f
}

// conditionsOf reads the conditions of an object.
func conditionsOf(u *unstructured.Unstructured) (all []conditionFact) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok {
			text := func(key string) string { s, _ := m[key].(string); return s }
			all = append(all, conditionFact{strings.TrimPrefix(text("type"), conditionPrefix), text("status"), text("reason"), text("message"), text("lastTransitionTime")})
		}
	}
	return all
}

// nativeMinimum returns how many pods of a native PodGroup start together. With the policy
// basic the annotation says it. With the policy gang, it can only lower minCount.
func nativeMinimum(u *unstructured.Unstructured) int {
	said, err := strconv.Atoi(u.GetAnnotations()[minimumAnnotation])
	least, gang, _ := unstructured.NestedInt64(u.Object, "spec", "schedulingPolicy", "gang", "minCount")
	switch {
	case err != nil && !gang:
		return 1
	case err != nil:
		return int(least)
	case !gang:
		return said
	}
	return min(int(least), said)
}

func ownerFactOf(o metav1.Object) ownerFact {
	f := ownerFact{uid: o.GetUID(), controller: controllerOf(o)}
	if job, ok := o.(*batchv1.Job); ok {
		f.job = jobFactOf(job)
	}
	return f
}

func jobFactOf(job *batchv1.Job) *jobFact {
	f := &jobFact{
		served: int(job.Status.Succeeded),
		idle:   job.Spec.Suspend != nil && *job.Spec.Suspend,
		key:    nameOf(job),
		queue:  queueNamedBy(job.Labels, job.Spec.Template.Labels),
	}
	// The annotation of another Job says nothing of a copy of that Job.
	f.evicted = f.idle && strings.HasSuffix(job.Annotations[suspendedAnnotation], "/"+string(job.UID))
	_, f.queued = job.Annotations[queuedAnnotation]
	if job.Spec.Completions != nil {
		f.completions = int(*job.Spec.Completions)
	}
	if job.Status.FailedIndexes != nil {
		f.served += indexes(*job.Status.FailedIndexes)
	}
	for _, c := range job.Status.Conditions {
		ends := c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget || c.Type == batchv1.JobSuccessCriteriaMet
		f.over = f.over || ends && c.Status == corev1.ConditionTrue
	}
	return f
}

// indexes returns the number of indexes in a list such as 1,3-5.
func indexes(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		b, err := strconv.Atoi(last)
		if !isRange || err != nil {
			b = a
		}
		n += b - a + 1
	}
	return n
}

func eventFactOf(e *eventsv1.Event) eventFact {
	f := eventFact{
		uid:        e.UID,
		controller: e.ReportingController,
		instance:   e.ReportingInstance,
		kind:       e.Regarding.Kind,
		about:      types.NamespacedName{Namespace: e.Regarding.Namespace, Name: e.Regarding.Name},
		aboutUID:   e.Regarding.UID,
		reason:     e.Reason,
		note:       e.Note,
		told:       e.EventTime.Time,
		count:      1,
	}
	if strings.HasPrefix(e.Regarding.APIVersion, nativeAPI+"/") {
		f.about = nativeKey(f.about)
	}
	if e.Series != nil {
		f.told, f.count = e.Series.LastObservedTime.Time, int(max(e.Series.Count, 2))
	}
	return f
}

// auditFactOf reads an audit event. It returns false for an event of no interest.
func auditFactOf(e cluster.AuditEvent) (auditFact, bool) {
	if e.ObjectRef == nil || e.ObjectRef.Resource != "pods" || e.Stage != "ResponseComplete" {
		return auditFact{}, false
	}
	switch made := e.Verb == "create"; e.ObjectRef.Subresource {
	case "binding", "eviction":
		if !made {
			return auditFact{}, false
		}
	case "":
		if e.Verb != "delete" && e.Verb != "deletecollection" {
			return auditFact{}, false
		}
	default:
		return auditFact{}, false
	}
	return auditFact{
		user:        e.User.Username,
		verb:        e.Verb,
		subresource: e.ObjectRef.Subresource,
		pod:         types.NamespacedName{Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name},
		code:        e.ResponseStatus.Code,
		received:    e.Received,
	}, true
}

// versionOf reads a resource version. It returns 0 for a version that is no number.
func versionOf(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// deliveredNow returns how a change was seen that was delivered just now.
func deliveredNow(version string) seen { return seen{version: versionOf(version), at: time.Now()} }
