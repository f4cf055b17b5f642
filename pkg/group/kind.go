package group

import (
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Kind is what is known of objects of one kind that control pods. If you add a
// kind, failing tests of other packages list what else they need to know of it.
type Kind struct {
	// Group is the API group without a version; "" is the core group. Kind is the name of the kind.
	Group, Kind string
	// FormsGroup is true if the pods of an object have a group that is named for the
	// object. NeedsPodGroup is true if these pods wait for the PodGroup of that
	// group. Size labels on the pods make both true, unless NeverFormsGroup is true.
	FormsGroup, NeedsPodGroup, NeverFormsGroup bool
	// Resource is the plural name, by which rights to read
	// it are granted. It is set if FormsGroup is true.
	Resource string
	// Lifecycle says how an object reports what becomes of its work. It is set if FormsGroup is true.
	Lifecycle *Lifecycle
	// Watched is true if the pods of an object may be in the group
	// of another object, which controls this object. Such kinds are
	// watched. Objects of other kinds are read when they are needed.
	Watched bool
	// Version is the version in which the kind is watched. It is empty if the kind is not watched.
	Version string
	// New returns an empty object. It is nil if the kind is not watched.
	New func() Object
	// NewList returns an empty list. It is nil if the kind is not watched.
	NewList func() ObjectList
	// PerPodLabels are the labels in which the pods of one role differ by design, such as the index
	// of a pod. A label that names the role is none: pods of different roles may be treated differently.
	PerPodLabels []string

	// ownsPods is true if the kind is not watched, and an object controls
	// pods itself: the templates of these pods are in its own spec only.
	ownsPods bool
	// children are the kinds that an object controls directly, and whose pods are in its group.
	children []kindName
	// spec returns an empty sizer for the object's spec. It is
	// nil if the spec does not say how many pods there are to be.
	spec func() sizer
}

// A Lifecycle says how an object reports what becomes of its work.
// An object that was suspended has the condition Suspended.
type Lifecycle struct {
	// Endless is true if the work has no end.
	Endless bool
	// Completed and Failed are the types of two conditions: the object makes no more
	// pods, because its work has succeeded or failed. They are empty if Endless is true.
	Completed, Failed string
	// SuspendPath is the path, in the spec, of the boolean field that suspends the
	// object: it then has no pods. It is nil if there is no such field.
	SuspendPath []string
}

// An Object is an object of the API.
type Object interface {
	metav1.Object
	runtime.Object
}

// An ObjectList is a list of such objects.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// A kindName is the API group and the name of a kind.
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
	rayCluster      = kindName{"ray.io", "RayCluster"}
	pyTorchJob      = kindName{"kubeflow.org", "PyTorchJob"}
	tfJob           = kindName{"kubeflow.org", "TFJob"}
	xgBoostJob      = kindName{"kubeflow.org", "XGBoostJob"}
	paddleJob       = kindName{"kubeflow.org", "PaddleJob"}
	jaxJob          = kindName{"kubeflow.org", "JAXJob"}
)

// Kinds returns the kinds that are known. Some are not part of Kubernetes: they are from the projects
// JobSet, LeaderWorkerSet, KubeRay and Kubeflow (v1; of MPIJob also v2beta1).
func Kinds() []Kind { return slices.Clone(kinds) }

// endless is the Lifecycle of kinds whose work has no end, and that cannot be suspended.
var endless = &Lifecycle{Endless: true}

// kubeflow returns what the kinds of Kubeflow have in common, without a sizer.
func kubeflow(k kindName, resource string) Kind {
	return Kind{
		Group: k.group, Kind: k.kind, FormsGroup: true, NeedsPodGroup: true, ownsPods: true,
		Resource: resource, Lifecycle: &Lifecycle{Completed: "Succeeded", Failed: "Failed", SuspendPath: []string{"runPolicy", "suspend"}},
		PerPodLabels: []string{"training.kubeflow.org/replica-index"},
		spec:         func() sizer { return &kubeflowSpec{} },
	}
}

// mpi returns the kind MPIJob, whose launcher is the pod of a Job.
func mpi() Kind {
	k := kubeflow(mpiJob, "mpijobs")
	k.children, k.spec = []kindName{job}, func() sizer { return &mpiJobSpec{} }
	return k
}

