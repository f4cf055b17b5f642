package served

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var _ meta.RESTMapper = (*Mapper)(nil)

// KindFor implements meta.RESTMapper.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return lookup(m, resource.Group, func(v meta.RESTMapper) (schema.GroupVersionKind, error) { return v.KindFor(resource) })
}

// KindsFor implements meta.RESTMapper.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return lookup(m, resource.Group, func(v meta.RESTMapper) ([]schema.GroupVersionKind, error) { return v.KindsFor(resource) })
}

// ResourceFor implements meta.RESTMapper.
func (m *Mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return lookup(m, input.Group, func(v meta.RESTMapper) (schema.GroupVersionResource, error) { return v.ResourceFor(input) })
}

// ResourcesFor implements meta.RESTMapper.
func (m *Mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return lookup(m, input.Group, func(v meta.RESTMapper) ([]schema.GroupVersionResource, error) { return v.ResourcesFor(input) })
}

// RESTMapping implements meta.RESTMapper.
func (m *Mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return lookup(m, kind.Group, func(v meta.RESTMapper) (*meta.RESTMapping, error) { return v.RESTMapping(kind, versions...) })
}

// RESTMappings implements meta.RESTMapper.
func (m *Mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return lookup(m, kind.Group, func(v meta.RESTMapper) ([]*meta.RESTMapping, error) { return v.RESTMappings(kind, versions...) })
}

// ResourceSingularizer implements meta.RESTMapper.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return m.last.Load().ResourceSingularizer(resource)
}
