package cli

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// Only what Fluence keeps from starting is let go. What a user has suspended himself stays so.
func TestWhichJobsLeaveTheirQueues(t *testing.T) {
	const (
		onJob      = `{"metadata":{"annotations":{"fluence.flux-framework.org/queued":null},"labels":{"fluence.flux-framework.org/queue":""},"resourceVersion":"","uid":"uid-j"},"spec":{}}`
		resumed    = `{"metadata":{"annotations":{"fluence.flux-framework.org/queued":null},"labels":{"fluence.flux-framework.org/queue":""},"resourceVersion":"","uid":"uid-j"},"spec":{"suspend":false}}`
		byTemplate = `{"metadata":{"annotations":{"fluence.flux-framework.org/queued":null},"labels":{"fluence.flux-framework.org/queue":""},"resourceVersion":"","uid":"uid-j"},"spec":{"suspend":false,"template":{"metadata":{"labels":{"fluence.flux-framework.org/queue":null}}}}}`
		deadline   = `{"metadata":{"annotations":{"fluence.flux-framework.org/deadline":null,"fluence.flux-framework.org/queued":null},"labels":{"fluence.flux-framework.org/queue":""},"resourceVersion":"","uid":"uid-j"},"spec":{"activeDeadlineSeconds":9000,"suspend":false}}`
		noDeadline = `{"metadata":{"annotations":{"fluence.flux-framework.org/deadline":null,"fluence.flux-framework.org/queued":null},"labels":{"fluence.flux-framework.org/queue":""},"resourceVersion":"","uid":"uid-j"},"spec":{"activeDeadlineSeconds":null,"suspend":false}}`
		byUser     = `{"metadata":{"annotations":{"fluence.flux-framework.org/deadline":null,"fluence.flux-framework.org/queued":null},"labels":{"fluence.flux-framework.org/queue":""},"resourceVersion":"","uid":"uid-j"},"spec":{"suspend":false}}`
		evicted    = `{"metadata":{"annotations":{"fluence.flux-framework.org/queued":null,"fluence.flux-framework.org/suspended-for":null},"labels":{"fluence.flux-framework.org/queue":""},"resourceVersion":"","uid":"uid-j"},"spec":{"suspend":false}}`
	)
	suspend := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	label := func(j *batchv1.Job) { j.Labels = map[string]string{v1alpha1.QueueLabel: "q"} }
	none := func(j *batchv1.Job) { j.Labels = map[string]string{v1alpha1.QueueLabel: ""} }
	template := func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{v1alpha1.QueueLabel: "q"} }
	noted := func(j *batchv1.Job) {
		j.Annotations = map[string]string{v1alpha1.QueuedAnnotation: "2026-03-01T12:00:00Z"}
	}
	forOther := func(j *batchv1.Job) {
		j.Annotations = map[string]string{group.SuspendedForAnnotation: group.SuspensionFor("uid-urgent", j.UID)}
	}
	foreign := func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = corev1.DefaultSchedulerName }
	limited := func(note string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Annotations[group.DeadlineAnnotation], j.Spec.ActiveDeadlineSeconds = note, new(int64(7200))
		}
	}
	type edits []func(*batchv1.Job)
	cases := map[string]struct {
		edits     edits
		notServed bool
		want      string
	}{
		"no queue":                                {},
		"suspended until its turn":                {edits: edits{label, noted, suspend}, want: resumed},
		"the template has the label":              {edits: edits{template, noted, suspend}, want: byTemplate},
		"the same without the CRDs":               {edits: edits{label, noted, suspend}, notServed: true, want: resumed},
		"suspended by its user":                   {edits: edits{label, suspend}, want: "null"},
		"suspended by its user without a queue":   {edits: edits{suspend}, want: "null"},
		"suspended for a group of high priority":  {edits: edits{label, forOther, suspend}, want: evicted},
		"the same without a queue":                {edits: edits{forOther, suspend}, want: "null"},
		"not suspended yet":                       {edits: edits{label}, want: onJob},
		"not suspended and never to be":           {edits: edits{label}, notServed: true, want: "null"},
		"resumed by its user, with a note of old": {edits: edits{label, noted}, notServed: true, want: onJob},
		"it had a longer deadline of its own":     {edits: edits{label, noted, suspend, limited("9000/7200")}, want: deadline},
		"it had no deadline of its own":           {edits: edits{label, noted, suspend, limited("none/7200")}, want: noDeadline},
		"its user has changed the deadline since": {edits: edits{label, noted, suspend, limited("9000/3600")}, want: byUser},
		"of the default scheduler":                {edits: edits{label, foreign}, want: "null"},
		"the same, suspended by Fluence":          {edits: edits{label, foreign, noted, suspend}, want: resumed},
		"it has left before":                      {edits: edits{none}, want: "null"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			j := job("j")
			for _, edit := range tc.edits {
				edit(j)
			}
			if tc.want == "" {
				tc.want = "null"
			}
			if got := string(encoded(jobLeaves(j, !tc.notServed))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestWhichPodsLeaveTheirQueues(t *testing.T) {
	const left = `{"metadata":{"annotations":{"fluence.flux-framework.org/queued":null},"labels":{"fluence.flux-framework.org/queue":null},"resourceVersion":"","uid":"uid-p"}`
	cases := map[string]struct {
		label   string
		gates   []string
		foreign bool
		want    string
	}{
		"no queue":                       {want: "null"},
		"another gate":                   {gates: []string{"other"}, want: "null"},
		"a label":                        {label: "q", want: left + "}"},
		"a label and a gate":             {label: "q", gates: []string{v1alpha1.QueueGate}, want: left + `,"spec":{"schedulingGates":[]}}`},
		"of the default scheduler":       {label: "q", foreign: true, want: "null"},
		"the same with a gate":           {label: "q", foreign: true, gates: []string{v1alpha1.QueueGate}, want: left + `,"spec":{"schedulingGates":[]}}`},
		"a gate beside that of somebody": {gates: []string{"other", v1alpha1.QueueGate}, want: left + `,"spec":{"schedulingGates":[{"name":"other"}]}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pod("p", "", "1")
			if tc.foreign {
				p.Spec.SchedulerName = corev1.DefaultSchedulerName
			}
			if tc.label != "" {
				p.Labels = map[string]string{v1alpha1.QueueLabel: tc.label}
			}
			for _, g := range tc.gates {
				p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: g})
			}
			if got := string(encoded(podLeaves(p))); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
