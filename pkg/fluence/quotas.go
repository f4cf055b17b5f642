package fluence

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// quotas knows the ResourceQuotas, and how many more pods they leave. As with PodGroups, the watch is
// separate from the scheduler's informers: without the right to read ResourceQuotas they do not count.
type quotas struct {
	informer cache.SharedIndexInformer
	// pods counts the requests of pods, and finds the quotas that apply to them, as the API server does.
	pods quotav1.Evaluator
}

// newQuotas builds the watch.
func newQuotas(client kubernetes.Interface) (*quotas, error) {
	q := &quotas{
		informer: coreinformers.NewResourceQuotaInformer(client, metav1.NamespaceAll, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		pods:     quotacore.NewPodEvaluator(nil, clock.RealClock{}),
	}
	if err := q.informer.SetTransform(trimQuota); err != nil {
		return nil, fmt.Errorf("watch ResourceQuotas: %w", err)
	}
	return q, nil
}

// trimQuota is an informer transform that drops the fields that are not read.
func trimQuota(obj any) (any, error) {
	if quota, ok := obj.(*corev1.ResourceQuota); ok {
		quota.ManagedFields, quota.OwnerReferences, quota.Finalizers, quota.Labels, quota.Annotations = nil, nil, nil, nil, nil
	}
	return obj, nil
}

// run watches until ctx ends.
func (q *quotas) run(ctx context.Context) {
	forbidden := sync.OnceFunc(func() {
		klog.FromContext(ctx).Info("The scheduler may not read ResourceQuotas, so room is held for expected pods as if there were none; grant list and watch", "resource", "resourcequotas")
	})
	err := q.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			forbidden()
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to set the handler for errors of the watch of ResourceQuotas")
	}
	q.informer.RunWithContext(ctx)
}

// within returns how many of the expected pods the quotas of a namespace leave, in their order, besides its
// pods and the held ones. why names the first quota that leaves fewer. See gang.ExpectRules.
func (q *quotas) within(namespace string, held, expected []gang.PodCount) (n int, why string) {
	for _, p := range expected {
		n += p.N
	}
	all, err := q.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return n, ""
	}
	for _, obj := range all {
		quota := obj.(*corev1.ResourceQuota)
		left := quotav1.Subtract(quota.Status.Hard, quota.Status.Used)
		for _, p := range held {
			q.take(quota, left, p, true)
		}
		fit := 0
		for _, p := range expected {
			taken, lacks := q.take(quota, left, p, false)
			if fit += taken; taken == p.N {
				continue
			}
			if fit < n {
				n, why = fit, fmt.Sprintf("ResourceQuota %q leaves no more %s", quota.Name, lacks)
			}
			break
		}
	}
	return n, why
}

// take takes what pods request from what a quota leaves. It returns how many pods that is enough for, and
// what the next one lacks. always takes the requests of all pods, even if there is too little.
func (q *quotas) take(quota *corev1.ResourceQuota, left corev1.ResourceList, pods gang.PodCount, always bool) (n int, lacks corev1.ResourceName) {
	// A quota whose scopes cannot be read counts.
	if applies, err := q.pods.Matches(quota, pods.Pod); err == nil && !applies {
		return pods.N, ""
	}
	usage, err := q.pods.Usage(pods.Pod)
	if err != nil {
		return pods.N, ""
	}
	usage = quotav1.Mask(usage, quotav1.ResourceNames(quota.Status.Hard))
	for n < pods.N {
		for name, uses := range usage {
			if has := left[name]; !always && has.Cmp(uses) < 0 && (lacks == "" || name < lacks) {
				lacks = name
			}
		}
		if lacks != "" {
			return n, lacks
		}
		for name, uses := range usage {
			has := left[name]
			has.Sub(uses)
			left[name] = has
		}
		n++
	}
	return n, ""
}
