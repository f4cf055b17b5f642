package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	apicorev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	apiresourcev1 "k8s.io/kubernetes/pkg/apis/resource/v1"
	apistoragev1 "k8s.io/kubernetes/pkg/apis/storage/v1"
)

// An object is an object of the API.
type object interface {
	runtime.Object
	metav1.Object
}

// A referencedKind is a kind to which pods refer, and which creates no pods.
type referencedKind struct {
	version, kind string
	namespaced    bool
	make          func() object
}

// referencedKinds are in an order in which each kind comes after the kinds to which it refers.
var referencedKinds = []referencedKind{
	{"scheduling.k8s.io/v1", "PriorityClass", false, func() object { return &schedulingv1.PriorityClass{} }},
	{"storage.k8s.io/v1", "StorageClass", false, func() object { return &storagev1.StorageClass{} }},
	{"resource.k8s.io/v1", "DeviceClass", false, func() object { return &resourcev1.DeviceClass{} }},
	{"resource.k8s.io/v1", "ResourceClaimTemplate", true, func() object { return &resourcev1.ResourceClaimTemplate{} }},
	{"resource.k8s.io/v1", "ResourceClaim", true, func() object { return &resourcev1.ResourceClaim{} }},
	{"v1", "PersistentVolume", false, func() object { return &corev1.PersistentVolume{} }},
	{"v1", "PersistentVolumeClaim", true, func() object { return &corev1.PersistentVolumeClaim{} }},
}

// referencedIndex returns the index of an object's kind in
// referencedKinds. For any other kind it returns their number.
func referencedIndex(u *unstructured.Unstructured) int {
	i := slices.IndexFunc(referencedKinds, func(n referencedKind) bool { return n.version == u.GetAPIVersion() && n.kind == u.GetKind() })
	if i < 0 {
		return len(referencedKinds)
	}
	return i
}

// referencedFirst returns the objects with the objects of
// referencedKinds first. Otherwise it keeps their order.
func referencedFirst(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *unstructured.Unstructured) int { return cmp.Compare(referencedIndex(a), referencedIndex(b)) })
	return sorted
}

// addReferenced adds an object to which pods refer. One that exists stays as it is.
func (w *Additions) addReferenced(u *unstructured.Unstructured, n referencedKind) error {
	if !n.namespaced {
		u.SetNamespace("")
	}
	o := n.make()
	if err := w.read(u, o); errors.Is(err, errExists) {
		return nil
	} else if err != nil {
		return err
	}
	switch o := o.(type) {
	case *storagev1.StorageClass:
		apistoragev1.SetObjectDefaults_StorageClass(o)
	case *resourcev1.ResourceClaim:
		apiresourcev1.SetObjectDefaults_ResourceClaim(o)
	case *resourcev1.ResourceClaimTemplate:
		apiresourcev1.SetObjectDefaults_ResourceClaimTemplate(o)
	case *corev1.PersistentVolume:
		apicorev1.SetObjectDefaults_PersistentVolume(o)
		o.Status.Phase = corev1.VolumeAvailable
	case *corev1.PersistentVolumeClaim:
		w.setDefaults(o)
	}
	w.Objects = append(w.Objects, o)
	return nil
}

// setDefaults sets the defaults of a claim as the API server does, with the default StorageClass.
func (w *Additions) setDefaults(claim *corev1.PersistentVolumeClaim) {
	apicorev1.SetObjectDefaults_PersistentVolumeClaim(claim)
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	if volume.PersistentVolumeClaimHasClass(claim) {
		return
	}
	var byDefault *storagev1.StorageClass
	for o := range w.all() {
		class, ok := o.(*storagev1.StorageClass)
		if !ok || class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			continue
		}
		// Of several classes the newest counts, and of these the first by name.
		if byDefault == nil || cmp.Or(class.CreationTimestamp.Compare(byDefault.CreationTimestamp.Time), cmp.Compare(byDefault.Name, class.Name)) > 0 {
			byDefault = class
		}
	}
	if byDefault != nil {
		claim.Spec.StorageClassName = &byDefault.Name
	}
}

// all iterates over the objects of the cluster, and then over the added ones.
func (w *Additions) all() iter.Seq[runtime.Object] {
	return func(yield func(runtime.Object) bool) {
		for _, objects := range [][]runtime.Object{w.existing.Objects, w.Objects} {
			for _, o := range objects {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// addVolumes adds the claims of a pod's ephemeral volumes.
func (w *Additions) addVolumes(pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		t := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		claim.Namespace, claim.Name = pod.Namespace, ephemeral.VolumeClaimName(pod, v)
		if err := w.names.take(claim); err != nil {
			return fmt.Errorf("PersistentVolumeClaim %s of ephemeral volume %s: %s", claim.Name, v.Name, err.Error()) // the pod is new, and is not left out
		}
		w.setMetadata(claim)
		w.setOwner(claim, pod, "v1", "Pod")
		w.setDefaults(claim)
		w.Objects = append(w.Objects, claim)
	}
	return nil
}

// addDevices adds the resource claims that a pod requests by templates.
func (w *Additions) addDevices(pod *corev1.Pod, path string) error {
	for i, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		t := w.template(pod.Namespace, *c.ResourceClaimTemplateName)
		if t == nil {
			return fmt.Errorf("%s.resourceClaims[%d].resourceClaimTemplateName: %q: there is no such ResourceClaimTemplate, or it cannot be read", path, i, *c.ResourceClaimTemplateName)
		}
		claim := &resourcev1.ResourceClaim{ObjectMeta: *t.Spec.ObjectMeta.DeepCopy(), Spec: *t.Spec.Spec.DeepCopy()}
		claim.Namespace, claim.Name = pod.Namespace, madeUp(pod.Name+"-"+c.Name, i)
		w.setMetadata(claim)
		w.setOwner(claim, pod, "v1", "Pod")
		w.Objects = append(w.Objects, claim)
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: c.Name, ResourceClaimName: &claim.Name})
	}
	return nil
}

func (w *Additions) template(namespace, name string) *resourcev1.ResourceClaimTemplate {
	for o := range w.all() {
		if t, ok := o.(*resourcev1.ResourceClaimTemplate); ok && t.Namespace == namespace && t.Name == name {
			return t
		}
	}
	return nil
}
