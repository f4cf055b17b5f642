package nativegroup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// native is a native PodGroup. With minCount 0 its policy is basic.
func native(minCount int32, annotations ...string) *schedulingv1beta1.PodGroup {
	pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "train", UID: "uid", Annotations: map[string]string{}}}
	if minCount > 0 {
		pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	}
	for i := 0; i < len(annotations); i += 2 {
		pg.Annotations[annotations[i]] = annotations[i+1]
	}
	return pg
}

func TestTheMinimum(t *testing.T) {
	cases := map[string]struct {
		native *schedulingv1beta1.PodGroup
		want   int32
	}{
		"of a gang":                            {native(4), 4},
		"of a gang, lowered":                   {native(4, group.MinMemberAnnotation, "2"), 2},
		"of a gang, which is not raised":       {native(4, group.MinMemberAnnotation, "8"), 4},
		"of basic":                             {native(0), 0},
		"of basic, said":                       {native(0, group.MinMemberAnnotation, "8"), 8},
		"of basic, said in a way that is none": {native(0, group.MinMemberAnnotation, "0"), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Convert(tc.native).Spec.MinMember; got != tc.want {
				t.Errorf("minMember = %d, want %d", got, tc.want)
			}
		})
	}
	for _, value := range []string{"", "0", "-1", "many", "100001", "4294967297"} {
		if n, err := Minimum(map[string]string{group.MinMemberAnnotation: value}); err == nil || n != 0 || !strings.Contains(err.Error(), group.MinMemberAnnotation) {
			t.Errorf("Minimum(%q) = %d, %v; want an error that names the annotation", value, n, err)
		}
	}
}

func TestWhatIsKeptOfANativePodGroup(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 3, 1, 10, 0, 5, 0, time.UTC))
	pg := native(4, group.MatchPolicyAnnotation, "low", "others", "x", group.TopologyRequiredAnnotation, "node")
	pg.CreationTimestamp, pg.Generation = created, 3
	pg.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
	pg.Status.Conditions = []metav1.Condition{{Type: "fluence.flux-framework.org/Scheduled", Reason: "NoRoom"}, {Type: "DisruptionTarget", Reason: "R"}}
	want := &scheduling.PodGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "scheduling.k8s.io/train", UID: "uid", Generation: 3, CreationTimestamp: created,
			Annotations: map[string]string{group.MatchPolicyAnnotation: "low", group.TopologyRequiredAnnotation: "node"},
		},
	}
	want.Spec.MinMember = 4
	want.Status.Conditions = []metav1.Condition{{Type: "Scheduled", Reason: "NoRoom"}}
	got := Convert(pg)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Convert() (-want +got):\n%s", diff)
	}
	if apiVersion, name := NameOf(got); apiVersion != "scheduling.k8s.io/v1beta1" || name != "train" {
		t.Errorf("NameOf() = %s, %s", apiVersion, name)
	}
	got.Name = "own"
	if apiVersion, name := NameOf(got); apiVersion != "scheduling.x-k8s.io/v1alpha1" || name != "own" {
		t.Errorf("NameOf() = %s, %s", apiVersion, name)
	}
}

