package podgroup

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// What the cache keeps of pods and podOwners is enough for every decision.
func TestSlimObjectsDecideTheSame(t *testing.T) {
	fullPod := pods(1, in(corev1.PodRunning), labelled(group.SizeLabel, "4"), ofTrain, objects.InNativeGroup("n"), func(p *corev1.Pod) {
		p.Annotations = map[string]string{"a": "b", group.IncompletePolicyAnnotation: "restart"}
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
		p.ManagedFields, p.Finalizers = []metav1.ManagedFieldsEntry{{Manager: "m"}}, []string{"a/b"}
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"})
	})[0]
	slim, err := slimPod(fullPod.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	pod := slim.(*corev1.Pod)
	if len(pod.Spec.Containers) > 0 || len(pod.ManagedFields) > 0 || len(pod.Finalizers) > 0 || len(pod.Annotations) != 1 || len(pod.OwnerReferences) != 1 {
		t.Errorf("slimPod() keeps %+v", pod)
	}
	full, little := observation{pods: each([]*corev1.Pod{fullPod})}, observation{pods: each([]*corev1.Pod{pod})}
	if countOf(little.pods) != countOf(full.pods) || DefaultConfig().wantedSize(little) != DefaultConfig().wantedSize(full) || !slices.Equal(possibleGroupNames(pod), possibleGroupNames(fullPod)) {
		t.Errorf("a slim pod is %+v", pod)
	}
	if policy, _, err := little.incompletePolicy(0); policy != group.IncompleteRestart || err != nil {
		t.Errorf("a slim pod's policy is %q, %v", policy, err)
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{group.MinLabel: "2"}, Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{SchedulerName: "fluence", Containers: []corev1.Container{{Name: "c"}}},
	}
	for _, obj := range []client.Object{
		job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now), func(j *batchv1.Job) { j.Spec.Template, j.Status.Succeeded = template, 1 }),
		job(4, func(j *batchv1.Job) {
			j.Spec.Completions, j.Status.Succeeded, j.Status.FailedIndexes = new(int32(4)), 1, new("0,2")
		}),
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "1"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(4)), PodManagementPolicy: appsv1.ParallelPodManagement, Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "1"}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(4)), Template: template}},
	} {
		slim, err := slimPodOwner(obj.DeepCopyObject())
		if err != nil {
			t.Fatal(err)
		}
		full, little := of(obj), of(slim.(client.Object))
		if p := little.podOwners[0]; len(p.template.Spec.Containers) > 0 || len(p.template.Annotations) > 0 {
			t.Errorf("slimPart() keeps %+v", p.template)
		}
		c := DefaultConfig()
		if c.wantedSize(little) != c.wantedSize(full) || !reflect.DeepEqual(little.topOwners[0], full.topOwners[0]) || c.wantsScheduler(little) != c.wantsScheduler(full) || little.podOwners[0].donePods() != full.podOwners[0].donePods() {
			t.Errorf("a slim %T decides otherwise: %+v, want %+v", obj, little, full)
		}
	}
}

