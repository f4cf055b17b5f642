package fluxjob

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// queuesOf returns Queues that are served. Namespace ns has the label team: a.
func queuesOf(t *testing.T, objs ...client.Object) *Queues {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objs = append(objs, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "a"}}})
	q := &Queues{reader: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.FluxJob{}).WithObjects(objs...).Build(), scheduler: "fluence"}
	q.served.Store(true)
	return q
}

// open lets all namespaces use a queue.
func open(name string, edits ...func(*v1alpha1.Queue)) *v1alpha1.Queue {
	q := queue(name)
	q.CreationTimestamp = metav1.NewTime(epoch)
	q.Spec.NamespaceSelector = &metav1.LabelSelector{}
	for _, edit := range edits {
		edit(q)
	}
	return q
}

// teamA makes a queue the default of team a.
func teamA(q *v1alpha1.Queue) {
	q.Spec.DefaultFor = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
}

func TestHowANewObjectEntersItsQueue(t *testing.T) {
	unlabelled := func(j *batchv1.Job) { j.Labels = nil }
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	later := func(q *v1alpha1.Queue) { q.CreationTimestamp = metav1.NewTime(epoch.Add(time.Second)) }
	since := group.Queued{Since: epoch}.String()
	cases := map[string]struct {
		job    []func(*batchv1.Job)
		pod    []func(*corev1.Pod)
		queues []client.Object
		want   Entry
		// wantWarning is the text of the only warning.
		wantWarning string
	}{
		"a label":               {queues: []client.Object{open("batch")}, want: Entry{Hold: true, Since: since, TemplateLabel: "batch"}},
		"a label of its pods":   {job: []func(*batchv1.Job){unlabelled, func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{group.QueueLabel: "batch"} }}, queues: []client.Object{open("batch")}, want: Entry{Hold: true, Since: since}},
		"suspended by its user": {job: []func(*batchv1.Job){suspended}, queues: []client.Object{open("batch")}, want: Entry{TemplateLabel: "batch"}},
		"a copy of one that waits": {
			job: []func(*batchv1.Job){suspended, func(j *batchv1.Job) {
				j.Annotations = map[string]string{group.QueuedAnnotation: "2020-01-01T00:00:00Z"}
			}},
			queues: []client.Object{open("batch")}, want: Entry{Hold: true, Since: since, TemplateLabel: "batch"},
		},
		"no label": {job: []func(*batchv1.Job){unlabelled}, queues: []client.Object{open("batch")}},
		"no label, where queues are default: the oldest": {
			job: []func(*batchv1.Job){unlabelled}, queues: []client.Object{open("a", teamA, later), open("c", teamA), open("b", teamA)},
			want: Entry{Hold: true, Since: since, Label: "b", TemplateLabel: "b"},
		},
		"no label, where a queue is default, and suspended by its user": {job: []func(*batchv1.Job){unlabelled, suspended}, queues: []client.Object{open("a", teamA)}},
		"no queue, where one is default":                                {job: []func(*batchv1.Job){labelled("")}, queues: []client.Object{open("a", teamA)}},
		"another controller manages it": {
			job: []func(*batchv1.Job){func(j *batchv1.Job) { j.Spec.ManagedBy = new("x/y") }}, queues: []client.Object{open("batch")},
			wantWarning: `queue batch: NotAllowed: spec.managedBy: "x/y": another controller manages the Job`,
		},
		"another controller manages it, where a queue is default": {job: []func(*batchv1.Job){unlabelled, func(j *batchv1.Job) { j.Spec.ManagedBy = new("x/y") }}, queues: []client.Object{open("a", teamA)}},
		"no such queue": {
			want: Entry{Hold: true, Since: since, TemplateLabel: "batch"}, wantWarning: "queue batch: NoQueue: there is no such Queue; the workload waits until there is",
		},
		"a queue for others": {
			queues: []client.Object{queue("batch")}, want: Entry{Hold: true, Since: since, TemplateLabel: "batch"},
			wantWarning: "queue batch: NotAllowed: the Queue does not take jobs of namespace ns",
		},
		"too long": {
			job: []func(*batchv1.Job){func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{group.DurationAnnotation: "2h"} }}, queues: []client.Object{open("batch", func(q *v1alpha1.Queue) { q.Spec.Limits.Duration = "1h" })},
			want: Entry{Hold: true, Since: since, TemplateLabel: "batch"}, wantWarning: "queue batch: DurationOverLimit: duration 2h: a job of Queue batch may take at most 1h",
		},
		"a pod":                       {pod: []func(*corev1.Pod){}, queues: []client.Object{open("batch")}, want: Entry{Hold: true, Since: since}},
		"a pod of a Job":              {pod: []func(*corev1.Pod){func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Controller: new(true)}} }}, queues: []client.Object{open("batch")}},
		"a pod on a node":             {pod: []func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.NodeName = "n" }}, queues: []client.Object{open("batch")}},
		"a pod, where one is default": {pod: []func(*corev1.Pod){func(p *corev1.Pod) { p.Labels, p.Spec.SchedulingGates = nil, nil }}, queues: []client.Object{open("a", teamA)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var obj metav1.Object = newWorld(t, append([]func(*batchv1.Job){direct}, tc.job...)...).job
			if tc.pod != nil {
				obj = newPodWorld(t, tc.pod...).pod
			}
			q := queuesOf(t, tc.queues...)
			got := q.Enter(t.Context(), obj, epoch)
			if text := strings.Join(got.Warnings, "\n"); text != tc.wantWarning {
				t.Errorf("warnings %q, want %q", text, tc.wantWarning)
			}
			if got.Warnings = nil; got.Hold != tc.want.Hold || got.Since != tc.want.Since || got.Label != tc.want.Label || got.TemplateLabel != tc.want.TemplateLabel {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
			q.served.Store(false)
			if got := q.Enter(t.Context(), obj, epoch); got.Hold || len(got.Warnings) > 0 {
				t.Errorf("%+v without the CRDs, want nothing", got)
			}
		})
	}
}

// Without the CRDs nobody lets a Job go again, so none is held.
func TestWhichSuspendedOwnersAQueueHolds(t *testing.T) {
	q := queuesOf(t)
	as := func(edits ...func(*batchv1.Job)) *unstructured.Unstructured {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(newWorld(t, edits...).job)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: fields}
		u.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
		return u
	}
	jobSet := as()
	jobSet.SetAPIVersion("jobset.x-k8s.io/v1alpha2")
	for name, tc := range map[string]struct {
		owner *unstructured.Unstructured
		want  bool
	}{
		"in a queue":            {as(), true},
		"in none":               {as(labelled("")), false},
		"not to be in one":      {as(func(j *batchv1.Job) { j.Spec.ManagedBy = new("x/y") }), false},
		"no Job":                {jobSet, false},
		"not a Job of any form": {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": "x"}}, false},
	} {
		if got := q.Holds(tc.owner); got != tc.want {
			t.Errorf("%s: Holds = %t, want %t", name, got, tc.want)
		}
	}
	q.served.Store(false)
	if q.Holds(as()) {
		t.Error("it is held without the CRDs")
	}
}
