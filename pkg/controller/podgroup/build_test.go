package podgroup

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// start is when the objects of these tests were created. now is a little later.
var (
	start = time.Date(2026, 3, 1, 10, 0, 5, 0, time.UTC)
	now   = start.Add(123456789 * time.Nanosecond)
)

// pods returns n members of group "g" that ask for the scheduler and have no node.
func pods(n int, edits ...func(*corev1.Pod)) []*corev1.Pod {
	var ps []*corev1.Pod
	for range n {
		ps = append(ps, objects.Pod("p", objects.InGroup("g"), objects.InPhase(corev1.PodPending), objects.Created(time.Time{}), objects.All(edits...)))
	}
	return ps
}

func bound(p *corev1.Pod) { p.Spec.NodeName = "n" }

func in(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", phase }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func deleting(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(start)) }

func join(groups ...[]*corev1.Pod) []*corev1.Pod {
	var all []*corev1.Pod
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// job is Job "train" with this parallelism, which asks for the scheduler.
func job(parallelism int32, edits ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "train", UID: "job-uid", CreationTimestamp: metav1.NewTime(start)},
		Spec: batchv1.JobSpec{
			Parallelism: &parallelism,
			Template:    corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: "fluence"}},
		},
	}
	for _, edit := range edits {
		edit(j)
	}
	return j
}

// of returns the observation of podOwners that nothing else controls: they are the topOwners.
func of(objs ...client.Object) observation {
	o := observation{key: key, now: now}
	for _, obj := range objs {
		p, _ := asPodOwner(obj)
		p.topUID = p.GetUID()
		o.podOwners, o.topOwners = append(o.podOwners, p), append(o.topOwners, topOwnerOf(p))
	}
	if len(objs) == 1 {
		o.key.Name = o.podOwners[0].owner().PodGroupName()
	}
	return o
}

// with adds a PodGroup and pods to an observation.
func (o observation) with(pg *scheduling.PodGroup, pods []*corev1.Pod) observation {
	o.podGroup, o.pods = pg, each(pods)
	return o
}

// each returns pods in a set each.
func each(pods []*corev1.Pod) []podSet {
	var sets []podSet
	for _, pod := range pods {
		sets = append(sets, podSet{pod: pod, n: 1, traits: traitsOf(pod)})
	}
	return sets
}

// referring adds an owner reference to a PodGroup.
func referring(kind, name string, uid types.UID) func(*scheduling.PodGroup) {
	return func(pg *scheduling.PodGroup) {
		pg.OwnerReferences = append(pg.OwnerReferences, metav1.OwnerReference{APIVersion: "batch/v1", Kind: kind, Name: name, UID: uid})
	}
}

var byTrain = referring("Job", "train", "job-uid")

// ownedBy sets the controller of an object.
func ownedBy(apiVersion, kind, name string, uid types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
}

var ofTrain = ownedBy("batch/v1", "Job", "train", "job-uid")

func annotated(k, v string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{k: v} }
}

// statefulSet is StatefulSet "train" with this many replicas.
func statefulSet(replicas int32, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "train", UID: "set-uid"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, PodManagementPolicy: policy,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: "fluence"}},
		},
	}
}

func condition(t batchv1.JobConditionType, s corev1.ConditionStatus, at time.Time) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: t, Status: s, LastTransitionTime: metav1.NewTime(at)})
	}
}

// settled is the memory of PodGroup "g" when its first status is not held any more.
var settled = memory{uid: "pg-uid", firstSeen: start.Add(-time.Hour)}

// podGroup is PodGroup "g" as a user creates it.
func podGroup(minMember int32, edits ...func(*scheduling.PodGroup)) *scheduling.PodGroup {
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "pg-uid", Generation: 1, CreationTimestamp: metav1.NewTime(start)}}
	pg.Spec.MinMember = minMember
	for _, edit := range edits {
		edit(pg)
	}
	return pg
}

// ours makes a PodGroup one that this controller made.
func ours(pg *scheduling.PodGroup) {
	pg.Labels = map[string]string{ManagedByLabel: ManagedByValue}
	pg.Annotations = map[string]string{SchedulerAnnotation: "fluence"}
	pg.ManagedFields = append(pg.ManagedFields, metav1.ManagedFieldsEntry{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationUpdate})
}

var key = types.NamespacedName{Namespace: "ns", Name: "g"}

// annotatedGroup is PodGroup "g" with an annotation.
func annotatedGroup(k, v string) *scheduling.PodGroup {
	return podGroup(1, func(pg *scheduling.PodGroup) { pg.Annotations = map[string]string{k: v} })
}