// What the cache keeps of a PodGroup decides the same, and is small however large the object is.
func TestASlimPodGroupDecidesTheSame(t *testing.T) {
	const references = 10_000
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	full := podGroup(4, byTrain, func(pg *scheduling.PodGroup) {
		pg.Labels = map[string]string{ManagedByLabel: ManagedByValue, "a": "b"}
		pg.Annotations = map[string]string{"a": "b", SchedulerAnnotation: "fluence", group.IncompletePolicyAnnotation: "restart"}
		pg.Finalizers = []string{"a/b"}
		pg.Spec.MinResources = corev1.ResourceList{"cpu": resource.MustParse("1")}
		pg.OwnerReferences = append(pg.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: strings.Repeat("n", 1<<20), UID: "long"})
		for i := range references {
			pg.OwnerReferences = append(pg.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: types.UID(strconv.Itoa(i))})
		}
		pg.ManagedFields = []metav1.ManagedFieldsEntry{
			entry(FieldManager, "status", `{}`), entry("kubectl", "status", `{"f:spec":{"f:minMember":{}}}`),
			entry("broken", "", `{`), entry("kubectl", "", `{"f:metadata":{"f:ownerReferences":{}},"f:spec":{"f:minMember":{},"f:scheduleTimeoutSeconds":{}}}`),
			entry(FieldManager, "", `{"f:spec":{"f:minMember":{}}}`),
		}
	})
	for name, change := range map[string]func(*scheduling.PodGroup){
		"made by this controller, minMember by a user": func(*scheduling.PodGroup) {},
		"minMember by this controller":                 func(pg *scheduling.PodGroup) { pg.ManagedFields = pg.ManagedFields[4:] },
		"made by a user":                               func(pg *scheduling.PodGroup) { pg.ManagedFields = pg.ManagedFields[:4] },
		"without managed fields":                       func(pg *scheduling.PodGroup) { pg.ManagedFields = nil },
		"without the label":                            func(pg *scheduling.PodGroup) { delete(pg.Labels, ManagedByLabel) },
	} {
		t.Run(name, func(t *testing.T) {
			pg := full.DeepCopy()
			change(pg)
			obj, err := slimPodGroup(pg.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			slim, c := obj.(*scheduling.PodGroup), DefaultConfig()
			if c.isManaged(slim) != c.isManaged(pg) || minMemberManager(slim) != minMemberManager(pg) {
				t.Errorf("made by the controller: %t, minMember by %q; want %t, %q", c.isManaged(slim), minMemberManager(slim), c.isManaged(pg), minMemberManager(pg))
			}
			if !maps.Equal(slim.Annotations, group.ProjectAnnotations(pg.Annotations)) || len(slim.Annotations) != 2 || slim.Spec.MinMember != pg.Spec.MinMember || slim.Spec.MinResources != nil || !equality.Semantic.DeepEqual(slim.Status, pg.Status) {
				t.Errorf("slimPodGroup() = %+v", slim)
			}
			if slim.OwnerReferences[0].UID != "job-uid" || len(slim.OwnerReferences) != maxReferences {
				t.Errorf("%d owner references are kept, want the first %d", len(slim.OwnerReferences), maxReferences)
			}
			data, err := json.Marshal(slim)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > 32<<10 {
				t.Errorf("a PodGroup of %d bytes is kept", len(data))
			}
		})
	}
}

// A PodGroup names at most maxReferences owners, the same ones as long as they exist.
func TestAPodGroupNamesSoManyOwners(t *testing.T) {
	var o observation
	for i := range 2 * maxReferences {
		ref := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: types.UID(fmt.Sprintf("%04d", i))}
		o.topOwners = append(o.topOwners, topOwner{topOwnerRef: topOwnerRefFrom(ref), state: readable})
	}
	o.topOwners[0].deleting = true
	refs := o.references()
	if len(refs) != maxReferences || refs[0].UID != "0001" {
		t.Fatalf("%d owners are named, the first is %v", len(refs), refs[0])
	}
	c := DefaultConfig()
	made := podGroup(4, func(pg *scheduling.PodGroup) {
		pg.Labels, pg.Annotations = map[string]string{ManagedByLabel: ManagedByValue}, map[string]string{SchedulerAnnotation: "fluence"}
		pg.OwnerReferences, pg.ManagedFields = refs, []metav1.ManagedFieldsEntry{{Manager: FieldManager}}
	})
	if s := c.wantedFields(o.with(made, nil), sizeDecision{minMember: 4}); s != nil {
		t.Errorf("the owners are written again: %d of them", len(s.owners))
	}
	// The API server may have more references than the cache, so a full list says nothing about others.
	made.OwnerReferences[0].UID = "user"
	if s := c.wantedFields(o.with(made, nil), sizeDecision{minMember: 4}); s != nil {
		t.Errorf("the owners are written again to a full list: %d of them", len(s.owners))
	}
	made.OwnerReferences = made.OwnerReferences[1:]
	if s := c.wantedFields(o.with(made, nil), sizeDecision{minMember: 4}); s == nil || len(s.owners) != maxReferences {
		t.Errorf("the missing owner is not written: %+v", s)
	}
}

