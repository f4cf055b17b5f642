package served

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// All reports whether an API server serves all of some resources of one version of a group, by one request that no rate limit bounds.
func All(ctx context.Context, api discovery.ServerResourcesInterfaceWithContext, version schema.GroupVersion, resources ...string) (bool, error) {
	list, err := api.ServerResourcesForGroupVersionWithContext(ctx, version.String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("list the resources of %s: %w", version, err)
	}
	for _, name := range resources {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
			return false, nil
		}
	}
	return true, nil
}

// WhyDenied returns an error if the controller, whose client this is, may not list and watch some resources. A watch without the
// rights would never be ready, and keep the whole controller from being so.
func WhyDenied(ctx context.Context, direct client.Client, resources ...schema.GroupVersionResource) error {
	for _, resource := range resources {
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource},
			}}
			switch err := direct.Create(ctx, review); {
			case err != nil:
				return fmt.Errorf("find out whether the controller may %s %s: %w", verb, resource.GroupResource(), err)
			case !review.Status.Allowed:
				return fmt.Errorf("the controller may not %s %s", verb, resource.GroupResource())
			}
		}
	}
	return nil
}
