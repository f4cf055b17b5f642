package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of PodGroup.
const GroupName = "scheduling.x-k8s.io"

// GroupVersion is the API group and version of PodGroup.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// PodGroups is the resource that PodGroup is served as.
var PodGroups = GroupVersion.WithResource("podgroups")

// CRDName is the name of the CustomResourceDefinition of PodGroup.
const CRDName = "podgroups." + GroupName

// LacksField says that an apply of a PodGroup was refused because the CRD that is
// installed lacks a field of it, as that of scheduler-plugins lacks conditions. The API
// server has no code of its own for that.
func LacksField(err error) bool {
	return err != nil && strings.Contains(err.Error(), "field not declared in schema")
}

// AddToScheme makes PodGroup known to a scheme. It does not go together with
// AddToScheme of scheduler-plugins, which claims the same kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PodGroup{}, &PodGroupList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
