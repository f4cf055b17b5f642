package group

import (
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Kind is what there is to know of objects of one kind that control pods. Tests of the
// packages that have more to know of it name what is missing for one that is new.
type Kind struct {
	// Group is that of the API, without a version; "" is the core group.
	Group, Kind string
	// FormsGroup says that its pods have a group named for it, and Gang that they wait
	// for that group's PodGroup. Pods of other kinds do so if their labels give the
	// group a size, unless Never is set.
	FormsGroup, NeedsPodGroup, NeverFormsGroup bool
	// Resource is its plural, by which rights are granted to read it. It is set where Named is.
	Resource string
	// Ends says how an object tells that its work is over; nil is that it has no end. Endless says
	// so: where Named is set, one of the two is.
	Ends    *End
	Endless bool
	// Followed says that an object of the kind may be controlled by another whose
	// group its pods are in. Such kinds are watched in Version; New makes an empty object and
	// NewList an empty list. They are empty for all others, which are read when they are needed.
	Followed bool
	Version  string
	New      func() Object
	NewList  func() ObjectList
	// PerPodLabels are the labels in which its pods differ by design.
	PerPodLabels []string

	// children are the kinds that it controls itself whose pods are in its group.
	children []kindName
	// spec makes the part of its spec that says how many pods there are to be; nil is that it
	// says nothing.
	spec func() sizer
}

// An End says how an object tells what becomes of its work. It has the condition Suspended once it
// has been suspended.
type End struct {
	// Done and Failed are the types of the conditions that say that it makes no more pods.
	Done, Failed string
	// Suspend is the path in its spec of the field that has it make no pods for now.
	Suspend []string
}

// An Object is one that the API serves.
type Object interface {
	metav1.Object
	runtime.Object
}

// An ObjectList is a list of such objects.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
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

// Kinds lists the kinds that are known. The three that are not Kubernetes' own
// are those of the projects JobSet, Kubeflow (v1 and v2beta1 of MPIJob) and
// LeaderWorkerSet.
func Kinds() []Kind { return slices.Clone(kinds) }

var kinds = []Kind{
	{
		Group: job.group, Kind: job.kind, FormsGroup: true, NeedsPodGroup: true,
		Resource: "jobs", Ends: &End{Done: string(batchv1.JobComplete), Failed: string(batchv1.JobFailed), Suspend: []string{"suspend"}},
		Followed: true, Version: "v1", New: func() Object { return &batchv1.Job{} },
		NewList: func() ObjectList { return &batchv1.JobList{} },
		PerPodLabels: []string{
			"batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid",
			"job-name", "controller-uid",
		},
		spec: func() sizer { return &jobSpec{} },
	},
	{
		Group: jobSet.group, Kind: jobSet.kind, FormsGroup: true, NeedsPodGroup: true, children: []kindName{job},
		Resource: "jobsets", Ends: &End{Done: "Completed", Failed: "Failed", Suspend: []string{"suspend"}},
		PerPodLabels: []string{
			"jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-group-index",
			"jobset.sigs.k8s.io/job-key", "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/replicatedjob-replicas",
		},
		spec: func() sizer { return &jobSetSpec{} },
	},
	{
		Group: mpiJob.group, Kind: mpiJob.kind, FormsGroup: true, NeedsPodGroup: true, children: []kindName{job},
		Resource: "mpijobs", Ends: &End{Done: "Succeeded", Failed: "Failed", Suspend: []string{"runPolicy", "suspend"}},
		PerPodLabels: []string{"training.kubeflow.org/replica-index", "training.kubeflow.org/job-role"},
		spec:         func() sizer { return &mpiJobSpec{} },
	},
	{
		Group: leaderWorkerSet.group, Kind: leaderWorkerSet.kind, FormsGroup: true, NeedsPodGroup: true, Resource: "leaderworkersets", Endless: true,
		PerPodLabels: []string{"leaderworkerset.sigs.k8s.io/worker-index"},
		spec:         func() sizer { return &leaderWorkerSetSpec{} },
	},
	{
		Group: statefulSet.group, Kind: statefulSet.kind, FormsGroup: true, NeedsPodGroup: true, Resource: "statefulsets", Endless: true,
		Followed: true, Version: "v1", New: func() Object { return &appsv1.StatefulSet{} },
		NewList:      func() ObjectList { return &appsv1.StatefulSetList{} },
		PerPodLabels: []string{appsv1.PodIndexLabel, appsv1.StatefulSetPodNameLabel},
		spec:         func() sizer { return &statefulSetSpec{} },
	},
	{
		Group: deployment.group, Kind: deployment.kind, FormsGroup: true, Resource: "deployments", Endless: true, children: []kindName{replicaSet},
		spec: func() sizer { return &replicaSpec{} },
	},
	{
		Group: replicaSet.group, Kind: replicaSet.kind, FormsGroup: true, Resource: "replicasets", Endless: true,
		Followed: true, Version: "v1", New: func() Object { return &appsv1.ReplicaSet{} },
		NewList: func() ObjectList { return &appsv1.ReplicaSetList{} },
		spec:    func() sizer { return &replicaSpec{} },
	},
	{Group: daemonSet.group, Kind: daemonSet.kind},
	{Group: node.group, Kind: node.kind, NeverFormsGroup: true},
}

// FollowedKinds lists those that are watched.
func FollowedKinds() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !k.Followed })
}

// FollowedKindOf returns the kind of an object that is watched. It returns false for an object of
// another kind.
func FollowedKindOf(obj runtime.Object) (Kind, bool) {
	for _, k := range kinds {
		if k.Followed && reflect.TypeOf(obj) == reflect.TypeOf(k.New()) {
			return k, true
		}
	}
	return Kind{}, false
}

// KindOf returns what is known of an owner's kind; of one that is not listed
// that is nothing.
func KindOf(o Owner) Kind {
	for _, k := range kinds {
		if o.isKind(kindName{k.Group, k.Kind}) {
			return k
		}
	}
	return Kind{}
}

// Sized says whether objects of the kind say how many pods there are to be.
func (k Kind) Sized() bool { return k.spec != nil }

// holds says whether the pods of what it controls are in its own group.
func (k Kind) holds(part Owner) bool { return slices.ContainsFunc(k.children, part.isKind) }
