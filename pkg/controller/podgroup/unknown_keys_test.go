package podgroup

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestKeysWithoutAnEffectAreReportedOnce(t *testing.T) {
	const (
		misspelt = "fluence.flux-framework.org/topology-require"
		nearest  = ": there is no such key, and it has no effect; did you mean fluence.flux-framework.org/topology-required?"
	)
	annotated := func(key string) map[string]string { return map[string]string{key: "rack"} }
	cases := map[string]struct {
		o    observation
		want string
	}{
		"no wrong key": {o: of(job(2)).with(podGroup(2, ours), nil)},
		"a wrong key of the template": {
			o:    of(job(2, func(j *batchv1.Job) { j.Spec.Template.Annotations = annotated(misspelt) })).with(podGroup(2, ours), nil),
			want: "annotation " + misspelt + " of the pod template" + nearest,
		},
		"an annotation of the Job itself": {
			o:    of(job(2, func(j *batchv1.Job) { j.Annotations = annotated(group.TopologyRequiredAnnotation) })).with(podGroup(2, ours), nil),
			want: "annotation " + group.TopologyRequiredAnnotation + " of the Job: has no effect there, only as an annotation of the pod template or PodGroup or native PodGroup",
		},
		"a wrong key of the PodGroup": {
			o:    of(job(2)).with(podGroup(2, ours, func(pg *scheduling.PodGroup) { pg.Annotations[misspelt] = "rack" }), nil),
			want: "annotation " + misspelt + " of the PodGroup" + nearest,
		},
		"a wrong key of bare pods": {
			o:    observation{key: key, now: now}.with(podGroup(2, ours), pods(2, func(p *corev1.Pod) { p.Annotations = annotated(misspelt) })),
			want: "annotation " + misspelt + " of the pods" + nearest,
		},
		"what the controller writes itself": {
			o: of(job(2)).with(podGroup(2, ours, func(pg *scheduling.PodGroup) { pg.Annotations[group.CreationTimeAnnotation] = "x" }), nil),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := memory{}
			for i := range 2 {
				var got []string
				for _, n := range m.newEvents(tc.o, sizeDecision{valid: true, minMember: 2}) {
					if n.reason == reason.UnknownAnnotation && n.eventType == corev1.EventTypeWarning {
						got = append(got, n.text)
					}
				}
				var want []string
				if i == 0 && tc.want != "" {
					want = []string{tc.want}
				}
				if !slices.Equal(got, want) {
					t.Errorf("look %d: events %q, want %q", i, got, want)
				}
			}
		})
	}
}

// The keys of an object are read again only when the object has changed.
func TestKeysAreReadOnceForEachVersionOfTheObjects(t *testing.T) {
	train := job(2, func(j *batchv1.Job) { j.ResourceVersion = "1" })
	o, m := of(train).with(podGroup(2, ours), nil), memory{}
	reported := func() bool {
		return slices.ContainsFunc(m.newEvents(o, sizeDecision{valid: true, minMember: 2}), func(n pendingEvent) bool { return n.reason == reason.UnknownAnnotation })
	}
	if reported() {
		t.Error("an event without a wrong key")
	}
	train.Spec.Template.Annotations = map[string]string{"fluence.nonesuch": ""}
	if reported() {
		t.Error("the keys of the same version are read again")
	}
	train.ResourceVersion = "2"
	if !reported() {
		t.Error("the keys of a new version are not read")
	}
}
