package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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
			wantRow: "Suspended - - - Suspended", wantWhy: []string{"  suspended for 60s, reason Suspended\n    Job/train is suspended\n", resume}, not: "NeverFits",
		},
		"the controller has not written it yet": {
			objects: []runtime.Object{paused, podGroup(paused, 2, 0, "Pending", never)},
			wantRow: "Suspended - - - Suspended", wantWhy: []string{"  suspended, reason Suspended\n    the Job is suspended", resume}, not: "NeverFits",
		},
		"a label is invalid": {
			objects: []runtime.Object{paused, podGroup(paused, 2, 0, "Suspended", never, absent, invalid)},
			wantRow: "Suspended - - - InvalidGroupSize", wantWhy: []string{"reason InvalidGroupSize"}, not: "NeverFits",
		},
		"it was resumed, and its pods wait": {
			objects: []runtime.Object{resumed, podGroup(resumed, 1, 0, "Suspended", never, absent), pod("train-0", "", "64", ofJob(resumed))},
			wantRow: "Suspended 5m - - NeverFits", wantWhy: []string{"waiting for 5m, reason NeverFits"}, not: "to resume",
		},
		"an MPIJob": {
			objects: []runtime.Object{mpi}, of: "mpijob/ring", wantRow: "Suspended - - - Suspended",
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

func TestJobsThatWereCreatedSuspended(t *testing.T) {
	created := func(name string, parallelism int32, change ...func(*batchv1.Job)) *batchv1.Job {
		j := job(name)
		j.CreationTimestamp = ago(time.Minute)
		j.Spec.Suspend, j.Spec.Parallelism, j.Spec.Template.Spec.SchedulerName = new(true), &parallelism, "fluence"
		for _, c := range change {
			c(j)
		}
		return j
	}
	labelled := func(key, value string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{key: value} }
	}
	had := created("had", 2)
	all := []runtime.Object{
		created("base", 3, func(j *batchv1.Job) { j.Spec.Template.Spec.PriorityClassName = "high" }), created("least", 4, labelled(group.MinLabel, "2")),
		created("left", 2, labelled(group.Label, "band")), created("right", 2, labelled(group.Label, "band")), created("wrong", 2, labelled(group.MinLabel, "none")),
		created("other", 1, func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "default-scheduler" }), created("nothing", 0),
		created("ended", 1, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		}),
		created("part", 1, func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "set", UID: "uid-set", Controller: new(true)}}
		}),
		created("resumed", 1, func(j *batchv1.Job) { j.Spec.Suspend = new(false) }),
		had, podGroup(had, 2, 0, "Suspended"),
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10},
	}
	const columns = "groups --no-headers -o custom-columns=OF:.of,PRIO:.priority,SIZE:.size,MIN:.minimum,PHASE:.phase,WHY:.waitingFor"
	cases := map[string]struct {
		args      string
		forbidden []string
		want      []string
	}{
		"all": {args: columns, want: []string{
			"Job/base 10 3 3 Suspended Suspended", "<none> 0 4 4 Suspended Suspended", "Job/had 0 2 2 Suspended Suspended",
			"Job/least 0 4 2 Suspended Suspended", "Job/wrong 0 0 0 Suspended Suspended",
		}},
		"by status":                  {args: columns + " --status suspended --priority >0", want: []string{"Job/base 10 3 3 Suspended Suspended"}},
		"by name":                    {args: columns + " job/least", want: []string{"Job/least 0 4 2 Suspended Suspended"}},
		"by the label of a template": {args: columns + " -l fluence.group-min=2", want: []string{"Job/least 0 4 2 Suspended Suspended"}},
		"as names":                   {args: "groups base -o name", want: []string{"job.batch/base"}},
		"in the cluster":             {args: "cluster -o jsonpath={.groups.status.suspended}", want: []string{"5"}},
		"where Jobs may not be read": {args: columns, forbidden: []string{"jobs"}, want: []string{"Job/had 0 2 2 Suspended Suspended"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := call{args: tc.args, objects: all, forbidden: tc.forbidden}.run(t)
			var got []string
			for line := range strings.Lines(strings.TrimSpace(out)) {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "OF PRIO") })
			slices.Sort(got)
			slices.Sort(tc.want)
			if code != ExitYes || !slices.Equal(got, tc.want) {
				t.Errorf("exit code %d, %q, %q; want %q", code, got, errOut, tc.want)
			}
		})
	}
}
