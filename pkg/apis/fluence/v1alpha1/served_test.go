package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

func defaults(e *env) {
	e.mustCreate(queue("defaults", "{}"))
	var q v1alpha1.Queue
	e.get(object{"queues", "defaults", ""}, &q)
	want := v1alpha1.QueueSpec{
		Policy: v1alpha1.EASY, Enabled: new(true), Started: new(true), Grace: "30s",
		Limits: v1alpha1.QueueLimits{Pending: new(int32(10_000))},
	}
	if diff := cmp.Diff(want, q.Spec); diff != "" {
		e.Errorf("a Queue without anything (-want +got):\n%s", diff)
	}
	if q.GracePeriod() != v1alpha1.DefaultGrace {
		e.Errorf("the default of spec.grace is %s, and DefaultGrace %s", q.Spec.Grace, v1alpha1.DefaultGrace)
	}
	e.mustCreate(fluxJob("defaults", asks))
	var j v1alpha1.FluxJob
	e.get(object{"fluxjobs", "defaults", ""}, &j)
	workload := v1alpha1.WorkloadReference{APIVersion: "batch/v1", Kind: "Job", Name: "solver", UID: "u1"}
	if diff := cmp.Diff(v1alpha1.FluxJobSpec{Queue: "batch", Jobspec: "x", Pods: 2, Workload: workload}, j.Spec); diff != "" {
		e.Errorf("a FluxJob without anything (-want +got):\n%s", diff)
	}
}

// kept checks that the API server keeps all that our clients write.
func kept(e *env) {
	second := metav1.NewTime(time.Date(2026, 3, 1, 10, 0, 5, 0, time.UTC).Local())
	micro := metav1.NewMicroTime(second.Add(123456 * time.Microsecond))
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	q.APIVersion, q.Kind = v1alpha1.GroupVersion.String(), "Queue"
	amounts := corev1.ResourceList{"cpu": resource.MustParse("20k"), "example.com/gpu": resource.MustParse("4")}
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b"}}}}
	q.Spec = v1alpha1.QueueSpec{
		Policy: v1alpha1.FCFS, Priority: -3, Requires: labels, NamespaceSelector: labels, DefaultFor: labels, Enabled: new(false), Started: new(false),
		Defaults: v1alpha1.QueueDefaults{Duration: "1h"}, Grace: "1m",
		Limits: v1alpha1.QueueLimits{
			Duration: "1d", Pending: new(int32(1)), Running: new(int32(2)), Requests: amounts,
			JobSize:      v1alpha1.JobSizeLimits{Max: v1alpha1.JobSize{Pods: new(int32(3)), Requests: amounts}},
			PerNamespace: v1alpha1.NamespaceLimits{Pending: new(int32(4)), Running: new(int32(5))},
		},
	}
	conditions := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, LastTransitionTime: second}}
	qs := v1alpha1.QueueStatus{Pending: 1, Running: 2, Used: amounts, Head: &v1alpha1.QueueHead{Namespace: "ns", Name: "j", At: &second}, Conditions: conditions}

	j := &v1alpha1.FluxJob{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"}}
	j.APIVersion, j.Kind = v1alpha1.GroupVersion.String(), "FluxJob"
	j.Spec = v1alpha1.FluxJobSpec{
		Queue: "kept", Workload: v1alpha1.WorkloadReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u1"}, Jobspec: "version: 9999\n", Pods: 7, Requests: amounts,
		Nodes: v1alpha1.NodeRules{
			Selector:    map[string]string{"a": "b"},
			Affinity:    &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}}}}},
			Tolerations: []corev1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(3))}},
		},
		Placement: map[string]string{"a": "b"}, Priority: 2_000_001_000, Duration: "30m", Held: true,
	}
	js := v1alpha1.FluxJobStatus{
		Phase: v1alpha1.Finished, CreationTime: &micro, Promise: &v1alpha1.JobPromise{At: second, Nodes: 3, Since: second, Why: "why"},
		Allocation: &v1alpha1.JobAllocation{Attempt: 1, At: micro, End: &second, Seats: v1alpha1.SeatsOf([]string{"n1", "n1", "n2"})},
		Started:    &second, Ended: &second, Result: v1alpha1.Failed, Requeues: 2, Conditions: conditions,
	}
	ofQueue, ofJob := object{"queues", q.Name, e.json(q)}, object{"fluxjobs", j.Name, e.json(j)}
	e.mustCreate(ofQueue)
	e.mustCreate(ofJob)
	q.Status, j.Status = qs, js
	for o, body := range map[object]string{ofQueue: e.json(q), ofJob: e.json(j)} {
		if err := e.patch("", o, body, "status"); err != nil {
			e.Fatal(err)
		}
	}
	var gotQueue v1alpha1.Queue
	var gotJob v1alpha1.FluxJob
	e.get(ofQueue, &gotQueue)
	e.get(ofJob, &gotJob)
	if diff := cmp.Diff([]any{q.Spec, q.Status, j.Spec, j.Status}, []any{gotQueue.Spec, gotQueue.Status, gotJob.Spec, gotJob.Status}); diff != "" {
		e.Errorf("(-written +read):\n%s", diff)
	}
}

