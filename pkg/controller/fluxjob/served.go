package fluxjob

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/served"
)

// watched are the resources that are watched for queues alone.
var watched = []schema.GroupVersionResource{
	v1alpha1.Queues, v1alpha1.FluxJobs,
	corev1.SchemeGroupVersion.WithResource("namespaces"), schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"),
}

// start waits until the API server serves Queues and FluxJobs, and the controller may watch all that it needs, and then
// until the queues have been listed. It returns ctx's error if ctx ends first.
func (c Config) start(ctx context.Context, api discovery.ServerResourcesInterfaceWithContext, direct client.Client, queues *Queues) error {
	log, told := klog.FromContext(ctx), ""
	return wait.PollUntilContextCancel(ctx, c.Poll, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		is, err := servesQueues(ctx, api)
		if is && err == nil {
			err = served.WhyDenied(ctx, direct, watched...)
		}
		if is && err == nil {
			err = queues.start(ctx)
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			log.Error(err, "There are no queues until this is mended; will try again", "after", c.Poll)
		}
		if is && err == nil {
			log.Info("The API server serves Queues and FluxJobs")
		}
		return is && err == nil, nil
	})
}

// watch finds out from time to time whether Queues and FluxJobs are served still, until ctx ends. While they are not, no
// workload is held: nobody would let it go.
func (c Config) watch(ctx context.Context, api discovery.ServerResourcesInterfaceWithContext, queues *Queues) {
	log := klog.FromContext(ctx)
	_ = wait.PollUntilContextCancel(ctx, c.Poll, false, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		is, err := servesQueues(ctx, api)
		switch was := queues.Served(); {
		case err != nil || is == was:
			return false, nil
		case is:
			log.Info("The API server serves Queues and FluxJobs again")
		default:
			log.Info("The API server does not serve Queues and FluxJobs any more: no workload is held")
		}
		queues.served.Store(is)
		return false, nil
	})
}

// servesQueues reports whether the API server serves Queues and FluxJobs.
func servesQueues(ctx context.Context, api discovery.ServerResourcesInterfaceWithContext) (bool, error) {
	return served.All(ctx, api, v1alpha1.GroupVersion, v1alpha1.Queues.Resource, v1alpha1.FluxJobs.Resource)
}

// conflictDelay is the time after which a write is tried again that was decided by an old object.
const conflictDelay = 100 * time.Millisecond
