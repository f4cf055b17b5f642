package group

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Owner is an object that controls pods, directly or through others.
type Owner struct {
	// Group is that of the API, without a version; "" is the core group.
	Group string
	Kind  string
	Name  string
	UID   types.UID
}

// OwnerOf returns the object that a reference names.
func OwnerOf(ref metav1.OwnerReference) Owner {
	group, _, found := strings.Cut(ref.APIVersion, "/")
	if !found {
		group = ""
	}
	return Owner{Group: group, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
}

// mostName and mostUID are how many bytes a name, a kind or a group has at most, and a UID,
// for which the API server makes 36.
const (
	mostName = 253
	mostUID  = 128
)

// CanExist says whether there can be such an object. The API server takes references to
// others, with names and UIDs of a megabyte.
func (o Owner) CanExist() bool {
	return len(o.Group) <= mostName && len(o.Kind) <= mostName && len(o.Name) <= mostName && len(o.UID) <= mostUID
}

// A kind is what there is to know of objects of one kind that control pods.
type kind struct {
	group, kind string
	// named says that its pods have a group named for it, and gang that they wait
	// for that group's PodGroup. Pods of other kinds do so if their labels give the
	// group a size, unless never is set.
	named, gang, never bool
	// followed says that an object of the kind may be controlled by another whose
	// group its pods are in, and parts which kinds it controls itself whose pods
	// are in its group.
	followed bool
	parts    []kindName
}

type kindName struct{ group, kind string }

var (
	podKind         = kindName{"", "Pod"}
	job             = kindName{"batch", "Job"}
	replicaSet      = kindName{"apps", "ReplicaSet"}
	statefulSet     = kindName{"apps", "StatefulSet"}
	deployment      = kindName{"apps", "Deployment"}
	daemonSet       = kindName{"apps", "DaemonSet"}
	node            = kindName{"", "Node"}
	jobSet          = kindName{"jobset.x-k8s.io", "JobSet"}
	mpiJob          = kindName{"kubeflow.org", "MPIJob"}
	leaderWorkerSet = kindName{"leaderworkerset.x-k8s.io", "LeaderWorkerSet"}
)

// kinds lists the kinds that are known. The three that are not Kubernetes' own
// are those of the projects JobSet, Kubeflow (v1 and v2beta1 of MPIJob) and
// LeaderWorkerSet.
var kinds = []kind{
	{group: job.group, kind: job.kind, named: true, gang: true, followed: true},
	{group: jobSet.group, kind: jobSet.kind, named: true, gang: true, parts: []kindName{job}},
	{group: mpiJob.group, kind: mpiJob.kind, named: true, gang: true, parts: []kindName{job}},
	{group: leaderWorkerSet.group, kind: leaderWorkerSet.kind, named: true, gang: true},
	{group: statefulSet.group, kind: statefulSet.kind, named: true, gang: true, followed: true},
	{group: deployment.group, kind: deployment.kind, named: true, parts: []kindName{replicaSet}},
	{group: replicaSet.group, kind: replicaSet.kind, named: true, followed: true},
	{group: daemonSet.group, kind: daemonSet.kind},
	{group: node.group, kind: node.kind, never: true},
}

// kindOf returns what is known of an owner's kind; of one that is not listed
// that is nothing.
func kindOf(o Owner) kind {
	for _, k := range kinds {
		if o.is(kindName{k.group, k.kind}) {
			return k
		}
	}
	return kind{}
}

func (o Owner) is(k kindName) bool { return o.Group == k.group && o.Kind == k.kind }

// holds says whether the pods of what it controls are in its own group.
func (k kind) holds(part Owner) bool { return slices.ContainsFunc(k.parts, part.is) }

// Followed says whether an object of this kind has to be looked up to know the
// group of the pods that it controls.
func (o Owner) Followed() bool { return kindOf(o).followed }
