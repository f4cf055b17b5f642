package webhook

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	jsonpatchv4 "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/controller/fluxjob"
	"github.com/flux-k8s/fluence/pkg/group"
)

// alike has every object enter its queue in the same way.
type alike fluxjob.Entry

func (a alike) Enter(context.Context, metav1.Object, time.Time) fluxjob.Entry {
	return fluxjob.Entry(a)
}

func TestObjectsEnterTheirQueues(t *testing.T) {
	held := alike{Hold: true, Since: "2030", Label: "batch", TemplateLabel: "batch", Warnings: []string{"beware"}}
	const gate = `{"name":"fluence.flux-framework.org/queue"}`
	cases := map[string]struct {
		kind, manifest string
		queues         Queues
		want           []string
		wantWarnings   string
	}{
		"a Job is suspended": {
			kind: "Job", manifest: workload("{}", "suspend: false", "{}"), queues: held, wantWarnings: "beware",
			want: []string{`"suspend":true`, `"queued":"2030"`, `"labels":{"queue":"batch","fluence.group-min":"1"`, `"template":{"metadata":{"labels":{"queue":"batch"}}`},
		},
		"a Job that its user has suspended": {
			kind: "Job", manifest: workload("{}", "suspend: true", "{}"), queues: alike{TemplateLabel: "batch"},
			want: []string{`"suspend":true`, `"template":{"metadata":{"labels":{"queue":"batch"}}`, `"metadata":{"annotations":{"defaulted-size":"1/1"}`},
		},
		"a pod is gated":          {kind: "Pod", manifest: pod("", "", ""), queues: alike{Hold: true, Since: "2030"}, want: []string{`"schedulingGates":[` + gate + `]`, `"queued":"2030"`}},
		"a pod with another gate": {kind: "Pod", manifest: strings.Replace(pod("", "", ""), "priority: 3", "schedulingGates: [{name: a/b}]", 1), queues: alike{Hold: true, Since: "2030"}, want: []string{`"schedulingGates":[{"name":"a/b"},` + gate + `]`}},
		"a pod with the gate":     {kind: "Pod", manifest: strings.Replace(pod("", "", ""), "priority: 3", "schedulingGates: [{name: fluence.flux-framework.org/queue}]", 1), queues: alike{Hold: true, Since: "2030"}, want: []string{`"schedulingGates":[` + gate + `]`}},
		"no queues":               {kind: "Job", manifest: workload("{labels: {"+group.QueueLabel+": batch}}", "suspend: false", "{}"), want: []string{`"suspend":false`}},
		"a Deployment":            {kind: "Deployment", manifest: workload("{labels: {"+group.QueueLabel+": batch}}", "", "{}"), queues: held, wantWarnings: "queue batch: NotAllowed: a Deployment does not end; its pods run without a queue: the label belongs on Jobs and on pods that nothing controls"},
		"pods of a Deployment":    {kind: "Deployment", manifest: workload("{}", "", "{labels: {"+group.QueueLabel+": batch}}"), queues: held, wantWarnings: "queue batch: NotAllowed: a Deployment does not end; its pods never start as long as its template has the label"},
		"a CronJob":               {kind: "CronJob", manifest: cronJob("{}", "{}", "{labels: {"+group.QueueLabel+": batch}}"), queues: held, wantWarnings: "queue batch: NotAllowed: the Jobs of a CronJob do not wait in queues; its pods never start as long as its template has the label"},
		"a CronJob's own label":   {kind: "CronJob", manifest: cronJob("{labels: {"+group.QueueLabel+": batch}}", "{}", "{}"), queues: held, wantWarnings: "queue batch: NotAllowed: the Jobs of a CronJob do not wait in queues; its pods run without a queue: the label belongs on Jobs and on pods that nothing controls"},
		"Jobs of a CronJob":       {kind: "CronJob", manifest: cronJob("{}", "{labels: {"+group.QueueLabel+": batch}}", "{}"), queues: held, wantWarnings: "queue batch: NotAllowed: the Jobs of a CronJob do not wait in queues; its pods never start as long as its template has the label"},
		"a Job of another scheduler": {
			kind: "Job", manifest: strings.Replace(workload("{labels: {"+group.QueueLabel+": batch}}", "suspend: false", "{}"), "schedulerName: fluence", "schedulerName: default-scheduler", 1), queues: held, want: []string{`"suspend":false`},
			wantWarnings: `queue batch: NotAllowed: spec.template.spec.schedulerName: "default-scheduler": only pods of the scheduler fluence wait in queues; these run without a queue`,
		},
		"a Job of another scheduler in no queue": {kind: "Job", manifest: strings.Replace(workload("{}", "suspend: false", "{}"), "schedulerName: fluence", "schedulerName: default-scheduler", 1), queues: held},
		"no Job at all":                          {kind: "Job", manifest: "{spec: {parallelism: many, template: {spec: {schedulerName: fluence}}}}", queues: held},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte(tc.manifest))
			if err != nil {
				t.Fatal(err)
			}
			h := &handler{scheduler: "fluence", timeout: time.Second, whole: wholeRule{mode: group.WholeNodesAll}, queues: tc.queues, now: time.Now}
			kind := metav1.GroupVersionKind{Group: map[string]string{"Pod": "", "Deployment": "apps"}[tc.kind], Version: "v1", Kind: tc.kind}
			if tc.kind == "Job" || tc.kind == "CronJob" {
				kind.Group = "batch"
			}
			resp := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Kind: kind, Namespace: "ns", Object: runtime.RawExtension{Raw: raw},
			}})
			if !resp.Allowed || strings.Join(resp.Warnings, "\n") != tc.wantWarnings {
				t.Errorf("allowed %t, warnings %q, want %q", resp.Allowed, resp.Warnings, tc.wantWarnings)
			}
			after := raw
			if len(resp.Patches) > 0 {
				text, err := json.Marshal(resp.Patches)
				if err != nil {
					t.Fatal(err)
				}
				ops, err := jsonpatchv4.DecodePatch(text)
				if err != nil {
					t.Fatal(err)
				}
				if after, err = ops.Apply(raw); err != nil {
					t.Fatalf("the API server cannot apply %s: %v", text, err)
				}
			}
			// The gate has the name of a label.
			short := strings.ReplaceAll(strings.ReplaceAll(string(after), gate, "GATE"), "fluence.flux-framework.org/", "")
			for _, want := range tc.want {
				if want = strings.ReplaceAll(want, gate, "GATE"); !strings.Contains(short, want) {
					t.Errorf("%s\nlacks %s", short, want)
				}
			}
		})
	}
}
