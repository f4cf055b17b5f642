package fluence

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
	"github.com/flux-k8s/fluence/pkg/flowcontrol"
)

// bindTimeout is the deadline of one bind request, including
// the time that the API server queues the request.
const bindTimeout = 30 * time.Second

// Bind binds a pod that has left the bind queue. If the API server answers that it is overloaded
// (429, or 503 with Retry-After), the pod goes back to the bind queue and is bound later.
func (pl *Fluence) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	for {
		err := postBinding(ctx, pl.bindClient, pod, node)
		after, busy := flowcontrol.RetryAfter(err)
		if !busy {
			if err != nil && !isAboutPod(err) {
				pl.counters.countFailedWrite(writesBinding)
			}
			return fwk.AsStatus(err)
		}
		pl.counters.writesThrottled.WithLabelValues(writesBinding).Inc()
		pl.bindQueue.observeAPIThrottling(pl.groupKey(pod), err.Error(), pl.now())
		klog.FromContext(ctx).V(2).Info("The API server is too busy to bind a pod", "pod", klog.KObj(pod), "retryAfter", after, "err", err)
		pl.inventory.ForgetBind(pod)
		pl.apply(ctx, pl.groups.UndoBind(pod.UID))
		why, err := pl.waitToBind(ctx, pod.UID, func(p bindqueue.Pod, now time.Time) bool { return pl.bindQueue.Throttled(p, after, now) })
		switch {
		case err != nil:
			return fwk.AsStatus(err)
		case why != "":
			return bindCanceled(pod, node, why)
		}
	}
}

// newBindClient returns a client of the core API without a rate
// limit. It is for requests that are sent without retries.
func newBindClient(config *rest.Config) (rest.Interface, error) {
	client, err := corev1client.NewForConfig(flowcontrol.Unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("build the client that binds: %w", err)
	}
	return client.RESTClient(), nil
}

// postBinding sends one bind request, without the retries of the client. Such retries would
// hide an answer of 429 from the bind queue, and sleep while the bind counts as in flight.
func postBinding(ctx context.Context, client rest.Interface, pod *corev1.Pod, node string) error {
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	err := client.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("binding").
		VersionedParams(&metav1.CreateOptions{}, scheme.ParameterCodec).
		Body(binding).MaxRetries(0).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("bind pod to node %s: %w", node, err)
	}
	return nil
}

// isAboutPod reports whether a bind failed because the pod was deleted, replaced or
// already bound. Such a failure is not counted, because the API server works as it should.
func isAboutPod(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
