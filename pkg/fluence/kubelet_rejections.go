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

// kubeletRejections watches for pods that a kubelet rejected for lack of room. That happens
// if another scheduler binds a pod to the same node after the match: the API server does not
// check room, and the kubelet rejects the pod that comes last. The rejections are counted
// and reported. The room is released and the pod is replaced as with every pod that ends.
//
// It has its own informer, because the scheduler's informer
// leaves out failed pods and so does not show why a pod failed.
type kubeletRejections struct {
	informer cache.SharedIndexInformer
	profile  string
	// leading reports whether this scheduler leads. A
	// standby sees the same pods and must not count them.
	leading   func() bool
	owners    group.Owners
	podGroups bothPodGroups
	recorder  events.EventRecorder
	count     *metrics.Counter
}

func newKubeletRejections(ctx context.Context, h fwk.Handle, recorder events.EventRecorder, owners group.Owners, p bothPodGroups, leading func() bool) (*kubeletRejections, error) {
	rejections, err := registerMetric(metrics.NewCounter(&metrics.CounterOpts{
		Name: "fluence_kubelet_rejections_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods that were bound and then rejected by their kubelet for lack of room, which another pod had taken meanwhile.",
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
		profile: h.ProfileName(), leading: leading, owners: owners, podGroups: p, recorder: recorder, count: rejections,
	}
	if err := r.informer.SetTransform(trimPod); err != nil {
		return nil, fmt.Errorf("watch failed pods: %w", err)
	}
	_, err = r.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, before bool) {
			// Skip the first list: pods in it failed before this
			// watch began, and an earlier scheduler has counted them.
			if !before {
				r.observe(ctx, obj.(*corev1.Pod))
			}
		},
		UpdateFunc: func(old, obj any) {
			// Either this is a new pod of the same name, and the deletion of the old
			// one was missed; or the old one was not rejected when it was last seen.
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

// observe counts and reports a pod that a kubelet rejected.
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

// isRejected reports whether a kubelet had no room for a pod: the
// reason is OutOfcpu, OutOfpods, OutOfnvidia.com/gpu and so on.
func isRejected(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Spec.NodeName != "" && strings.HasPrefix(pod.Status.Reason, "OutOf")
}

// trimPod is an informer transform that keeps only those fields of a failed
// pod that are used here, because there may be many such pods for a long time.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: group.ControllerReference(pod),
		},
		Spec:   corev1.PodSpec{SchedulerName: pod.Spec.SchedulerName, NodeName: pod.Spec.NodeName, SchedulingGroup: pod.Spec.SchedulingGroup},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message},
	}, nil
}