func columns(e *env) {
	q, j := queue("columns", "{policy: fcfs, priority: 5}"), fluxJob("columns", asks+", priority: 10, duration: 2h")
	e.mustCreate(q)
	e.mustCreate(j)
	const at = `"lastTransitionTime": "2026-03-01T10:00:00Z"`
	for o, status := range map[object]string{
		q: `{"pending": 41, "running": 3, "conditions": [{"type": "Ready", "status": "False", "reason": "NoNodes", "message": "none", ` + at + `}]}`,
		j: `{"phase": "Waiting", "promise": {"at": "2026-03-01T14:05:00Z", "nodes": 12, "since": "2026-03-01T10:00:00Z"}, "conditions": [` +
			`{"type": "Valid", "status": "True", "reason": "Valid", "message": "", ` + at + `}, {"type": "Admitted", "status": "False", "reason": "Promised", "message": "12 nodes", ` + at + `}]}`,
	} {
		if err := e.patch("", o, `{"status": `+status+`}`, "status"); err != nil {
			e.Fatal(err)
		}
	}
	for args, want := range map[string][]string{
		"fq columns":         {"NAME POLICY ENABLED STARTED PENDING RUNNING READY AGE", "columns fcfs true true 41 3 False "},
		"fq columns -o wide": {"NAME POLICY PRIORITY ENABLED STARTED PENDING RUNNING READY MESSAGE AGE", "columns fcfs 5 true true 41 3 False none "},
		"fj columns":         {"NAME QUEUE PRIORITY PODS DURATION PHASE REASON STARTS AGE", "columns batch 10 2 2h Waiting Promised 2026-03-01T14:05:00Z "},
		"fj columns -o wide": {"NAME QUEUE PRIORITY PODS DURATION PHASE REASON STARTS ENDS RESULT MESSAGE AGE", "columns batch 10 2 2h Waiting Promised 2026-03-01T14:05:00Z 12 nodes "},
	} {
		out, _, err := e.Kubectl(e.ctx, append([]string{"get"}, strings.Fields(args)...)...)
		if err != nil {
			e.Error(err)
			continue
		}
		lines := strings.Split(out, "\n")
		for i, line := range want {
			if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, line) {
				e.Errorf("kubectl get %s: line %d is %q, want %q", args, i, got, line)
			}
		}
	}
}

// rightsToFluxJobs checks the roles that view, edit and admin contain. Nothing puts them together here.
func rightsToFluxJobs(e *env) {
	for user, role := range map[string]string{"viewer": "fluence-fluxjobs-view", "editor": "fluence-fluxjobs-edit"} {
		e.kubectl("create", "rolebinding", user, "--clusterrole="+role, "--user="+user)
	}
	j := fluxJob("rights", asks)
	e.mustCreate(j)
	e.until("the editor may hold", func() error { return e.patch("editor", j, `{"spec": {"held": true, "duration": "3h"}}`) })
	e.until("the viewer may look", func() error { return j.request(e.as("viewer").Get()).Name(j.name).Do(e.ctx).Error() })
	e.refused("more pods, by the editor", e.patch("editor", j, `{"spec": {"pods": 3}}`), "must stay as it is")
	for what, err := range map[string]error{
		"patch":                    e.patch("viewer", j, `{"spec": {"held": false}}`),
		"patch of the status":      e.patch("viewer", j, `{"status": {"phase": "Ready"}}`, "status"),
		"the editor's status":      e.patch("editor", j, `{"status": {"phase": "Ready"}}`, "status"),
		"the editor's FluxJob":     fluxJob("mine", asks).request(e.as("editor").Post()).SetHeader("Content-Type", "application/yaml").Body([]byte(fluxJob("mine", asks).body)).Do(e.ctx).Error(),
		"deletion":                 j.request(e.as("editor").Delete()).Name(j.name).Do(e.ctx).Error(),
		"what a stranger sees":     j.request(e.as("stranger").Get()).Name(j.name).Do(e.ctx).Error(),
		"all of them, by a viewer": e.as("viewer").Get().Resource("fluxjobs").Do(e.ctx).Error(),
	} {
		if !apierrors.IsForbidden(err) {
			e.Errorf("%s: %v, want it to be forbidden", what, err)
		}
	}
}

