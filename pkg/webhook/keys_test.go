package webhook

import (
	"context"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
)

func TestAUserIsWarnedOfKeysWithoutAnEffect(t *testing.T) {
	const (
		misspelt  = "{annotations: {fluence.flux-framework.org/topology-require: rack}}"
		hint      = ": there is no such key, and it has no effect; did you mean fluence.flux-framework.org/topology-required?"
		required  = "{annotations: {fluence.flux-framework.org/topology-required: rack}}"
		elsewhere = ": has no effect there, only as an annotation of the pod template or PodGroup or native PodGroup"
		unknown   = "annotation fluence.flux-framework.org/topology-require of the "
		known     = "annotation fluence.flux-framework.org/topology-required of the "
		zero      = `{labels: {fluence.group-size: "0"}}`
		sizes     = `label fluence.group-size: "0": must be a whole number from 1 to 100000`
		tooFew    = `label fluence.group-min: "5": the Job makes only 2 of these pods at a time (spec.parallelism, spec.completions): the group would wait for 3 more`
		perNode   = `annotation fluence.flux-framework.org/pods-per-node: "none": must be a whole number from 1 to 100000`
	)
	cases := map[string]struct {
		kind, object string
		want         []string
	}{
		"a pod":                                   {kind: "Pod", object: "{metadata: " + misspelt + ", spec: {schedulerName: fluence}}", want: []string{unknown + "pod" + hint}},
		"a pod that a controller made":            {kind: "Pod", object: pod("batch Job train", "", "fluence.flux-framework.org/topology-require: rack")},
		"a pod of another scheduler":              {kind: "Pod", object: "{metadata: " + misspelt + ", spec: {schedulerName: other}}"},
		"the template of a Job":                   {kind: "Job", object: workload("{}", "", misspelt), want: []string{unknown + "pod template" + hint}},
		"the template of a Job with a right key":  {kind: "Job", object: workload("{}", "", required)},
		"a Job itself":                            {kind: "Job", object: workload(required, "", "{}"), want: []string{known + "Job" + elsewhere}},
		"a Job and its template":                  {kind: "Job", object: workload(required, "", required)},
		"a Job with the labels of its template":   {kind: "Job", object: workload("{labels: {fluence.groupsize: \"2\"}}", "", "{labels: {fluence.groupsize: \"2\"}}"), want: []string{"label fluence.groupsize of the pod template: there is no such key, and it has no effect; did you mean fluence.group-size?"}},
		"a Job that a controller made":            {kind: "Job", object: workload(controlled("batch CronJob night"), "", misspelt)},
		"a Job with a size label":                 {kind: "Job", object: workload(`{labels: {fluence.group-min: "1"}}`, "", "{}")},
		"the Job of a CronJob":                    {kind: "CronJob", object: cronJob("{}", required, "{}"), want: []string{known + "Job" + elsewhere}},
		"a wrong size of a Job":                   {kind: "Job", object: workload(zero, "", "{}"), want: []string{sizes}},
		"a wrong size of a Job and its template":  {kind: "Job", object: workload(zero, "", zero), want: []string{sizes}},
		"a wrong size of a CronJob and its Job":   {kind: "CronJob", object: cronJob(zero, zero, "{}"), want: []string{sizes}},
		"a wrong size that the template replaces": {kind: "Job", object: workload(zero, "parallelism: 2", `{labels: {fluence.group-size: "2"}}`)},
		"more pods than the Job makes":            {kind: "Job", object: workload("{}", "parallelism: 2", `{labels: {fluence.group-min: "5"}}`), want: []string{tooFew}},
		"more pods, labelled on the Job itself":   {kind: "Job", object: workload(`{labels: {fluence.group-min: "5"}}`, "parallelism: 2", "{}"), want: []string{tooFew}},
		"more pods than the Job of a CronJob":     {kind: "CronJob", object: cronJob("{}", "{}", `{labels: {fluence.group-min: "5"}}`), want: []string{tooFew}},
		"more pods than one of several Jobs":      {kind: "Job", object: workload("{}", "parallelism: 2", `{labels: {fluence.group-min: "5", scheduling.x-k8s.io/pod-group: g}}`)},
		"a wrong value in a template":             {kind: "Job", object: workload("{}", "", "{annotations: {fluence.flux-framework.org/pods-per-node: none}}"), want: []string{perNode}},
		"a wrong value in the Job of a CronJob":   {kind: "CronJob", object: cronJob("{}", "{}", "{annotations: {fluence.flux-framework.org/pods-per-node: none}}"), want: []string{perNode}},
		"a wrong value of a pod":                  {kind: "Pod", object: "{metadata: {annotations: {fluence.flux-framework.org/pods-per-node: none}}, spec: {schedulerName: fluence}}", want: []string{perNode}},
		"a wrong value of a controlled pod":       {kind: "Pod", object: pod("batch Job train", "", "fluence.flux-framework.org/pods-per-node: none")},
		"a pod without a group has a size":        {kind: "Pod", object: `{metadata: {labels: {fluence.group-size: "3"}}, spec: {schedulerName: fluence}}`, want: []string{`label fluence.group-size: "3": a pod without an owner is a group of one; to group it with others, set the label scheduling.x-k8s.io/pod-group on all of them`}},
		"a pod of a group has a size":             {kind: "Pod", object: `{metadata: {labels: {fluence.group-size: "3", scheduling.x-k8s.io/pod-group: g}}, spec: {schedulerName: fluence}}`},
		"a name that no PodGroup can have":        {kind: "Pod", object: `{metadata: {labels: {scheduling.x-k8s.io/pod-group: My_Group}}, spec: {schedulerName: fluence}}`, want: []string{podgroup.CheckName("My_Group").Error()}},
		"a CronJob itself":                        {kind: "CronJob", object: cronJob(required, "{}", "{}"), want: []string{known + "CronJob" + elsewhere}},
	}
	groups := map[string]string{"Job": "batch", "CronJob": "batch"}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			h := &handler{
				scheduler: "fluence", timeout: time.Second, whole: wholeRule{mode: group.WholeNodesAll},
				find: func(context.Context, string, group.Owner) (OwnerInfo, bool) { return OwnerInfo{}, false },
			}
			got := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind{Group: groups[tc.kind], Version: "v1", Kind: tc.kind}, Namespace: "ns", Operation: admissionv1.Create,
				Object: runtime.RawExtension{Raw: raw},
			}})
			if !got.Allowed || !slices.Equal(got.Warnings, tc.want) {
				t.Errorf("allowed %t with the warnings %q, want %q", got.Allowed, got.Warnings, tc.want)
			}
		})
	}
}
