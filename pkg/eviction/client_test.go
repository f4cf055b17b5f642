package eviction

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

// Each owner is suspended by its own field, in the version in which it is served, and says for whom.
func TestOwnersAreSuspended(t *testing.T) {
	cases := map[string]struct {
		version, kind, resource string
		path                    []string
	}{
		"a Job":      {"batch/v1", "Job", "jobs", []string{"spec", "suspend"}},
		"a JobSet":   {"jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", []string{"spec", "suspend"}},
		"a TrainJob": {"trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs", []string{"spec", "suspend"}},
		"an MPIJob":  {"kubeflow.org/v2beta1", "MPIJob", "mpijobs", []string{"spec", "runPolicy", "suspend"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			version, err := schema.ParseGroupVersion(tc.version)
			if err != nil {
				t.Fatal(err)
			}
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": tc.version, "kind": tc.kind,
				"metadata": map[string]any{"namespace": "lab", "name": "work", "uid": "u-work", "resourceVersion": "7"},
				"spec":     map[string]any{"runPolicy": map[string]any{"cleanPodPolicy": "None"}},
			}}
			objects := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), object)
			c := &Client{objects: objects}
			v := preemption.Victim{Namespace: "lab", Suspend: group.Owner{Group: version.Group, Kind: tc.kind, Name: "work", UID: "u-work"}}
			for range 2 { // the second one finds it suspended
				if err := c.Suspend(t.Context(), v, Mark{For: urgent}); err != nil {
					t.Fatal(err)
				}
			}
			var patches int
			for _, a := range objects.Actions() {
				if a.GetVerb() == "patch" {
					patches++
				}
			}
			if patches != 1 {
				t.Errorf("%d patches, want 1", patches)
			}
			now, err := objects.Resource(version.WithResource(tc.resource)).Namespace("lab").Get(t.Context(), "work", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := object.DeepCopy()
			want.SetAnnotations(map[string]string{group.SuspendedForAnnotation: "urgent/u-work"})
			if err := unstructured.SetNestedField(want.Object, true, tc.path...); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(now.Object, want.Object) {
				t.Errorf("the object is %v, want %v", now.Object, want.Object)
			}
			if by, err := c.SuspendedBy(t.Context(), v); by != urgent.UID || err != nil {
				t.Errorf("suspended by %q with error %v, want %q", by, err, urgent.UID)
			}
			v.Suspend.UID = types.UID("u-older")
			if by, err := c.SuspendedBy(t.Context(), v); by != "" || err != nil {
				t.Errorf("another object of the name is suspended by %q with error %v, want nobody", by, err)
			}
		})
	}
}

// Only the UID says that the victim is gone. After another conflict the request is sent again.
func TestAConflictIsNoSuccess(t *testing.T) {
	pods := podsResource.GroupResource()
	cases := map[string]struct {
		answer error
		wants  bool
	}{
		"another UID, deletion":     {answer: apierrors.NewConflict(pods, "a", errors.New("Precondition failed: UID in precondition: u-1, UID in object meta: u-2"))},
		"gone, patch":               {answer: apierrors.NewConflict(pods, "a", errors.New("uid mismatch: the provided object specified uid u-1, and no existing object was found"))},
		"another UID, patch":        {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "u-1", "field is immutable")})},
		"gone":                      {answer: apierrors.NewNotFound(pods, "a")},
		"another version":           {answer: apierrors.NewConflict(pods, "a", errors.New("the object has been modified; please apply your changes to the latest version and try again")), wants: true},
		"a field that is not valid": {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", field.ErrorList{field.Invalid(field.NewPath("status"), "", "no")}), wants: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pods := metadatafake.NewSimpleMetadataClient(runtime.NewScheme())
			pods.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.answer })
			c := &Client{pods: pods, now: time.Now}
			pod := preemption.VictimPod{Name: "a", UID: "u-1"}
			if err := c.Delete(t.Context(), "lab", pod); (err != nil) != tc.wants {
				t.Errorf("Delete: %v", err)
			}
			if err := c.MarkPod(t.Context(), preemption.Victim{Namespace: "lab"}, pod, Mark{For: urgent}); (err != nil) != tc.wants {
				t.Errorf("MarkPod: %v", err)
			}
		})
	}
}

func TestAnOwnerOfAnotherKindIsNotSuspended(t *testing.T) {
	c := &Client{objects: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())}
	v := preemption.Victim{Namespace: "lab", Suspend: group.Owner{Group: "kubeflow.org", Kind: "PyTorchJob", Name: "work", UID: "u"}}
	if err := c.Suspend(t.Context(), v, Mark{For: urgent}); err == nil || err.Error() != "suspend PyTorchJob work: the kind cannot be suspended" {
		t.Errorf("error %v, want one that names the kind", err)
	}
}

// A conflict says that there is nothing to write if another object has the name. Otherwise the write is to be tried again.
func TestAConflictIsAnotherObjectOrAnotherWrite(t *testing.T) {
	cases := map[string]struct {
		answer error
		again  bool
	}{
		"gone":                   {apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p"), false},
		"deleted and made again": {apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("the UID in the precondition (u-1) does not match the UID in record (u-2)")), false},
		"written by another":     {apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("the object has been modified")), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pods := metadatafake.NewSimpleMetadataClient(runtime.NewScheme())
			pods.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.answer })
			c := &Client{pods: pods, now: time.Now}
			pod := preemption.VictimPod{Name: "p", UID: "u-1"}
			for what, err := range map[string]error{
				"deletion": c.Delete(t.Context(), "lab", pod),
				"mark":     c.MarkPod(t.Context(), preemption.Victim{Namespace: "lab"}, pod, Mark{For: urgent}),
			} {
				if again := err != nil; again != tc.again {
					t.Errorf("%s: error %v, want one: %t", what, err, tc.again)
				}
			}
		})
	}
}
