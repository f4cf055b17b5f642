package fluence

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/walltime"
)

// owners watches the objects that control pods (Jobs, ReplicaSets and so
// on) and knows the controller of each. As with PodGroups, the watch is
// separate from the scheduler's informers: without the right to read those
// objects, only the pods that they control wait. Only metadata is kept, and the deadlines of Jobs.
//
// Kinds that may be suspended and that control others, such as JobSets, are watched too. An API server need
// not serve them. No pod waits for one of their objects. While it is not known, pods below it are deleted when
// they are evicted.
type owners struct {
	informers     map[schema.GroupKind]cache.SharedIndexInformer
	registrations map[schema.GroupKind]registration
	// gone has the deadlines of Jobs that were deleted, by UID.
	gone *utilcache.Expiring
}

// rememberGone is for how long the deadline of a Job that was deleted is known. Its pods are deleted after it, and may take their
// grace periods.
const rememberGone = 10 * time.Minute

// ownerKinds returns the resources of the kinds that are watched.
func ownerKinds() map[schema.GroupKind]schema.GroupVersionResource {
	kinds := map[schema.GroupKind]schema.GroupVersionResource{}
	for _, k := range group.SuspendableKinds() {
		kinds[schema.GroupKind{Group: k.Group, Kind: k.Kind}] = schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
	}
	for _, k := range group.WatchedKinds() {
		kinds[schema.GroupKind{Group: k.Group, Kind: k.Kind}] = schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
	}
	return kinds
}

// newOwners builds the watches. It calls seen with the UID of each object that becomes known. It calls ends with the UID of
// each Job whose deadline has changed.
func newOwners(config *rest.Config, seen, ends func(types.UID)) (*owners, error) {
	client, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, fmt.Errorf("build the client of owners: %w", err)
	}
	jobs, err := batchclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build the client of Jobs: %w", err)
	}
	o := &owners{informers: map[schema.GroupKind]cache.SharedIndexInformer{}, registrations: map[schema.GroupKind]registration{}, gone: utilcache.NewExpiring()}
	for kind, resource := range ownerKinds() {
		informer := metadatainformer.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
		if isJob(group.Owner{Group: kind.Group, Kind: kind.Kind}) {
			lw := cache.NewListWatchFromClient(jobs.RESTClient(), resource.Resource, metav1.NamespaceAll, fields.Everything())
			informer = cache.NewSharedIndexInformer(lw, &batchv1.Job{}, 0, cache.Indexers{})
		}
		if err := informer.SetTransform(trimOwner); err != nil {
			return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
		}
		o.registrations[kind], err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				seen(uidOf(obj))
				if !deadlineOf(obj).IsZero() {
					ends(uidOf(obj))
				}
			},
			UpdateFunc: func(old, obj any) {
				// The object was deleted and another one was created
				// under its name, and the watch missed the deletion.
				if uid := uidOf(obj); uid != uidOf(old) {
					seen(uid)
				}
				if was, is := deadlineOf(old), deadlineOf(obj); !was.Equal(is) {
					ends(uidOf(obj))
				}
			},
			DeleteFunc: func(obj any) {
				if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = unknown.Obj
				}
				if at := deadlineOf(obj); !at.IsZero() {
					o.gone.Set(uidOf(obj), at, rememberGone)
					ends(uidOf(obj)) // somebody may have looked for the Job before this
				}
			},
		})
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
		}
		o.informers[kind] = informer
	}
	return o, nil
}

// jobs returns the informer of Jobs.
func (o *owners) jobs() cache.SharedIndexInformer {
	return o.informers[schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}]
}

// deadlineOf returns when a Job is ended. It returns the zero time for any other object, and if there is no end.
func deadlineOf(obj any) time.Time {
	if job, ok := obj.(*batchv1.Job); ok {
		return walltime.JobDeadline(job)
	}
	return time.Time{}
}