func TestNamesOf(t *testing.T) {
	name := func(g, kind, n string, uid types.UID) string {
		return group.Owner{Group: g, Kind: kind, Name: n, UID: uid}.PodGroupName()
	}
	under := func(obj client.Object, apiVersion, kind, n string, uid types.UID) client.Object {
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: n, UID: uid, Controller: new(true)}})
		return obj
	}
	bare := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p1"}}
	}
	set := func() *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s1"}}
	}
	train := name("batch", "Job", "train", "job-uid")
	cases := map[string]struct {
		obj  client.Object
		want []string
	}{
		"a bare pod":                 {bare(), nil},
		"a labelled pod of a Job":    {pods(1, ofTrain)[0], []string{"g", train}},
		"a Job":                      {job(4), []string{train}},
		"a Job of labelled pods":     {job(4, func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{group.Label: "g"} }), []string{"g", train}},
		"a pod in a native PodGroup": {pods(1, ofTrain, objects.InNativeGroup("n"))[0], []string{"scheduling.k8s.io/n", train}},
		"a Job of such pods": {job(4, func(j *batchv1.Job) {
			j.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("n")}
		}), []string{"scheduling.k8s.io/n", train}},
		"a Job of a JobSet":              {under(job(4), "jobset.x-k8s.io/v1alpha2", "JobSet", "js", "1"), []string{train, name("jobset.x-k8s.io", "JobSet", "js", "1")}},
		"a pod that may lead a unit":     {under(bare(), "apps/v1", "StatefulSet", "s", "s1"), []string{unit("p", "p1").PodGroupName(), name("apps", "StatefulSet", "s", "s1")}},
		"the StatefulSet of the workers": {under(set(), "v1", "Pod", "p", "p1"), []string{name("apps", "StatefulSet", "s", "s1"), unit("p", "p1").PodGroupName()}},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			if got := possibleGroupNames(tc.obj); !slices.Equal(got, tc.want) {
				t.Errorf("possibleGroupNames() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestChangesThatCount(t *testing.T) {
	cases := map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"an annotation of others": {pods(1)[0], pods(1, annotated("a", "b"))[0], false},
		"an annotation of ours":   {pods(1)[0], pods(1, annotated(group.IncompletePolicyAnnotation, "restart"))[0], true},
		"a node":                  {pods(1)[0], pods(1, bound)[0], true},
		"a phase":                 {pods(1, bound)[0], pods(1, in(corev1.PodRunning))[0], true},
		"a label":                 {pods(1)[0], pods(1, labelled(group.SizeLabel, "2"))[0], true},
		"a namesake":              {pods(1)[0], pods(1, func(p *corev1.Pod) { p.UID = "2" })[0], true},
		"a deletion":              {pods(1)[0], pods(1, deleting)[0], true},
		"an owner":                {pods(1)[0], pods(1, ofTrain)[0], true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := podChanged(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("podChanged() = %t, want %t", got, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		after *batchv1.Job
		want  bool
	}{
		"a new spec":           {job(4, func(j *batchv1.Job) { j.Generation++ }), true},
		"a condition":          {job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now)), true},
		"a namesake":           {job(4, func(j *batchv1.Job) { j.UID = "2" }), true},
		"an index that failed": {job(4, func(j *batchv1.Job) { j.Status.FailedIndexes = new("0") }), true},
		"a pod that succeeded": {job(4, func(j *batchv1.Job) { j.Status.Succeeded = 1 }), true},
		"a count of pods":      {job(4, func(j *batchv1.Job) { j.Status.Active = 3 }), false},
	} {
		t.Run(name+" of a Job", func(t *testing.T) {
			if got := podOwnerChanged(event.UpdateEvent{ObjectOld: job(4), ObjectNew: tc.after}); got != tc.want {
				t.Errorf("partChanged() = %t, want %t", got, tc.want)
			}
		})
	}
}
