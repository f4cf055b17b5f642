package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/pager"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/pkg/versionskew"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A reader reads the objects that its user may read.
type reader struct {
	client    kubernetes.Interface
	podGroups rest.Interface
	// queued reads Queues and FluxJobs.
	queued   rest.Interface
	metadata metadata.Interface
	// namespace is the user's namespace. If it is empty, all namespaces are read.
	namespace string
	// notes say what the answer leaves out, and why.
	notes []string
	// now is the time of the question.
	now metav1.Time
	// jobs are the FluxJobs in the same queues. It is nil until they are read.
	jobs *queuedJobs
	// sharesJobs is true if the command lists the FluxJobs of all namespaces anyway. They are then listed once. A question
	// about one namespace takes its FluxJobs from that list.
	sharesJobs bool
}

// readerQPS is the number of requests per second of most commands.
const readerQPS = 50

func (o *options) reader() (*reader, error) { return o.readerAt(readerQPS) }

// readerAt returns a reader that sends up to this number of requests per second, and twice as many at once.
func (o *options) readerAt(qps int) (*reader, error) {
	if raw, err := o.flags.ToRawKubeConfigLoader().RawConfig(); err == nil && clientcmdapi.IsConfigEmpty(&raw) && *o.flags.APIServer == "" {
		if _, err := rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no cluster configured: set --kubeconfig, the variable KUBECONFIG, or --server")
		}
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.QPS, config.Burst = float32(qps), 2*qps
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	builtin := rest.CopyConfig(config)
	// The protobuf of a list is smaller than its JSON, and is decoded faster.
	builtin.ContentType = runtime.ContentTypeProtobuf
	builtin.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(builtin)
	if err != nil {
		return nil, fmt.Errorf("build the client: %w", err)
	}
	podGroups, err := scheduling.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	queued, err := v1alpha1.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	owners, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, fmt.Errorf("build the client of owners: %w", err)
	}
	return &reader{client: client, podGroups: podGroups, queued: queued, metadata: owners, namespace: namespace, now: metav1.NewTime(o.now())}, nil
}

// A list reads one page of the objects of a kind.
type list func(context.Context, metav1.ListOptions) (runtime.Object, error)

// listAll lists a kind page by page.
func listAll(ctx context.Context, what string, l list) ([]runtime.Object, error) {
	var all []runtime.Object
	err := pager.New(pager.ListPageFunc(l)).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if m, ok := o.(metav1.Object); ok {
			m.SetManagedFields(timesOf(m.GetManagedFields()))
		}
		all = append(all, o)
		return nil
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not list %s: ask for a role that grants it, such as ClusterRole fluence-viewer, and check with kubectl auth can-i: %w", what, err)
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return all, nil
}

// timesOf returns when Fluence's scheduler wrote an object. Which fields managers wrote is the largest part of
// many objects, and not needed.
func timesOf(entries []metav1.ManagedFieldsEntry) (times []metav1.ManagedFieldsEntry) {
	for _, e := range entries {
		if e.Manager == report.FieldManager {
			times = append(times, metav1.ManagedFieldsEntry{Manager: e.Manager, Time: e.Time})
		}
	}
	return times
}

// lister adapts the List method of a typed client.
func lister[L runtime.Object](f func(context.Context, metav1.ListOptions) (L, error)) list {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return f(ctx, o) }
}

// listPodGroups lists the PodGroups of a namespace, or all if it is empty.
func (r *reader) listPodGroups(namespace string) list {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		l := &scheduling.PodGroupList{}
		req := r.podGroups.Get().Resource(scheduling.PodGroups.Resource).Param("limit", fmt.Sprint(o.Limit)).Param("continue", o.Continue)
		if namespace != "" {
			req = req.Namespace(namespace)
		}
		return l, req.Do(ctx).Into(l)
	}
}

// readPodGroups reads the PodGroups of a namespace, or all if it is empty.
func (r *reader) readPodGroups(ctx context.Context, namespace string) ([]scheduling.PodGroup, error) {
	objects, err := listAll(ctx, "podgroups."+scheduling.GroupVersion.Group, r.listPodGroups(namespace))
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the API server does not serve PodGroups: install the CRD %s: %w", scheduling.CRDName, err)
	}
	if err != nil {
		return nil, err
	}
	groups := make([]scheduling.PodGroup, 0, len(objects))
	for _, o := range objects {
		groups = append(groups, *o.(*scheduling.PodGroup))
	}
	return groups, nil
}

