package webhook

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/group"
)

func TestHandleAllowsEverything(t *testing.T) {
	seen := see(t)
	ofTrain := pod("batch Job train", "", "")
	cases := map[string]struct {
		object    string
		operation admissionv1.Operation
		sub       string
		find      func(context.Context, string, group.Owner) (OwnerInfo, bool)
		patched   bool
	}{
		"a creation":                 {object: ofTrain, patched: true},
		"an update":                  {object: ofTrain, operation: admissionv1.Update},
		"a subresource":              {object: ofTrain, sub: "binding"},
		"nothing":                    {object: "null"},
		"what is no object":          {object: "[1]"},
		"labels that are no strings": {object: "{metadata: {labels: {a: 1}}, spec: {schedulerName: fluence}}"},
		"a pod of another scheduler": {object: strings.Replace(ofTrain, "fluence", "other", 1)},
		"owners that make it panic":  {object: ofTrain, find: func(context.Context, string, group.Owner) (OwnerInfo, bool) { panic("a bug") }},
		"owners that are not answered": {object: ofTrain, find: func(ctx context.Context, _ string, _ group.Owner) (OwnerInfo, bool) {
			<-ctx.Done()
			return OwnerInfo{}, false
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			h := &handler{scheduler: "fluence", find: tc.find, timeout: time.Millisecond}
			if h.find == nil {
				h.find = func(_ context.Context, namespace string, o group.Owner) (OwnerInfo, bool) { return seen(namespace, o) }
			}
			if tc.operation == "" {
				tc.operation = admissionv1.Create
			}
			got := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "ns", Operation: tc.operation, SubResource: tc.sub,
				Object: runtime.RawExtension{Raw: raw},
			}})
			if !got.Allowed || len(got.Patches) > 0 != tc.patched {
				t.Errorf("allowed %t with the patches %v, want them: %t", got.Allowed, got.Patches, tc.patched)
			}
		})
	}
}
