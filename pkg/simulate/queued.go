package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A QueuedJob is a job that waits in a queue, or has room there and no pods yet.
type QueuedJob struct {
	FluxJob *v1alpha1.FluxJob
	// Queue is the queue of the job. Nil means that it is not known: then all nodes are the queue's, and it has no default.
	Queue *v1alpha1.Queue
}

// LetGo returns the cluster as if some jobs had been let go by their queues at a time. Jobs with room have their pods there. The
// pods of the others ask for nodes in the order of their queues. It also returns the pods of each job, by the UID of the
// FluxJob. A job whose workload is not in the cluster, or whose time limit is wrong, has none.
func (c Cluster) LetGo(jobs []QueuedJob, at time.Time) (Cluster, map[types.UID][]*corev1.Pod) {
	byWorkload := map[types.UID]*QueuedJob{}
	for i := range jobs {
		byWorkload[jobs[i].FluxJob.Spec.Workload.UID] = &jobs[i]
	}
	c.PodGroups = slices.Clone(c.PodGroups)
	made := map[types.UID][]*corev1.Pod{}
	var objects []runtime.Object
	for _, o := range c.Objects {
		m, _ := o.(metav1.Object)
		var j *QueuedJob
		if m != nil {
			j = byWorkload[m.GetUID()]
		}
		pod, isPod := o.(*corev1.Pod)
		switch job, isJob := o.(*batchv1.Job); {
		case j != nil && isJob:
			job = job.DeepCopy()
			job.Spec.Suspend = nil
			objects = append(objects, job)
			made[j.FluxJob.UID] = j.podsOf(job, at)
			c.addGroup(job, j.FluxJob.Spec.Pods)
		case j != nil && isPod && pod.Spec.NodeName == "":
			made[j.FluxJob.UID] = j.letGo([]*corev1.Pod{pod.DeepCopy()}, at)
		default:
			objects = append(objects, o)
			continue
		}
		for _, pod := range made[j.FluxJob.UID] {
			objects = append(objects, pod)
		}
	}
	c.Objects = objects
	return c, made
}

// podsOf returns the pods that a Job makes when it is let go.
func (j *QueuedJob) podsOf(job *batchv1.Job, at time.Time) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range j.FluxJob.Spec.Pods {
		t := job.Spec.Template.DeepCopy()
		pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		pod.Namespace, pod.Name = job.Namespace, madeUp(job.Name, i)
		pod.UID = types.UID(fmt.Sprintf("simulated-%s-%d", job.UID, i))
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}}
		pod.Labels = maps.Clone(pod.Labels)
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		maps.Copy(pod.Labels, map[string]string{batchv1.JobNameLabel: job.Name, "job-name": job.Name, batchv1.ControllerUidLabel: string(job.UID), "controller-uid": string(job.UID)})
		pods = append(pods, pod)
	}
	return j.letGo(pods, at)
}

// letGo changes the pods of a job so that they ask for nodes of the queue, in its order, for as long as the job may run. If the
// job has room, they have these nodes. It returns none if the time limit is wrong.
func (j *QueuedJob) letGo(pods []*corev1.Pod, at time.Time) []*corev1.Pod {
	limit, err := v1alpha1.DurationOf(&j.FluxJob.Spec, j.Queue)
	if err != nil {
		return nil
	}
	var nodes []string
	if a := j.FluxJob.Status.Allocation; a != nil {
		nodes, _ = a.Nodes() // what cannot be read is no room
	}
	for i, pod := range pods {
		pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1alpha1.QueueGate })
		pod.CreationTimestamp = j.FluxJob.CreationTimestamp
		if t := j.FluxJob.Status.CreationTime; t != nil {
			pod.CreationTimestamp = metav1.NewTime(t.Time)
		}
		// Jobs in queues evict nobody.
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = new(j.FluxJob.Spec.Priority), new(corev1.PreemptNever)
		if seconds := int64((limit + time.Second - 1) / time.Second); limit > 0 && (pod.Spec.ActiveDeadlineSeconds == nil || *pod.Spec.ActiveDeadlineSeconds > seconds) {
			pod.Spec.ActiveDeadlineSeconds = &seconds
		}
		if j.Queue != nil && j.Queue.Spec.Requires != nil {
			require(&pod.Spec, j.Queue.Spec.Requires)
		}
		if i < len(nodes) {
			pod.Spec.NodeName = nodes[i]
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
		}
	}
	return pods
}

// require lets pods only on the nodes that a selector selects.
func require(spec *corev1.PodSpec, s *metav1.LabelSelector) {
	var rules []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		rules = append(rules, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{s.MatchLabels[key]}})
	}
	for _, e := range s.MatchExpressions {
		// The operators of both have the same names.
		rules = append(rules, corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator), Values: e.Values})
	}
	if len(rules) == 0 {
		return
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	// A node is to meet one of the terms.
	for i := range (*required).NodeSelectorTerms {
		t := &(*required).NodeSelectorTerms[i]
		t.MatchExpressions = slices.Concat(t.MatchExpressions, rules)
	}
}

// addGroup adds the PodGroup of a Job that is let go, unless there is one.
func (c *Cluster) addGroup(job *batchv1.Job, pods int32) {
	name := group.Owner{Group: batchv1.GroupName, Kind: "Job", Name: job.Name, UID: job.UID}.PodGroupName()
	if slices.ContainsFunc(c.PodGroups, func(pg scheduling.PodGroup) bool { return pg.Namespace == job.Namespace && pg.Name == name }) {
		return
	}
	pg := scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace, Name: name, UID: types.UID("simulated-group-" + string(job.UID)), CreationTimestamp: job.CreationTimestamp,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID}},
	}}
	pg.Spec.MinMember = pods
	c.PodGroups = append(c.PodGroups, pg)
}