// deadline returns when a Job is ended, or was to be before it was deleted. It returns the zero time if there is no end.
func (o *owners) deadline(namespace string, job group.Owner) time.Time {
	if found := o.find(namespace, job); found != nil {
		return deadlineOf(found)
	}
	at, _ := o.gone.Get(job.UID)
	end, _ := at.(time.Time)
	return end
}

func uidOf(obj any) types.UID {
	if m, err := meta.Accessor(obj); err == nil {
		return m.GetUID()
	}
	return ""
}

// trimOwner is an informer transform that keeps only the fields that are read.
func trimOwner(obj any) (any, error) {
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata:
		o.ObjectMeta = trimMetadata(&o.ObjectMeta)
	case *batchv1.Job:
		return &batchv1.Job{
			ObjectMeta: trimMetadata(&o.ObjectMeta),
			Spec: batchv1.JobSpec{
				ActiveDeadlineSeconds: o.Spec.ActiveDeadlineSeconds, Suspend: o.Spec.Suspend, ManagedBy: o.Spec.ManagedBy,
				Parallelism: o.Spec.Parallelism, Completions: o.Spec.Completions,
			},
			Status: batchv1.JobStatus{StartTime: o.Status.StartTime, Conditions: o.Status.Conditions, Succeeded: o.Status.Succeeded},
		}, nil
	}
	return obj, nil
}

func trimMetadata(m *metav1.ObjectMeta) metav1.ObjectMeta {
	var labels map[string]string
	for _, key := range []string{preemption.QueueLabel, group.QueueLabel} {
		if queue, has := m.Labels[key]; has {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = queue
		}
	}
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, Labels: labels,
		ResourceVersion: m.ResourceVersion, OwnerReferences: group.ControllerReference(m),
	}
}

// run watches until ctx ends. It adds each kind to l as a
// source, so that l is done only after every kind was listed.
func (o *owners) run(ctx context.Context, l *initialSync) {
	for kind, of := range ownerKinds() {
		informer, resource, listed := o.informers[kind], of.GroupResource(), l.addSource()
		whenListed(ctx, o.registrations[kind], resource.Resource, listed)
		// The watch is tried again for ever. Of a kind that need not be there, an error is logged once.
		lastError := ""
		err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			switch needed := (group.Owner{Group: kind.Group, Kind: kind.Kind}).Watched(); {
			case apierrors.IsForbidden(err) && needed:
				klog.FromContext(ctx).Error(err, "The scheduler may not read owners of pods, so their pods wait; grant list and watch", "resource", resource)
				listed()
				return
			case (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) && !needed:
				if why := err.Error(); why != lastError {
					lastError = why
					klog.FromContext(ctx).V(2).Info("Owners cannot be read; to evict their pods, these are deleted", "resource", resource, "err", err)
				}
				listed()
				return
			}
			cache.DefaultWatchErrorHandler(ctx, r, err)
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to set the handler for errors of the watch of owners of pods", "resource", resource)
		}
		go informer.RunWithContext(ctx)
	}
}

// ControllerOf implements group.Owners.
func (o *owners) ControllerOf(namespace string, owner group.Owner) (group.Owner, bool) {
	m := o.find(namespace, owner)
	if m == nil {
		return group.Owner{}, false
	}
	return group.ControllerOf(m), true
}

// describe returns what victims need to know of an owner.
func (o *owners) describe(namespace string, owner group.Owner) (preemption.Owner, bool) {
	m := o.find(namespace, owner)
	if m == nil {
		return preemption.Owner{}, false
	}
	return preemption.OwnerOf(m), true
}

// find returns an owner as last seen. It returns nil if it was not seen.
func (o *owners) find(namespace string, owner group.Owner) metav1.Object {
	informer := o.informers[schema.GroupKind{Group: owner.Group, Kind: owner.Kind}]
	if informer == nil {
		return nil
	}
	obj, ok, err := informer.GetStore().GetByKey(namespace + "/" + owner.Name)
	if err != nil || !ok {
		return nil
	}
	m, err := meta.Accessor(obj)
	if err != nil || m.GetUID() != owner.UID {
		// The object is an older or newer one of the same name.
		return nil
	}
	return m
}
