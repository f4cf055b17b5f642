package podgroup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

const (
	// findTimeout bounds one read of an owner.
	findTimeout = 5 * time.Second
	// freshFor is the time for which the result of a read is used again, unless a podOwner below
	// this owner changes.
	freshFor = 5 * time.Second
	// unreadableFor is the time for which an owner counts as unreadable after a failed read.
	unreadableFor = 30 * time.Second
	// awakeFor is for how long an owner counts as awake.
	awakeFor = time.Hour
	// logUnreadableEvery is the shortest time between two log lines about one unreadable kind.
	logUnreadableEvery = 10 * time.Minute
	// maxAPIVersionLength is the largest length of an apiVersion in bytes: a group, a slash and a
	// version.
	maxAPIVersionLength = 253 + 1 + 63
)

// An ownerReader reads owners from the API server. It serves kinds whose CRD may not be installed.
// These kinds are not watched, so it remembers each result for a short time.
type ownerReader struct {
	live client.Reader
	// scheduler is the schedulerName of the pods that are counted.
	scheduler string
	clock     clock.PassiveClock
	// recent holds a recentOwner for each ownerKey while it is fresh. It is not the cache of the informers.
	recent *cache.Expiring
	// awake holds the UIDs of owners that were seen neither suspended nor with the annotation of a suspension, since a
	// Job below them was last suspended.
	awake *cache.Expiring
	// loggedKinds holds the kinds that were logged as unreadable within logUnreadableEvery.
	loggedKinds *cache.Expiring
}

type recentOwner struct {
	topOwner
	// until is the time at which the result stops being used: freshFor or unreadableFor after the
	// start of the read. ownerReader.recent drops the entry as long after the end of the read, and so
	// a little later.
	until time.Time
}

// ownerKey is the key of a read in ownerReader.recent: the whole reference, not the UID alone.
// Anyone can write a reference with any UID. The result for such a reference must not count for the
// object that really has this UID.
type ownerKey struct {
	namespace, apiVersion, kind, name string
	uid                               types.UID
}

func ownerKeyOf(namespace string, ref metav1.OwnerReference) ownerKey {
	return ownerKey{namespace, ref.APIVersion, ref.Kind, ref.Name, ref.UID}
}

func newOwnerReader(live client.Reader, c clock.Clock, scheduler string) *ownerReader {
	return &ownerReader{live: live, scheduler: scheduler, clock: c, recent: cache.NewExpiringWithClock(c), awake: cache.NewExpiringWithClock(c), loggedKinds: cache.NewExpiringWithClock(c)}
}

// forget makes the next find read the owner again.
func (f *ownerReader) forget(namespace string, ref metav1.OwnerReference) {
	f.recent.Delete(ownerKeyOf(namespace, ref))
}

// forgetIfReadable makes the next find read the owner again, unless the owner could not be read
// last time.
func (f *ownerReader) forgetIfReadable(namespace string, ref metav1.OwnerReference) {
	have, _ := f.recent.Get(ownerKeyOf(namespace, ref))
	if found, _ := have.(recentOwner); found.state != unreadable {
		f.forget(namespace, ref)
	}
}

// find returns an owner, and the time after which it has to be read again. The time is zero if it has
// to be read again only at the next event: this call has read it successfully, or no such owner can
// exist. Otherwise the time is what is left of freshFor or unreadableFor.
func (f *ownerReader) find(ctx context.Context, namespace string, ref metav1.OwnerReference) (topOwner, time.Duration, error) {
	if !group.OwnerOf(ref).CanExist() || len(ref.APIVersion) > maxAPIVersionLength {
		return topOwner{topOwnerRef: topOwnerRefFrom(ref), state: missing}, 0, nil
	}
	now, of := f.clock.Now(), ownerKeyOf(namespace, ref)
	have, _ := f.recent.Get(of)
	if found, ok := have.(recentOwner); ok && now.Before(found.until) {
		return found.topOwner, found.until.Sub(now), nil
	}
	top, err := f.read(ctx, namespace, ref)
	if err != nil {
		return topOwner{}, 0, err
	}
	keep, requeueAfter := freshFor, time.Duration(0)
	if top.state == unreadable {
		keep, requeueAfter = unreadableFor, unreadableFor
		f.logUnreadable(ctx, namespace, top)
	}
	f.recent.Set(of, recentOwner{top, now.Add(keep)}, keep)
	return top, requeueAfter, nil
}

func (f *ownerReader) read(ctx context.Context, namespace string, ref metav1.OwnerReference) (topOwner, error) {
	var obj unstructured.Unstructured
	obj.SetAPIVersion(ref.APIVersion)
	obj.SetKind(ref.Kind)
	top := topOwner{topOwnerRef: topOwnerRefFrom(ref), state: missing}
	switch err := f.get(ctx, namespace, ref.Name, &obj); {
	case meta.IsNoMatchError(err):
		top.state, top.why = unreadable, fmt.Sprintf("the API server does not serve %s in %s", ref.Kind, ref.APIVersion)
		return top, nil
	case apierrors.IsForbidden(err):
		top.state, top.why = unreadable, fmt.Sprintf("the controller has no permission to get %s in %s", ref.Kind, ref.APIVersion)
		return top, nil
	case apierrors.IsNotFound(err):
		return top, nil
	case err != nil:
		return top, fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
	case obj.GetUID() != ref.UID:
		// Another object has the name now.
		return top, nil
	}
	return topOwnerOfUnstructured(ref, &obj, f.scheduler)
}

// pod reads a pod that is not in the cache, because it does not ask for the scheduler. It returns
// nil if there is no pod of this name and UID.
func (f *ownerReader) pod(ctx context.Context, namespace string, ref metav1.OwnerReference) (*corev1.Pod, error) {
	var pod corev1.Pod
	switch err := f.get(ctx, namespace, ref.Name, &pod); {
	case err == nil && pod.UID == ref.UID:
		return &pod, nil
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("get pod %s: %w", ref.Name, err)
	default:
		return nil, nil
	}
}

func (f *ownerReader) get(ctx context.Context, namespace, name string, obj client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	return f.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, obj)
}

// logUnreadable logs that a kind cannot be read, at most once in logUnreadableEvery.
func (f *ownerReader) logUnreadable(ctx context.Context, namespace string, top topOwner) {
	kind := schema.GroupKind{Group: top.owner.Group, Kind: top.owner.Kind}
	if _, did := f.loggedKinds.Get(kind); did {
		return
	}
	f.loggedKinds.Set(kind, nil, logUnreadableEvery)
	klog.FromContext(ctx).Info("Cannot read an owner of pods: label its pods with fluence.group-size, install the CRD of the owner's kind, or grant the controller get on this kind", "kind", kind, "object", klog.KRef(namespace, top.ref.Name), "reason", top.why)
}
