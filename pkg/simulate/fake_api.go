package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A fakeAPI answers the plugin's own clients, by resource: it has PodGroups of
// both kinds, Jobs, and the metadata of the other owners of pods. It accepts no writes.
type fakeAPI map[string][]byte

func newFakeAPI(c Cluster) (fakeAPI, error) {
	podGroups := scheduling.PodGroupList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: c.PodGroups}
	podGroups.TypeMeta = metav1.TypeMeta{APIVersion: scheduling.GroupVersion.String(), Kind: "PodGroupList"}
	if podGroups.Items == nil {
		podGroups.Items = []scheduling.PodGroup{}
	}
	lists := map[string]any{scheduling.PodGroups.Resource: podGroups}
	if c.NativePodGroups != nil {
		native := schedulingv1beta1.PodGroupList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: c.NativePodGroups}
		native.TypeMeta = metav1.TypeMeta{APIVersion: nativegroup.GroupVersion.String(), Kind: "PodGroupList"}
		lists[nativePodGroups] = native
	}
	owners := map[string]*metav1.PartialObjectMetadataList{}
	var resources []string
	for _, k := range group.WatchedKinds() {
		resources = append(resources, k.Resource)
	}
	for _, k := range group.SuspendableKinds() {
		resources = append(resources, k.Resource)
	}
	for _, resource := range resources {
		owners[resource] = &metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items:    []metav1.PartialObjectMetadata{},
		}
		lists[resource] = owners[resource]
	}
	for i := range c.Owners {
		o := &c.Owners[i]
		kind := o.GroupVersionKind()
		if k, may := group.SuspendableKindOf(group.Owner{Group: kind.Group, Kind: kind.Kind}); may {
			add(owners[k.Resource], o)
		}
	}
	jobs := batchv1.JobList{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "JobList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items:    []batchv1.Job{},
	}
	for _, o := range c.Objects {
		if job, ok := o.(*batchv1.Job); ok {
			jobs.Items = append(jobs.Items, *job)
			continue
		}
		if k, watched := group.WatchedKindOf(o); watched {
			add(owners[k.Resource], o.(metav1.Object))
		}
	}
	lists["jobs"] = jobs
	s := fakeAPI{}
	for resource, list := range lists {
		text, err := json.Marshal(list)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", resource, err)
		}
		s[resource] = text
	}
	return s, nil
}

// nativePodGroups is what a fakeAPI calls the resource of native
// PodGroups. It has the API group, because Fluence's own PodGroups have the same name.
var nativePodGroups = nativegroup.PodGroups.GroupResource().String()

func add(list *metav1.PartialObjectMetadataList, o metav1.Object) {
	list.Items = append(list.Items, metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Labels: o.GetLabels(),
			ResourceVersion: "1", OwnerReferences: o.GetOwnerReferences(),
		},
	})
}

// RoundTrip answers a list. A watch stays open without events until its request ends.
func (s fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := path.Base(r.URL.Path)
	native := strings.HasPrefix(r.URL.Path, "/apis/"+nativegroup.GroupVersion.Group+"/")
	if native {
		resource = nativePodGroups
	}
	list, ok := s[resource]
	q := r.URL.Query()
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/"+v1alpha1.GroupName+"/"):
		// No Queue starts a job here.
		return errorResponse(apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupName, Resource: resource}, ""))
	case native && !ok:
		return errorResponse(apierrors.NewNotFound(nativegroup.PodGroups.GroupResource(), ""))
	case r.Method != http.MethodGet || !ok:
		return errorResponse(apierrors.NewMethodNotSupported(schema.GroupResource{Resource: resource}, r.Method))
	case q.Get("sendInitialEvents") != "":
		// The client falls back to a list then.
		return errorResponse(apierrors.NewInvalid(schema.GroupKind{Kind: resource}, "", nil))
	case q.Get("watch") != "":
		reader, writer := io.Pipe()
		go func() {
			<-r.Context().Done()
			_ = writer.Close()
		}()
		return response(http.StatusOK, reader), nil
	}
	return response(http.StatusOK, io.NopCloser(bytes.NewReader(list))), nil
}

func errorResponse(err *apierrors.StatusError) (*http.Response, error) {
	s := err.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	text, failed := json.Marshal(s)
	return response(int(s.Code), io.NopCloser(bytes.NewReader(text))), failed
}

func response(code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Body: body,
		Header: http.Header{"Content-Type": {"application/json"}},
	}
}
