package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/flux-k8s/fluence/pkg/group"
)

// A kindLayout has the paths of the fields that are read from objects of a kind.
type kindLayout struct {
	// template is the path to the pod template. A Pod has none.
	template []string
	// ownerPath is the path to the template of an intermediate object that creates the
	// pods, such as the Job of a CronJob. It is nil if the object itself creates them.
	ownerPath []string
	// ownerKind is the kind of the intermediate object.
	ownerKind string
}

var jobTemplate = []string{"spec", "jobTemplate"}

// kindLayouts lists the kinds that are labelled.
var kindLayouts = map[schema.GroupKind]kindLayout{
	{Kind: "Pod"}:                        {},
	{Group: "batch", Kind: "Job"}:        {template: []string{"spec", "template"}},
	{Group: "batch", Kind: "CronJob"}:    {template: append(jobTemplate[:2:2], "spec", "template"), ownerPath: jobTemplate, ownerKind: "Job"},
	{Group: "apps", Kind: "Deployment"}:  {template: []string{"spec", "template"}},
	{Group: "apps", Kind: "ReplicaSet"}:  {template: []string{"spec", "template"}},
	{Group: "apps", Kind: "StatefulSet"}: {template: []string{"spec", "template"}},
}

// A newObject is an object that is being created.
type newObject struct {
	kindLayout
	// fields is the whole object.
	fields map[string]any
	// labels and annotations are the object's own.
	labels, annotations map[string]string
	// ownerLabels are the labels that the user gave to the intermediate object, without defaults.
	ownerLabels map[string]string
	// ownerAnnotations are the annotations of the intermediate object.
	ownerAnnotations map[string]string
	controller       group.Owner
	// pod is the object itself if it is a Pod. Otherwise pod is a pod as
	// the template creates it, with only the fields that decide its group.
	pod       *corev1.Pod
	scheduler string
	// podOwner is the object that will create the pods. It has no UID
	// yet, because the API server sets it later. It is zero for a Pod.
	podOwner group.Owner
	// podOwnerInfo is the OwnerInfo of podOwner, by its spec. It is zero for a Pod.
	podOwnerInfo OwnerInfo
	// podOwnerSpec is the spec of podOwner as JSON. It is nil for a Pod.
	podOwnerSpec []byte
}

// readNewObject reads an object of a kind in kindLayouts.
func readNewObject(kind schema.GroupKind, namespace string, raw []byte) (*newObject, error) {
	s, ok := kindLayouts[kind]
	if !ok {
		return nil, fmt.Errorf("kind: %q: the webhook does not label this kind", kind)
	}
	c := &newObject{kindLayout: s}
	if err := utiljson.Unmarshal(raw, &c.fields); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	if c.fields == nil {
		return nil, errors.New("read the object: it is null")
	}
	var err error
	if c.labels, c.annotations, err = c.metadata(); err != nil {
		return nil, err
	}
	u := unstructured.Unstructured{Object: c.fields}
	c.controller = group.ControllerOf(&u)
	if c.scheduler, _, err = unstructured.NestedString(c.fields, below(s.template, "spec", "schedulerName")...); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	c.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: u.GetName(), OwnerReferences: u.GetOwnerReferences()}}
	if c.pod.Labels, c.pod.Annotations, err = c.metadata(s.template...); err != nil {
		return nil, err
	}
	switch name, named, err := unstructured.NestedString(c.fields, below(s.template, "spec", "schedulingGroup", "podGroupName")...); {
	case err != nil:
		return nil, fmt.Errorf("read the object: %w", err)
	case named:
		c.pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
	if s.template == nil {
		return c, nil
	}
	return c, c.readPodOwner(kind, u.GetName())
}

// readPodOwner sets podOwner and its fields, for an object that is not a Pod.
func (c *newObject) readPodOwner(kind schema.GroupKind, name string) error {
	c.podOwner = group.Owner{Group: kind.Group, Kind: kind.Kind, Name: name}
	above := c.controller
	if c.ownerKind != "" {
		c.podOwner, above = group.Owner{Group: kind.Group, Kind: c.ownerKind}, c.podOwner
		labels, annotations, err := c.metadata(c.ownerPath...)
		if err != nil {
			return err
		}
		c.ownerLabels, c.ownerAnnotations = group.WithoutDefaults(labels, annotations), annotations
	}
	spec, _, err := unstructured.NestedFieldNoCopy(c.fields, below(c.ownerPath, "spec")...)
	if err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("read the object's spec: %w", err)
	}
	c.podOwnerInfo, c.podOwnerSpec = ownerInfoOf(c.podOwner, above, text, c.scheduler), text
	c.pod.Name = ""
	c.pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: c.podOwner.Group + "/v1", Kind: c.podOwner.Kind, Name: c.podOwner.Name, Controller: new(true),
	}}
	return nil
}

// metadata returns the labels and annotations at a path of the object.
func (c *newObject) metadata(path ...string) (labels, annotations map[string]string, err error) {
	if labels, _, err = unstructured.NestedStringMap(c.fields, below(path, "metadata", "labels")...); err != nil {
		return nil, nil, fmt.Errorf("read the labels: %w", err)
	}
	if annotations, _, err = unstructured.NestedStringMap(c.fields, below(path, "metadata", "annotations")...); err != nil {
		return nil, nil, fmt.Errorf("read the annotations: %w", err)
	}
	return labels, annotations, nil
}

// below returns the path to a field under another path.
func below(path []string, fields ...string) []string {
	return append(slices.Clip(path), fields...)
}
