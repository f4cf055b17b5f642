package cli

import (
	"strings"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
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

func TestThePriorityOfAGroupWithoutPods(t *testing.T) {
	paused := job("train")
	paused.Spec.Suspend, paused.Spec.Template.Spec.PriorityClassName = new(true), "high"
	plain := job("plain")
	plain.Spec.Suspend = new(true)
	class := func(name string, value int32, isDefault bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: isDefault}
	}
	all := []runtime.Object{paused, podGroup(paused, 2, 0, "Suspended"), plain, podGroup(plain, 2, 0, "Suspended"), class("high", 10, false), class("usual", 3, true)}
	cases := map[string]struct {
		args      string
		forbidden []string
		want      string
	}{
		"the class of the template": {args: "--priority 10", want: "job/train 10"},
		"the default class":         {args: "--priority 3", want: "job/plain 3"},
		"classes may not be read":   {args: "job/train", forbidden: []string{"priorityclasses"}, want: "job/train 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := call{args: "groups --no-headers -o custom-columns=A:.of,B:.priority " + tc.args, objects: all, forbidden: tc.forbidden}.run(t)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if got := strings.ToLower(strings.Join(strings.Fields(lines[len(lines)-1]), " ")); code != ExitYes || got != tc.want || len(lines) != 2 {
				t.Errorf("exit code %d, %q, %q; want %q", code, out, errOut, tc.want)
			}
		})
	}
}
