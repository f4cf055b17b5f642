package cli

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/objects"
)

func deleted(p *corev1.Pod) { p.DeletionTimestamp = new(ago(10 * time.Second)) }

// going has the pods of a Job with the given change. They are being deleted, but the last one has ended.
func going(j *batchv1.Job, change func(*corev1.Pod)) []runtime.Object {
	return []runtime.Object{
		node("node-0", "a", "r0"), pod("old-0", "node-0", "1", ofJob(j), deleted, change), pod("old-1", "node-0", "1", ofJob(j), deleted, change),
		pod("old-2", "node-0", "1", ofJob(j), deleted, change, endedAt(corev1.PodSucceeded, ago(time.Second))),
	}
}

func TestAGroupThatIsBeingDeleted(t *testing.T) {
	old := job("old")
	pg := podGroup(old, 3, 3, "Running", scheduled(metav1.ConditionTrue, "Placed", "3 pods on 1 node"))
	pg.DeletionTimestamp = new(ago(10 * time.Second))
	live := podGroup(old, 3, 3, "Running", scheduled(metav1.ConditionTrue, "Placed", "3 pods on 1 node"))
	foreground := job("old")
	foreground.DeletionTimestamp = new(ago(10 * time.Second))
	named := func(p *corev1.Pod) {
		objects.InGroup(podGroup(old, 3, 3, "").Name)(p)
		p.Labels[group.SizeLabel] = "3"
	}
	sized := func(p *corev1.Pod) { p.Labels = map[string]string{group.SizeLabel: "3"} }
	array := func(p *corev1.Pod) { p.Annotations = map[string]string{group.ArrayAnnotation: "true"} }
	unmarked := func(p *corev1.Pod) { p.DeletionTimestamp = nil }
	oneIs := func(p *corev1.Pod) {
		sized(p)
		if p.Name == "old-1" {
			unmarked(p)
		}
	}
	noneIs := func(p *corev1.Pod) {
		sized(p)
		unmarked(p)
	}
	unasked := going(old, func(p *corev1.Pod) {
		noneIs(p)
		p.Spec.SchedulerName = "fluence"
	})
	unasked[2].(*corev1.Pod).Spec.NodeName, unasked[2].(*corev1.Pod).Status.Phase = "", corev1.PodPending
	cases := map[string]struct {
		objects   []runtime.Object
		forbidden []string
		wantRow   string // without the times; "": none
		wantWhy   string
	}{
		"its Job and its PodGroup have gone":                  {objects: going(old, sized), wantRow: "Job/old 0 3 3 2 Terminating", wantWhy: "2 of 3 pods bound, 1 succeeded, phase Terminating"},
		"they have gone, and no pod says the size":            {objects: going(old, func(*corev1.Pod) {}), wantRow: "Job/old 0 2 2 2 Terminating", wantWhy: "2 of 2 pods bound, 1 succeeded, phase Terminating"},
		"they have gone, and it was an array":                 {objects: going(old, array), wantRow: "Job/old 0 2 1 2 Terminating", wantWhy: "2 of 2 pods bound (minimum 1), 1 succeeded, phase Terminating"},
		"they have gone, and a label names the PodGroup":      {objects: going(old, named), wantRow: "Job/old 0 3 3 2 Terminating", wantWhy: "2 of 3 pods bound, 1 succeeded, phase Terminating"},
		"its PodGroup waits for its pods":                     {objects: append(going(old, sized), old, pg), wantRow: "Job/old 0 3 3 2 Terminating", wantWhy: "2 of 3 pods bound, 1 succeeded, phase Terminating"},
		"its Job has gone, and its PodGroup not yet":          {objects: append(going(old, sized), live), wantRow: "Job/old 0 3 3 2 Terminating", wantWhy: "2 of 3 pods bound, 1 succeeded, phase Terminating"},
		"its Job waits for its pods":                          {objects: append(going(old, sized), foreground, live), wantRow: "Job/old 0 3 3 2 Terminating", wantWhy: "2 of 3 pods bound, 1 succeeded, phase Terminating"},
		"they have gone, and one pod is not marked yet":       {objects: going(old, oneIs), wantRow: "Job/old 0 3 3 2 Terminating", wantWhy: "2 of 3 pods bound, 1 succeeded, phase Terminating"},
		"they have gone, and no pod is marked yet":            {objects: going(old, noneIs), wantRow: "Job/old 0 3 3 2 Terminating", wantWhy: "2 of 3 pods bound, 1 succeeded, phase Terminating"},
		"its Job has gone, and only pods are marked":          {objects: append(going(old, oneIs), live), wantRow: "Job/old 0 3 3 2 Terminating", wantWhy: "2 of 3 pods bound, 1 succeeded, phase Terminating"},
		"its Job leaves its pods":                             {objects: append(going(old, noneIs), foreground, live), wantRow: "Job/old 0 3 3 2 Running", wantWhy: "does not wait"},
		"only its pods are being deleted, and are made again": {objects: append(going(old, sized), old, live), wantRow: "Job/old 0 3 3 2 Running", wantWhy: "does not wait"},
		"whether its Job has gone is not known":               {objects: append(going(old, named), live), forbidden: []string{"jobs"}, wantRow: "Job/old 0 3 3 2 Running", wantWhy: "does not wait"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := call{args: "groups --no-headers", objects: tc.objects, forbidden: tc.forbidden}.run(t)
			row := strings.Join(strings.Fields(out), " ")
			if code != ExitYes || !strings.HasPrefix(row, "- "+tc.wantRow+" ") || strings.Count(out, "\n") != 1 {
				t.Errorf("groups: exit code %d, %q, %q; want one row %q", code, out, errOut, tc.wantRow)
			}
			out, errOut, code = call{args: "why job/old", objects: tc.objects, forbidden: tc.forbidden}.run(t)
			if code != ExitYes || !strings.Contains(out, tc.wantWhy) || !strings.HasPrefix(out, "PodGroup lab/"+live.Name+" of Job/old\n") {
				t.Errorf("why: exit code %d, %q, %q; want %q", code, out, errOut, tc.wantWhy)
			}
			const text = "the group is being deleted; 2 pods have not ended yet\n"
			if terminating := strings.Contains(tc.wantRow, phaseTerminating); strings.Contains(out, text) != terminating {
				t.Errorf("why: %q, says %q: want %t", out, text, terminating)
			}
		})
	}
	if out, _, code := (call{args: "why job/old", objects: unasked}).run(t); code != ExitYes || !strings.Contains(out, "the group is being deleted; 1 pod has not ended yet") {
		t.Errorf("why: exit code %d, %q; want a group that is being deleted, and does not wait", code, out)
	}
	if out, _, _ := (call{args: "groups --status terminating --no-headers", objects: append(going(old, sized), job("other"), pod("other-0", "node-0", "1", ofJob(job("other"))))}).run(t); strings.Count(out, "\n") != 1 || !strings.Contains(out, "Job/old") {
		t.Errorf("--status terminating: %q, want the group that is being deleted", out)
	}
}