func TestTopology(t *testing.T) {
	levels := []group.Level{{Type: "rack", Key: "example.com/rack"}, {Type: "zone", Key: "topology.kubernetes.io/zone"}}
	both := func(key, said string) string {
		return fmt.Sprintf("spec.schedulingConstraints.topology[0].key: %q and annotation fluence.flux-framework.org/topology-required: %q: set only one of them", key, said)
	}
	cases := map[string]struct{ key, annotation, required, domain, wrong string }{
		"none":                     {"", "zone", "", "", ""},
		"a level":                  {"example.com/rack", "", "example.com/rack", "", ""},
		"a level, said twice":      {"example.com/rack", "rack", "example.com/rack", "", ""},
		"the nodes":                {"kubernetes.io/hostname", "", "kubernetes.io/hostname", "", ""},
		"no level":                 {"example.com/row", "", "", "example.com/row", ""},
		"no level and a level":     {"example.com/row", "rack", "", "example.com/row", both("example.com/row", "rack")},
		"two levels":               {"example.com/rack", "zone", "example.com/rack", "", both("example.com/rack", "zone")},
		"a level and what is none": {"example.com/rack", "row", "example.com/rack", "", both("example.com/rack", "row")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pg := native(1)
			if tc.annotation != "" {
				pg.Annotations[group.TopologyRequiredAnnotation] = tc.annotation
			}
			if tc.key != "" {
				pg.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: tc.key}}}
			}
			if required, domain, wrong := Topology(pg, levels); required != tc.required || domain != tc.domain || wrong != tc.wrong {
				t.Errorf("Topology() = %q, %q, %q, want %q, %q, %q", required, domain, wrong, tc.required, tc.domain, tc.wrong)
			}
		})
	}
}

func TestTheConditionOfKubernetes(t *testing.T) {
	now, earlier := metav1.NewTime(time.Unix(2000, 0)), metav1.NewTime(time.Unix(1000, 0))
	scheduled := func(status metav1.ConditionStatus, because string) metav1.Condition {
		return metav1.Condition{Type: "Scheduled", Status: status, Reason: because, Message: "why", ObservedGeneration: 3, LastTransitionTime: earlier}
	}
	initially := func(status metav1.ConditionStatus, because, message string, since metav1.Time) metav1.Condition {
		return metav1.Condition{Type: "PodGroupInitiallyScheduled", Status: status, Reason: because, Message: message, ObservedGeneration: 3, LastTransitionTime: since}
	}
	yes, no := initially(metav1.ConditionTrue, "Scheduled", "4 pods", earlier), initially(metav1.ConditionFalse, "Unschedulable", "NoRoom: none", earlier)
	cases := map[string]struct {
		before  *metav1.Condition
		is      metav1.Condition
		started bool
		want    metav1.Condition
	}{
		"a group without room":              {nil, scheduled(metav1.ConditionFalse, reason.NoRoom), false, initially(metav1.ConditionFalse, "Unschedulable", "NoRoom: why", now)},
		"again without room":                {&no, scheduled(metav1.ConditionFalse, reason.NoRoom), false, initially(metav1.ConditionFalse, "Unschedulable", "NoRoom: why", earlier)},
		"a matcher that does not answer":    {nil, scheduled(metav1.ConditionFalse, reason.MatcherUnavailable), false, initially(metav1.ConditionFalse, "SchedulerError", "MatcherUnavailable: why", now)},
		"a request that the matcher breaks": {nil, scheduled(metav1.ConditionFalse, reason.MatchError), false, initially(metav1.ConditionFalse, "SchedulerError", "MatchError: why", now)},
		"a group with nodes":                {&no, scheduled(metav1.ConditionTrue, reason.Placed), false, initially(metav1.ConditionTrue, "Scheduled", "why", now)},
		"a group that has lost them":        {&yes, scheduled(metav1.ConditionFalse, reason.NoRoom), false, yes},
		"and the informer does not show it": {&no, scheduled(metav1.ConditionFalse, reason.NoRoom), true, initially(metav1.ConditionTrue, "Scheduled", "the group has started before", now)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pg := native(4)
			if tc.before != nil {
				pg.Status.Conditions = []metav1.Condition{*tc.before}
			}
			own := tc.is
			own.Type = "fluence.flux-framework.org/Scheduled"
			got := Conditions(pg, []metav1.Condition{tc.is}, "Scheduled", tc.started, now)
			if diff := cmp.Diff([]metav1.Condition{tc.want, own}, got); diff != "" {
				t.Errorf("Conditions() (-want +got):\n%s", diff)
			}
			if HasStarted(got) != (tc.want.Status == metav1.ConditionTrue) {
				t.Errorf("HasStarted() = %t of %+v", HasStarted(got), got)
			}
		})
	}
}