// readNativePodGroups reads the native PodGroups of a namespace, or all if it is empty. It returns
// nil if the API server does not serve them, and with a note if the user may not read them.
func (r *reader) readNativePodGroups(ctx context.Context, namespace string) ([]schedulingv1beta1.PodGroup, error) {
	what := nativegroup.PodGroups.GroupResource().String()
	objects, err := listAll(ctx, what, lister(r.client.SchedulingV1beta1().PodGroups(namespace).List))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		r.notes = append(r.notes, fmt.Sprintf("you may not list %s: groups of this kind are left out", what))
		return nil, nil
	case err != nil:
		return nil, err
	}
	groups := make([]schedulingv1beta1.PodGroup, 0, len(objects))
	for _, o := range ofType[*schedulingv1beta1.PodGroup](objects) {
		groups = append(groups, *o)
	}
	return groups, nil
}

// readGroups reads the PodGroups of both kinds, in one form.
func (r *reader) readGroups(ctx context.Context, namespace string) ([]scheduling.PodGroup, error) {
	groups, err := r.readPodGroups(ctx, namespace)
	if err != nil {
		return nil, err
	}
	native, err := r.readNativePodGroups(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return append(groups, converted(native)...), nil
}

// converted returns native PodGroups in the form of the others.
func converted(native []schedulingv1beta1.PodGroup) []scheduling.PodGroup {
	var groups []scheduling.PodGroup
	for i := range native {
		pg := nativegroup.Convert(&native[i])
		pg.ManagedFields = native[i].ManagedFields
		groups = append(groups, *pg)
	}
	return groups
}

// readPods reads the pods of a namespace, or all if it is empty.
func (r *reader) readPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	objects, err := listAll(ctx, "pods", lister(r.client.CoreV1().Pods(namespace).List))
	if err != nil {
		return nil, err
	}
	return ofType[*corev1.Pod](objects), nil
}

// ofType returns the objects of one type.
func ofType[T runtime.Object](objects []runtime.Object) []T {
	var all []T
	for _, o := range objects {
		if t, ok := o.(T); ok {
			all = append(all, t)
		}
	}
	return all
}

// checkVersion returns an error if this program does not support the version of the API server. It
// returns nil if the version cannot be read, because the server may still answer all other
// requests.
func (r *reader) checkVersion(ctx context.Context) error {
	v, err := discovery.ToServerVersionInterfaceWithContext(r.client.Discovery()).ServerVersionWithContext(ctx)
	if err == nil {
		return versionskew.Check(*v)
	}
	return nil
}

// readCluster reads all that the scheduler reads. It fails if nodes or pods cannot be read. Other
// objects that cannot be read are left out, and named in notes.
func (r *reader) readCluster(ctx context.Context) (simulate.Cluster, error) {
	var c simulate.Cluster
	if err := r.checkVersion(ctx); err != nil {
		r.notes = append(r.notes, err.Error())
	}
	for _, k := range r.kinds() {
		objects, err := listAll(ctx, k.name, k.list)
		switch {
		case err == nil:
			c.Objects = append(c.Objects, objects...)
		case k.consequence == "" || ctx.Err() != nil:
			return c, err
		case apierrors.IsNotFound(err):
			// This API server does not have the kind, so there are no objects of it.
		case !apierrors.IsForbidden(err):
			return c, err
		default:
			r.notes = append(r.notes, fmt.Sprintf("you may not list %s: %s", k.name, k.consequence))
		}
	}
	var err error
	c.PodGroups, err = r.readPodGroups(ctx, "")
	switch {
	case apierrors.IsNotFound(err):
		r.notes = append(r.notes, err.Error())
	case err != nil:
		return c, err
	}
	if c.NativePodGroups, err = r.readNativePodGroups(ctx, ""); err != nil {
		return c, err
	}
	return c, r.addSuspendable(ctx, &c)
}

// addSuspendable adds the owners that may be suspended and are not part of Kubernetes, as far as they are served. It
// leaves those out that the user may not read, with a note if there are any.
func (r *reader) addSuspendable(ctx context.Context, c *simulate.Cluster) error {
	for _, k := range group.SuspendableKinds() {
		if (group.Owner{Group: k.Group, Kind: k.Kind}).Watched() {
			continue
		}
		resource := schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
		objects, err := listAll(ctx, resource.GroupResource().String(), lister(r.metadata.Resource(resource).List))
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			if c.HasOwner(resource.Group, k.Kind) {
				r.notes = append(r.notes, fmt.Sprintf("you may not list %s: if their pods are evicted, they are shown as deleted", resource.GroupResource()))
			}
			continue
		case err != nil:
			return err
		}
		for _, o := range ofType[*metav1.PartialObjectMetadata](objects) {
			o.SetGroupVersionKind(resource.GroupVersion().WithKind(k.Kind))
			c.Owners = append(c.Owners, *o)
		}
	}
	return nil
}

// maxUnexplained is how many of the groups that wait without a reason in their status are named.
const maxUnexplained = 3

