package v1alpha1

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/flux-k8s/fluence/pkg/group"
)

// second is when the objects of these tests came to be, as metadata tells it.
var second = metav1.NewTime(time.Date(2026, 3, 1, 10, 0, 5, 0, time.UTC).Local())

// upstream is a PodGroup with every field that scheduler-plugins v0.34.7 has.
func upstream() *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "scheduling.x-k8s.io/v1alpha1", Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "1", CreationTimestamp: second, Labels: map[string]string{"a": "b"}},
		Spec: v1alpha1.PodGroupSpec{
			MinMember:              4,
			MinResources:           corev1.ResourceList{"cpu": resource.MustParse("4")},
			ScheduleTimeoutSeconds: new(int32(30)),
		},
		Status: v1alpha1.PodGroupStatus{
			Phase: v1alpha1.PodGroupRunning, OccupiedBy: "ns/train",
			Running: 1, Succeeded: 2, Failed: 3, ScheduleStartTime: second,
		},
	}
}

// recode writes one object as JSON and reads it into the other, as an API
// server between an old and a new client does.
func recode(t *testing.T, from, into any) {
	t.Helper()
	data, err := json.Marshal(from)
	if err != nil {
		t.Fatalf("encode %T: %v", from, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("decode %T from %s: %v", into, data, err)
	}
}

// statusOf has the fields of a status that scheduler-plugins has too.
func statusOf(pg PodGroup) v1alpha1.PodGroupStatus {
	return v1alpha1.PodGroupStatus{
		Phase: pg.Status.Phase, OccupiedBy: pg.Status.OccupiedBy,
		Running: pg.Status.Running, Succeeded: pg.Status.Succeeded, Failed: pg.Status.Failed,
		ScheduleStartTime: pg.Status.ScheduleStartTime,
	}
}

func TestObjectsOfSchedulerPluginsSurviveOurClients(t *testing.T) {
	var ours PodGroup
	recode(t, upstream(), &ours)
	if diff := cmp.Diff(upstream().Spec, v1alpha1.PodGroupSpec{MinMember: ours.Spec.MinMember, MinResources: ours.Spec.MinResources, ScheduleTimeoutSeconds: ours.Spec.ScheduleTimeoutSeconds}); diff != "" {
		t.Errorf("spec as we read it (-theirs +ours):\n%s", diff)
	}
	if diff := cmp.Diff(upstream().Status, statusOf(ours)); diff != "" {
		t.Errorf("status as we read it (-theirs +ours):\n%s", diff)
	}
	var back v1alpha1.PodGroup
	recode(t, &ours, &back)
	if diff := cmp.Diff(upstream(), &back); diff != "" {
		t.Errorf("after a round through our type (-before +after):\n%s", diff)
	}
}

func TestOurObjectsAreReadBySchedulerPlugins(t *testing.T) {
	ours := &PodGroup{TypeMeta: upstream().TypeMeta, ObjectMeta: upstream().ObjectMeta}
	recode(t, upstream(), ours)
	ours.Status.Scheduled, ours.Status.Desired = 4, 5
	ours.Status.CreationTime = new(metav1.NewMicroTime(second.Add(123456 * time.Microsecond)))
	ours.Status.Conditions = []metav1.Condition{{Type: "Valid", Status: metav1.ConditionTrue, Reason: "ValidGroupSize", LastTransitionTime: second}}
	var theirs v1alpha1.PodGroup
	recode(t, ours, &theirs)
	if diff := cmp.Diff(upstream(), &theirs); diff != "" {
		t.Errorf("as scheduler-plugins reads it (-want +got):\n%s", diff)
	}
	var again PodGroup
	recode(t, ours, &again)
	if diff := cmp.Diff(ours, &again); diff != "" {
		t.Errorf("as we read it ourselves (-before +after):\n%s", diff)
	}
}

// A client of v0.34.7 writes seconds, and null for a time that is not set.
func TestTimesOfOldClientsAreRead(t *testing.T) {
	cases := map[string]struct {
		status string
		want   metav1.Time
	}{
		"whole seconds":     {`{"scheduleStartTime":"2026-03-01T10:00:05Z"}`, second},
		"null for no time":  {`{"scheduleStartTime":null}`, metav1.Time{}},
		"no time at all":    {`{}`, metav1.Time{}},
		"a zone of its own": {`{"scheduleStartTime":"2026-03-01T12:00:05+02:00"}`, second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var s PodGroupStatus
			if err := json.Unmarshal([]byte(tc.status), &s); err != nil {
				t.Fatalf("decode %s: %v", tc.status, err)
			}
			if !s.ScheduleStartTime.Equal(&tc.want) {
				t.Errorf("scheduleStartTime of %s = %v, want %v", tc.status, s.ScheduleStartTime, tc.want)
			}
		})
	}
}

func TestCreationTime(t *testing.T) {
	micros := metav1.NewMicroTime(second.Add(123456 * time.Microsecond))
	cases := map[string]struct {
		status    *metav1.MicroTime
		annotated string
		want      metav1.MicroTime
	}{
		"the controller has set it":                 {status: &micros, annotated: "2026-03-01T10:00:05.500000Z", want: micros},
		"nobody has set it, or the CRD has no room": {want: metav1.NewMicroTime(second.Time)},
		"it is null":                                {status: &metav1.MicroTime{}, want: metav1.NewMicroTime(second.Time)},
		"it is an annotation until then":            {annotated: "2026-03-01T10:00:05.123456Z", want: micros},
		"the PodGroup came seconds after its owner": {annotated: "2026-03-01T09:59:55.000000Z", want: metav1.NewMicroTime(second.Add(-10 * time.Second))},
		"the annotation is a moment too old":        {annotated: "2026-03-01T09:59:54.999999Z", want: metav1.NewMicroTime(second.Add(-10 * time.Second))},
		"the annotation is too old":                 {annotated: "2020-01-01T00:00:00.000000Z", want: metav1.NewMicroTime(second.Add(-10 * time.Second))},
		"the annotation is of the next second":      {annotated: "2026-03-01T10:00:06.123456Z", want: metav1.NewMicroTime(second.Add(time.Second - time.Microsecond))},
		"the annotation is no time":                 {annotated: "now", want: metav1.NewMicroTime(second.Time)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pg := &PodGroup{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: second}, Status: PodGroupStatus{CreationTime: tc.status}}
			if tc.annotated != "" {
				pg.Annotations = map[string]string{CreationTimeAnnotation: tc.annotated}
			}
			if got := CreationTime(pg); !got.Equal(&tc.want) {
				t.Errorf("CreationTime() = %v, want %v", got, tc.want)
			}
		})
	}
}

// Package group may not import this one, so it repeats what pods are labelled
// with.
func TestLabelsAgreeWithPackageGroup(t *testing.T) {
	want := map[string]string{PodGroupLabel: group.Label, GroupSizeLabel: group.SizeLabel, GroupMinLabel: group.MinLabel, CreationTimeAnnotation: group.CreationTimeAnnotation}
	for ours, theirs := range want {
		if ours != theirs {
			t.Errorf("label %q is %q in package group", ours, theirs)
		}
	}
}

func TestSchemeKnowsOurPodGroup(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	obj, err := scheme.New(GroupVersion.WithKind("PodGroup"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := obj.(*PodGroup); !ok {
		t.Errorf("kind PodGroup is a %T, want ours", obj)
	}
	if CRDName != PodGroups.GroupResource().String() {
		t.Errorf("CRDName = %q, want %q", CRDName, PodGroups.GroupResource())
	}
}
