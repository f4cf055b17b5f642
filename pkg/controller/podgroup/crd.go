package podgroup

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/served"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// missingCRDLogInterval is the time between two log lines about a missing CRD.
const missingCRDLogInterval = time.Minute

// waitForCRD waits until the API server serves PodGroup. It returns ctx's error if ctx ends first.
func (c Config) waitForCRD(ctx context.Context, api discovery.ServerResourcesInterfaceWithContext) error {
	log := klog.FromContext(ctx)
	var complained time.Time
	return wait.PollUntilContextCancel(ctx, c.CRDPoll, true, func(ctx context.Context) (bool, error) {
		served, err := c.serves(ctx, api, scheduling.PodGroups)
		if served {
			if !complained.IsZero() {
				log.Info("CRD " + scheduling.CRDName + " is installed now")
			}
			return true, nil
		}
		if time.Since(complained) < missingCRDLogInterval {
			return false, nil
		}
		complained = time.Now()
		if err != nil {
			log.Error(err, "Cannot find out whether CRD "+scheduling.CRDName+" is installed; will try again")
		} else {
			log.Info("CRD " + scheduling.CRDName + " is not installed; apply manifests/crds")
		}
		return false, nil
	})
}

// serves reports whether the API server serves a resource.
func (c Config) serves(ctx context.Context, api discovery.ServerResourcesInterfaceWithContext, resource schema.GroupVersionResource) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return served.All(ctx, api, resource.GroupVersion(), resource.Resource)
}
