package group

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SuspendedForAnnotation is an annotation of an owner that the scheduler has suspended, so that its pods make
// room for a group of higher priority. Its value is that of SuspensionFor. The controller removes it when
// it resumes the owner, or finds that somebody else has resumed it.
const SuspendedForAnnotation = "fluence.flux-framework.org/suspended-for"

// SuspensionFor returns the value of SuspendedForAnnotation of an owner that is suspended for a group with this
// PodGroup, or for a pod. It has the UID of the owner, so that it says nothing of another object that is made
// from a copy of the owner's manifest.
func SuspensionFor(preemptor, owner types.UID) string { return string(preemptor) + "/" + string(owner) }

// SuspendedFor returns for whom the scheduler has suspended an owner, by its SuspendedForAnnotation. It returns ""
// if the owner does not have it, or has that of another object.
func SuspendedFor(owner metav1.Object) types.UID {
	preemptor, of, _ := strings.Cut(owner.GetAnnotations()[SuspendedForAnnotation], "/")
	if of == "" || types.UID(of) != owner.GetUID() {
		return ""
	}
	return types.UID(preemptor)
}

// A SuspendableKind is a kind of owners that the scheduler may suspend, and the controller may resume.
type SuspendableKind struct {
	// Group, Version, Kind and Resource are those by which the objects are read.
	Group, Version, Kind, Resource string
	// path is the path of the boolean field that suspends an object.
	path []string
}

// suspendableKinds has the kinds by the versions that their projects serve: JobSet, Trainer and MPI Operator.
//
// A RayJob is none, for what KubeRay does (ray-operator 1.6.2, rayjob_controller.go and utils/validation.go). It deletes
// the RayCluster of one that is suspended. Then the PodGroup is gone too, by which the controller would find the RayJob
// to resume it. And a RayJob is invalid that is suspended without shutdownAfterJobFinishes or with a clusterSelector.
var suspendableKinds = []SuspendableKind{
	{job.group, "v1", job.kind, "jobs", []string{"spec", "suspend"}},
	{jobSet.group, "v1alpha2", jobSet.kind, "jobsets", []string{"spec", "suspend"}},
	// A TrainJob controls a JobSet.
	{"trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", []string{"spec", "suspend"}},
	{mpiJob.group, "v2beta1", mpiJob.kind, "mpijobs", []string{"spec", "runPolicy", "suspend"}},
}

// SuspendableKinds returns the kinds that the scheduler may suspend. An API server need not serve all of them.
func SuspendableKinds() []SuspendableKind { return slices.Clone(suspendableKinds) }

// SuspendPath returns the path of the boolean field that suspends an object of a kind that the scheduler may
// suspend, and the controller may resume. It is nil for any other kind. Whether this object may be suspended, or
// one that controls it, is the caller's decision.
func SuspendPath(o Owner) []string {
	k, _ := SuspendableKindOf(o)
	return k.path
}

// SuspendableKindOf returns the kind of an owner that the scheduler may suspend. It returns false for any other.
func SuspendableKindOf(o Owner) (SuspendableKind, bool) {
	for _, k := range suspendableKinds {
		if o.isKind(kindName{k.Group, k.Kind}) {
			return k, true
		}
	}
	return SuspendableKind{}, false
}
