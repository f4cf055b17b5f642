package invariants

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// podGroupOf returns a PodGroup of an API version, with a spec and perhaps the annotation of a minimum.
func podGroupOf(apiVersion, minimum string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "ns", "name": "g", "uid": "1", "ownerReferences": []any{map[string]any{"uid": "job"}}},
		"spec":     spec,
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "PodGroupInitiallyScheduled", "status": "True"},
			map[string]any{"type": "fluence.flux-framework.org/Scheduled", "status": "False"},
		}},
	}}
	if minimum != "" {
		u.SetAnnotations(map[string]string{minimumAnnotation: minimum})
	}
	return u
}

func TestTheMinimumOfAPodGroup(t *testing.T) {
	gang := map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(4)}}}
	basic := map[string]any{"schedulingPolicy": map[string]any{"basic": map[string]any{}}}
	cases := map[string]struct {
		apiVersion, minimum string
		spec                map[string]any
		want                int
	}{
		"of Fluence":                       {"scheduling.x-k8s.io/v1alpha1", "", map[string]any{"minMember": int64(3)}, 3},
		"a native gang":                    {"scheduling.k8s.io/v1beta1", "", gang, 4},
		"a native gang that makes fewer":   {"scheduling.k8s.io/v1beta1", "2", gang, 2},
		"a native gang that makes more":    {"scheduling.k8s.io/v1beta1", "8", gang, 4},
		"basic with the controller's word": {"scheduling.k8s.io/v1beta1", "8", basic, 8},
		"basic without":                    {"scheduling.k8s.io/v1beta1", "", basic, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := groupFactOf(podGroupOf(tc.apiVersion, tc.minimum, tc.spec)).minMember; got != tc.want {
				t.Errorf("minMember %d, want %d", got, tc.want)
			}
		})
	}
}

// A native PodGroup and one of Fluence may have the same name. Pods
// and events are of the one that they name.
func TestANativePodGroupIsAGroupOfItsOwn(t *testing.T) {
	const want = "ns/scheduling.k8s.io/g"
	g := groupFactOf(podGroupOf("scheduling.k8s.io/v1beta1", "", nil))
	if !g.native || g.key.String() != want || len(g.owners) > 0 || len(g.condition(conditionScheduled)) != 1 {
		t.Errorf("the group is %+v, want %s with one condition %s and no owners", g, want, conditionScheduled)
	}
	if g := groupFactOf(podGroupOf("scheduling.x-k8s.io/v1alpha1", "", nil)); g.native || g.key.String() != "ns/g" || len(g.owners) != 1 {
		t.Errorf("the group of Fluence is %+v", g)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{groupLabel: "other"}}}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
	if got := podFactOf(pod).label; "ns/"+got != want {
		t.Errorf("the pod is of group %s, want %s", got, want)
	}
	event := &eventsv1.Event{Regarding: corev1.ObjectReference{APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroup", Namespace: "ns", Name: "g"}}
	if got := eventFactOf(event).about; got.String() != want {
		t.Errorf("the event is about %s, want %s", got, want)
	}
}

// What bounds the time of a pod is read: its duration, and since when it has its node.
func TestTheDurationOfAPodIsRead(t *testing.T) {
	bound := metav1.Unix(1000, 0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{durationAnnotation: "5s"}}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound},
	}}}
	if f := podFactOf(p); !f.boundAt.Equal(bound.Time) || f.annotations[durationAnnotation] != "5s" {
		t.Errorf("it is bound at %v, with %v", f.boundAt, f.annotations)
	}
	g := podGroupOf("scheduling.x-k8s.io/v1alpha1", "", nil)
	g.SetAnnotations(map[string]string{durationAnnotation: "7s"})
	if f := groupFactOf(g); f.annotations[durationAnnotation] != "7s" {
		t.Errorf("the PodGroup has %v", f.annotations)
	}
}
