package fluence

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
)

// Races are lost where somebody else took the room of a pod between its match and
// its start: the API server checks no node's room, and the kubelet rejects whoever
// comes last. They are counted and told; that the pod's share is free again, and
// that another takes its place, follows as with every pod that ends.
//
// The scheduler's own informer drops pods that have failed without saying why, so
// these have one of their own.
type kubeletRejections struct {
	informer cache.SharedIndexInformer
	profile  string
	// leading says whether this scheduler is the one that decides: a standby sees
	// the same pods.
	leading   func() bool
	owners    group.Owners
	podGroups *podGroups
	recorder  events.EventRecorder
	count     *metrics.Counter
}

func newKubeletRejections(ctx context.Context, h fwk.Handle, recorder events.EventRecorder, owners group.Owners, p *podGroups, leading func() bool) (*kubeletRejections, error) {
	lost, err := registerMetric(metrics.NewCounter(&metrics.CounterOpts{
		Name: "fluence_kubelet_rejections_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods that were bound and then rejected by their kubelet for lack of room, which somebody else had taken meanwhile.",
	}))
	if err != nil {
		return nil, err
	}
	failed := fields.AndSelectors(
		fields.OneTermEqualSelector("status.phase", string(corev1.PodFailed)),
		fields.OneTermEqualSelector("spec.schedulerName", h.ProfileName()),
	).String()
	r := &kubeletRejections{
		informer: coreinformers.NewFilteredPodInformer(h.ClientSet(), metav1.NamespaceAll, 0, cache.Indexers{},
			func(o *metav1.ListOptions) { o.FieldSelector = failed }),
		profile: h.ProfileName(), leading: leading, owners: owners, podGroups: p, recorder: recorder, count: lost,
	}
	if err := r.informer.SetTransform(trimPod); err != nil {
		return nil, fmt.Errorf("watch failed pods: %w", err)
	}
	_, err = r.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, before bool) {
			// What had failed before the watch began was counted by others.
			if !before {
				r.observe(ctx, obj.(*corev1.Pod))
			}
		},
		UpdateFunc: func(old, obj any) {
			// Another pod of that name, where a deletion went unseen; or one that this
			// watch was told of for another reason.
			if was, pod := old.(*corev1.Pod), obj.(*corev1.Pod); was.UID != pod.UID || !isRejected(was) {
				r.observe(ctx, pod)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch failed pods: %w", err)
	}
	return r, nil
}

// run watches until ctx ends.
func (r *kubeletRejections) run(ctx context.Context) { r.informer.RunWithContext(ctx) }

// observe counts and tells of a pod that lost a race.
func (r *kubeletRejections) observe(ctx context.Context, pod *corev1.Pod) {
	if !isRejected(pod) || pod.Spec.SchedulerName != r.profile || !r.leading() {
		return
	}
	r.count.Inc()
	klog.FromContext(ctx).Info("A kubelet rejected a pod", "pod", klog.KObj(pod), "node", pod.Spec.NodeName, "reason", pod.Status.Reason, "message", pod.Status.Message)
	about := runtime.Object(pod)
	if id := group.IdentityOf(pod, r.owners); id.InPodGroup {
		if pg := r.podGroups.Get(id.Key); pg != nil {
			about = report.Reference(pg)
		}
	}
	r.recorder.Eventf(about, pod, corev1.EventTypeWarning, reason.RejectedByKubelet, "Binding", "%s",
		fmt.Sprintf("pod %s was bound to node %s, whose kubelet rejected it: %s: %s", pod.Name, pod.Spec.NodeName, pod.Status.Reason, pod.Status.Message))
}

// isRejected says whether a kubelet had no room for a pod: OutOfcpu, OutOfpods,
// OutOfnvidia.com/gpu and so on.
func isRejected(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Spec.NodeName != "" && strings.HasPrefix(pod.Status.Reason, "OutOf")
}

// trimPod keeps of a failed pod what is looked at here: there may be many, and they
// stay for long.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences,
		},
		Spec:   corev1.PodSpec{SchedulerName: pod.Spec.SchedulerName, NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message},
	}, nil
}