var kinds = []Kind{
	{
		Group: job.group, Kind: job.kind, FormsGroup: true, NeedsPodGroup: true,
		Resource: "jobs", Lifecycle: &Lifecycle{Completed: string(batchv1.JobComplete), Failed: string(batchv1.JobFailed), SuspendPath: []string{"suspend"}},
		Watched: true, Version: "v1", New: func() Object { return &batchv1.Job{} },
		NewList: func() ObjectList { return &batchv1.JobList{} },
		PerPodLabels: []string{
			"batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid",
			"job-name", "controller-uid",
		},
		spec: func() sizer { return &jobSpec{} },
	},
	{
		Group: jobSet.group, Kind: jobSet.kind, FormsGroup: true, NeedsPodGroup: true, children: []kindName{job},
		Resource: "jobsets", Lifecycle: &Lifecycle{Completed: "Completed", Failed: "Failed", SuspendPath: []string{"suspend"}},
		PerPodLabels: []string{
			"jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-group-index",
			"jobset.sigs.k8s.io/job-key",
		},
		spec: func() sizer { return &jobSetSpec{} },
	},
	mpi(),
	kubeflow(pyTorchJob, "pytorchjobs"),
	kubeflow(tfJob, "tfjobs"),
	kubeflow(xgBoostJob, "xgboostjobs"),
	kubeflow(paddleJob, "paddlejobs"),
	kubeflow(jaxJob, "jaxjobs"),
	{
		Group: rayCluster.group, Kind: rayCluster.kind, FormsGroup: true, NeedsPodGroup: true, ownsPods: true, Resource: "rayclusters", Lifecycle: &Lifecycle{Endless: true, SuspendPath: []string{"suspend"}},
		PerPodLabels: []string{
			"ray.io/worker-group-replica-index", "ray.io/worker-group-replica-name", "ray.io/replica-host-index",
		},
		spec: func() sizer { return &rayClusterSpec{} },
	},
	{
		Group: leaderWorkerSet.group, Kind: leaderWorkerSet.kind, FormsGroup: true, NeedsPodGroup: true, Resource: "leaderworkersets", Lifecycle: endless,
		PerPodLabels: []string{
			"leaderworkerset.sigs.k8s.io/worker-index", "leaderworkerset.sigs.k8s.io/subgroup-index", "leaderworkerset.sigs.k8s.io/subgroup-key",
		},
		spec: func() sizer { return &leaderWorkerSetSpec{} },
	},
	{
		Group: statefulSet.group, Kind: statefulSet.kind, FormsGroup: true, NeedsPodGroup: true, Resource: "statefulsets", Lifecycle: endless,
		Watched: true, Version: "v1", New: func() Object { return &appsv1.StatefulSet{} },
		NewList:      func() ObjectList { return &appsv1.StatefulSetList{} },
		PerPodLabels: []string{appsv1.PodIndexLabel, appsv1.StatefulSetPodNameLabel, appsv1.ControllerRevisionHashLabelKey},
		spec:         func() sizer { return &statefulSetSpec{} },
	},
	{
		Group: deployment.group, Kind: deployment.kind, FormsGroup: true, Resource: "deployments", Lifecycle: endless, children: []kindName{replicaSet},
		spec: func() sizer { return &replicasSpec{} },
	},
	{
		Group: replicaSet.group, Kind: replicaSet.kind, FormsGroup: true, Resource: "replicasets", Lifecycle: endless,
		Watched: true, Version: "v1", New: func() Object { return &appsv1.ReplicaSet{} },
		NewList:      func() ObjectList { return &appsv1.ReplicaSetList{} },
		PerPodLabels: []string{appsv1.DefaultDeploymentUniqueLabelKey},
		spec:         func() sizer { return &replicasSpec{} },
	},
	{Group: daemonSet.group, Kind: daemonSet.kind},
	{Group: node.group, Kind: node.kind, NeverFormsGroup: true},
}

// WatchedKinds returns the kinds that are watched.
func WatchedKinds() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !k.Watched })
}

// WatchedKindOf returns the kind of a watched object.
// It returns false for an object of another kind.
func WatchedKindOf(obj runtime.Object) (Kind, bool) {
	for _, k := range kinds {
		if k.Watched && reflect.TypeOf(obj) == reflect.TypeOf(k.New()) {
			return k, true
		}
	}
	return Kind{}, false
}

// KindOf returns the kind of an owner. It returns the zero Kind if the kind is not known.
func KindOf(o Owner) Kind {
	for _, k := range kinds {
		if o.isKind(kindName{k.Group, k.Kind}) {
			return k
		}
	}
	return Kind{}
}

// Sized reports whether the spec of an object says how many pods there are to be.
func (k Kind) Sized() bool { return k.spec != nil }

// formsGroupWith reports whether the pods of part, which an object
// of this kind controls, are in the object's group.
func (k Kind) formsGroupWith(part Owner) bool { return slices.ContainsFunc(k.children, part.isKind) }