// notePending adds a note about the groups that wait without a reason in their status. The scheduler
// may have assigned nodes to them already, which the API does not show yet. The groups in except are
// left out.
func (r *reader) notePending(c simulate.Cluster, scheduler string, except ...types.NamespacedName) {
	above := simulate.OwnersOf(c.Objects)
	waiting := map[types.NamespacedName]bool{}
	for _, pod := range ofType[*corev1.Pod](c.Objects) {
		if id := group.IdentityOf(pod, above); id.InPodGroup && waits(pod) && !gated(pod) && pod.Spec.SchedulerName == scheduler {
			waiting[id.Key] = true
		}
	}
	var unexplained []string
	for _, pg := range slices.Concat(c.PodGroups, converted(c.NativePodGroups)) {
		key := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
		// Where a group with nodes has more pods than there is room for, the condition Scheduled is True and says why.
		why, _ := report.WhyWithoutNodes(&pg)
		if waiting[key] && waitingCondition(&pg) == nil && why == "" && !slices.Contains(except, key) {
			unexplained = append(unexplained, pg.Namespace+"/"+shownName(pg.Name))
		}
	}
	if len(unexplained) == 0 {
		return
	}
	slices.Sort(unexplained)
	names := strings.Join(unexplained[:min(len(unexplained), maxUnexplained)], ", ")
	if more := len(unexplained) - maxUnexplained; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	r.notes = append(r.notes, unexplainedText(len(unexplained), names))
}

// unexplainedText is the note about n groups that wait without a reason in their status.
func unexplainedText(n int, names string) string {
	if n == 1 {
		return fmt.Sprintf("1 group waits without a reason in its status (%s). The scheduler may have chosen nodes for it already. These nodes count as free here.", names)
	}
	return fmt.Sprintf("%d groups wait without a reason in their statuses (%s). The scheduler may have chosen nodes for them already. These nodes count as free here.", n, names)
}

// A kind says how the objects of one kind are listed, and what follows if they cannot be.
type kind struct {
	name string
	list list
	// consequence says what the answer lacks if the kind cannot be read. If it is empty, the
	// command fails.
	consequence string
}

func (r *reader) kinds() []kind {
	core, storage, devices := r.client.CoreV1(), r.client.StorageV1(), r.client.ResourceV1()
	const (
		claims = "pods with resource claims are judged as if there were no devices"
		spread = "default spreading ignores the pods that they select"
	)
	volumes := func(name string, l list) kind {
		return kind{name, l, "pods with volumes are judged as if no " + name + " existed"}
	}
	return slices.Concat([]kind{
		{name: "nodes", list: lister(core.Nodes().List)},
		{name: "pods", list: lister(core.Pods("").List)},
		{"namespaces", lister(core.Namespaces().List), "namespaces count as unlabelled: the namespaceSelectors of affinity terms and the right to whole nodes may be judged wrongly, and pods may be shown as evicted that their namespace keeps"},
	}, r.watched(""), []kind{
		{"services", lister(core.Services("").List), spread},
		{"replicationcontrollers", lister(core.ReplicationControllers("").List), spread},
		{"priorityclasses", lister(r.client.SchedulingV1().PriorityClasses().List), "pods with a priorityClassName cannot be simulated"},
		{"poddisruptionbudgets", lister(r.client.PolicyV1().PodDisruptionBudgets("").List), "pods to evict are chosen as if there were no budgets"},
		volumes("persistentvolumes", lister(core.PersistentVolumes().List)),
		volumes("persistentvolumeclaims", lister(core.PersistentVolumeClaims("").List)),
		volumes("storageclasses", lister(storage.StorageClasses().List)),
		{"csinodes", lister(storage.CSINodes().List), "limits on volumes per node are ignored"},
		volumes("csidrivers", lister(storage.CSIDrivers().List)),
		volumes("csistoragecapacities", lister(storage.CSIStorageCapacities("").List)),
		{"resourceclaims", lister(devices.ResourceClaims("").List), claims},
		{"resourceclaimtemplates", lister(devices.ResourceClaimTemplates("").List), claims},
		{"resourceslices", lister(devices.ResourceSlices().List), claims},
		{"deviceclasses", lister(devices.DeviceClasses().List), claims},
	})
}

// watched returns group.WatchedKinds, listed in one namespace, or in all if it is empty.
func (r *reader) watched(namespace string) []kind {
	const consequence = "pods that they control and that lack the label " + group.Label + " cannot be assigned to a group: they count as waiting, or are shown as evicted one by one"
	return []kind{
		{"jobs", lister(r.client.BatchV1().Jobs(namespace).List), consequence},
		{"replicasets", lister(r.client.AppsV1().ReplicaSets(namespace).List), consequence},
		{"statefulsets", lister(r.client.AppsV1().StatefulSets(namespace).List), consequence},
	}
}
