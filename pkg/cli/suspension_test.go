package cli

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestASuspendedGroup(t *testing.T) {
	paused, resumed := job("train"), job("train")
	paused.Spec.Suspend = new(true)
	never := scheduled(metav1.ConditionFalse, "NeverFits", "needs 2 pods with cpu 64; no node is large enough")
	absent := metav1.Condition{Type: "MembersExpected", Status: metav1.ConditionFalse, Reason: "Suspended", Message: "Job/train is suspended", LastTransitionTime: ago(time.Minute)}
	invalid := metav1.Condition{Type: "Valid", Status: metav1.ConditionFalse, Reason: "InvalidGroupSize", Message: "label fluence.group-size: two", LastTransitionTime: ago(time.Minute)}
	mpi := podGroup(job("ring"), 2, 0, "Suspended", absent)
	mpi.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubeflow.org/v2beta1", Kind: "MPIJob", Name: "ring", UID: "uid-ring"}}
	mpi.Name = group.Owner{Group: "kubeflow.org", Kind: "MPIJob", Name: "ring", UID: "uid-ring"}.PodGroupName()
	const resume = ` kubectl -n lab patch jobs train --type merge -p '{"spec":{"suspend":false}}'`
	cases := map[string]struct {
		objects []runtime.Object
		of      string // "": job/train
		wantRow string // from PHASE on
		wantWhy []string
		not     string
	}{
		"the scheduler said before that it never fits": {
			objects: []runtime.Object{paused, podGroup(paused, 2, 0, "Suspended", never, absent)},
			wantRow: "Suspended - - Suspended", wantWhy: []string{"  suspended for 60s, reason Suspended\n    Job/train is suspended\n", resume}, not: "NeverFits",
		},
		"the controller has not written it yet": {
			objects: []runtime.Object{paused, podGroup(paused, 2, 0, "Pending", never)},
			wantRow: "Suspended - - Suspended", wantWhy: []string{"  suspended, reason Suspended\n    the Job is suspended", resume}, not: "NeverFits",
		},
		"a label is invalid": {
			objects: []runtime.Object{paused, podGroup(paused, 2, 0, "Suspended", never, absent, invalid)},
			wantRow: "Suspended - - InvalidGroupSize", wantWhy: []string{"reason InvalidGroupSize"}, not: "NeverFits",
		},
		"it was resumed, and its pods wait": {
			objects: []runtime.Object{resumed, podGroup(resumed, 1, 0, "Suspended", never, absent), pod("train-0", "", "64", ofJob(resumed))},
			wantRow: "Suspended 5m - NeverFits", wantWhy: []string{"waiting for 5m, reason NeverFits"}, not: "to resume",
		},
		"an MPIJob": {
			objects: []runtime.Object{mpi}, of: "mpijob/ring", wantRow: "Suspended - - Suspended",
			wantWhy: []string{`: kubectl -n lab patch mpijobs.kubeflow.org ring --type merge -p '{"spec":{"runPolicy":{"suspend":false}}}'`},
		},
		"a Job without a PodGroup": {objects: []runtime.Object{paused}, wantWhy: []string{"  suspended, reason Suspended\n", resume}, not: "waiting"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.of == "" {
				tc.of = "job/train"
			}
			if out, _, _ := (call{args: "groups --no-headers", objects: tc.objects}).run(t); tc.wantRow != "" && !strings.HasSuffix(strings.Join(strings.Fields(out), " "), " 0 "+tc.wantRow) {
				t.Errorf("groups: %q, want %q", out, tc.wantRow)
			}
			out, errOut, code := call{args: "why " + tc.of, objects: tc.objects}.run(t)
			for _, want := range tc.wantWhy {
				if !strings.Contains(out, want) {
					t.Errorf("why: %q, %q; want %q", out, errOut, want)
				}
			}
			if code != ExitNo || tc.not != "" && strings.Contains(out, tc.not) {
				t.Errorf("why: exit code %d, %q; want %d, and no word of %q", code, out, ExitNo, tc.not)
			}
		})
	}
}
