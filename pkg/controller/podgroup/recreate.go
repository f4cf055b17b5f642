package podgroup

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// recreateWindow is the time after the creation of a PodGroup in which it is created again only
	// after a check. The check asks the API server, not the cache, whether an owner still exists.
	recreateWindow = 10 * time.Minute
	// recreateDelay is the time from a check that found no owner to the next check.
	recreateDelay = 2 * time.Second
	// minSweepSize is the smallest number of entries at which old entries are dropped.
	minSweepSize = 1000
)

// mayCreate reports whether a PodGroup may be created. If it was created recently
// and is gone, the garbage collector may have deleted it with owners whose deletion
// is not in the cache yet: without a check it would be created and collected again
// and again. So mayCreate asks the API server whether an owner exists.
func (r *reconciler) mayCreate(ctx context.Context, pg *scheduling.PodGroup, now time.Time) (bool, error) {
	key := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
	r.mu.Lock()
	at, known := r.lastCreated[key]
	r.mu.Unlock()
	if !known || now.Sub(at) > recreateWindow || len(pg.OwnerReferences) == 0 {
		return true, nil
	}
	for _, ref := range pg.OwnerReferences {
		there, err := r.exists(ctx, pg.Namespace, ref)
		if there || err != nil {
			return there, err
		}
	}
	return false, nil
}

// exists reports whether an owner exists and is not being deleted. An owner that the controller has
// no permission to read, or whose kind is not served, counts as existing.
func (r *reconciler) exists(ctx context.Context, namespace string, ref metav1.OwnerReference) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	obj := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: ref.Kind}}
	switch err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, obj); {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
	}
	return obj.UID == ref.UID && obj.DeletionTimestamp == nil, nil
}

// rememberCreation records when a PodGroup was created. It reports whether this process has
// created one of this name before, not long ago.
func (r *reconciler) rememberCreation(key types.NamespacedName, now time.Time) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lastCreated) >= max(minSweepSize, r.sweepSize) {
		for k, at := range r.lastCreated {
			if now.Sub(at) > recreateWindow {
				delete(r.lastCreated, k)
			}
		}
		r.sweepSize = 2 * len(r.lastCreated)
	}
	if r.lastCreated == nil {
		r.lastCreated = map[types.NamespacedName]time.Time{}
	}
	at, again := r.lastCreated[key]
	r.lastCreated[key] = now
	return again && now.Sub(at) <= recreateWindow
}

// forgetCreation forgets a PodGroup that the controller has removed itself. The next one of its name is
// that of another run.
func (r *reconciler) forgetCreation(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lastCreated, key)
}