func rightsToQueues(e *env) {
	q := queue("rights", "{}")
	e.mustCreate(q)
	get := func() error { return q.request(e.as("everybody").Get()).Name(q.name).Do(e.ctx).Error() }
	// A RoleBinding shows no queue.
	e.kubectl("create", "rolebinding", "everybody", "--clusterrole=fluence-queues-view", "--user=everybody")
	if err := get(); !apierrors.IsForbidden(err) {
		e.Errorf("a Queue by a RoleBinding: %v, want it to be forbidden", err)
	}
	e.kubectl("create", "clusterrolebinding", "everybody", "--clusterrole=fluence-queues-view", "--user=everybody")
	e.until("everybody may look", get)
	for what, err := range map[string]error{
		"patch":               e.patch("everybody", q, `{"spec": {"started": false}}`),
		"patch of the status": e.patch("everybody", q, `{"status": {"pending": 1}}`, "status"),
		"deletion":            q.request(e.as("everybody").Delete()).Name(q.name).Do(e.ctx).Error(),
	} {
		if !apierrors.IsForbidden(err) {
			e.Errorf("%s: %v, want it to be forbidden", what, err)
		}
	}
}

// A status is written by its subresource alone, and the spec is not.
func statuses(e *env) {
	j := fluxJob("status", asks)
	e.mustCreate(object{j.resource, j.name, j.body + "status: {phase: Ready}\n"})
	read := func() (got v1alpha1.FluxJob) { e.get(j, &got); return got }
	if phase := read().Status.Phase; phase != "" {
		e.Errorf("made with a status: the phase is %q", phase)
	}
	if err := e.patch("", j, `{"spec": {"held": true}, "status": {"phase": "Ready"}}`); err != nil || read().Status.Phase != "" {
		e.Errorf("a status with the spec: %v, phase %q", err, read().Status.Phase)
	}
	if err := e.patch("", j, `{"spec": {"held": false}, "status": {"phase": "Waiting"}}`, "status"); err != nil || !read().Spec.Held {
		e.Errorf("a spec with the status: %v, held %t", err, read().Spec.Held)
	}
	for change, want := range map[string]string{
		`{"phase": "Done"}`:    `status.phase: Unsupported value: "Done"`,
		`{"result": "Killed"}`: `status.result: Unsupported value: "Killed"`,
		`{"allocation": {"attempt": 1, "at": "2026-03-01T10:00:05.000000Z", "seats": []}}`:                                                     "status.allocation.seats: Invalid value",
		`{"allocation": {"attempt": 1, "at": "2026-03-01T10:00:05.000000Z", "seats": [{"hosts": "n", "each": 0}]}}`:                            "status.allocation.seats[0].each: Invalid value: 0",
		`{"allocation": {"attempt": 1, "at": "yesterday", "seats": [{"hosts": "n", "each": 1}]}}`:                                              `status.allocation.at: Invalid value: "yesterday"`,
		`{"allocation": {"attempt": 1, "at": "2026-03-01T10:00:05.000000Z", "seats": [{"hosts": "", "each": 1}]}}`:                             "status.allocation.seats[0].hosts: Invalid value",
		`{"promise": {"at": "2026-03-01T10:00:05Z", "nodes": 1, "since": "2026-03-01T10:00:05Z", "why": "` + strings.Repeat("x", 1025) + `"}}`: "status.promise.why: Too long: may not be more than 1024",
	} {
		e.refused(change, e.patch("", j, `{"status": `+change+`}`, "status"), want)
	}
}

func example(e *env) {
	text, err := os.ReadFile(filepath.Join(manifests, "examples", "queue.yaml"))
	if err != nil {
		e.Fatal(err)
	}
	if err := e.create(object{"queues", "batch", string(text)}, true); err != nil {
		e.Error(err)
	}
}
