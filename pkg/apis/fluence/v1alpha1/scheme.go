package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of Queue and FluxJob.
const GroupName = "fluence.flux-framework.org"

// GroupVersion is the API group and version of Queue and FluxJob.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// The resources that the types are served as.
var (
	Queues   = GroupVersion.WithResource("queues")
	FluxJobs = GroupVersion.WithResource("fluxjobs")
)

// The names of the CustomResourceDefinitions.
const (
	QueueCRDName   = "queues." + GroupName
	FluxJobCRDName = "fluxjobs." + GroupName
)

// AddToScheme makes Queue and FluxJob known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Queue{}, &QueueList{}, &FluxJob{}, &FluxJobList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
