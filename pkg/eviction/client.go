package eviction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/pkg/flowcontrol"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// FieldManager is the field manager of marks. It is not that of the scheduler's other
// conditions, because each write of these removes the conditions that it leaves out.
const FieldManager = "fluence-eviction"

// podsResource is the resource of pods.
var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// A Client is the API of an API server.
type Client struct {
	// pods is for the requests about pods. Marks are answered with the metadata alone, and deletions not in JSON: pods are
	// many, and nothing reads the answers.
	pods    metadata.Interface
	objects dynamic.Interface
	now     func() time.Time
}

// NewClient returns a client. The configuration's limit of requests a second does not count, because an Evictor
// bounds its requests in flight.
func NewClient(config *rest.Config) (*Client, error) {
	objects, err := dynamic.NewForConfig(flowcontrol.Unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("build the client of evictions: %w", err)
	}
	pods, err := metadata.NewForConfig(flowcontrol.Unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("build the client that evicts pods: %w", err)
	}
	return &Client{pods: pods, objects: objects, now: time.Now}, nil
}

// Mark implements API.
func (c *Client) Mark(ctx context.Context, v preemption.Victim, m Mark) error {
	if v.Kind == preemption.Pod {
		return c.MarkPod(ctx, v, preemption.VictimPod{Name: v.Name, UID: v.UID}, m)
	}
	return c.condition(ctx, v, metav1.ConditionTrue, m.Message(v.Namespace))
}

// Close implements API.
func (c *Client) Close(ctx context.Context, v preemption.Victim, m Mark) error {
	if v.Kind == preemption.Pod {
		return nil
	}
	return c.condition(ctx, v, metav1.ConditionFalse, m.Evicted(v.Namespace))
}

// TakeBack implements API.
func (c *Client) TakeBack(ctx context.Context, v preemption.Victim) error {
	if v.Kind == preemption.Pod {
		return c.TakeBackPod(ctx, v.Namespace, preemption.VictimPod{Name: v.Name, UID: v.UID})
	}
	return c.apply(ctx, podGroupsOf(v), v.Namespace, v.Name, v.UID)
}

// MarkPod implements API.
func (c *Client) MarkPod(ctx context.Context, v preemption.Victim, pod preemption.VictimPod, m Mark) error {
	return c.patchPod(ctx, v.Namespace, pod, map[string]any{
		"status": string(metav1.ConditionTrue), "reason": corev1.PodReasonPreemptionByScheduler,
		"message": m.Message(v.Namespace), "lastTransitionTime": metav1.NewTime(c.now()),
	})
}

// TakeBackPod implements API.
func (c *Client) TakeBackPod(ctx context.Context, namespace string, pod preemption.VictimPod) error {
	return c.patchPod(ctx, namespace, pod, map[string]any{"$patch": "delete"})
}

// patchPod changes the condition with which a pod is marked, of the pod of this UID only. It merges, as kube-scheduler
// does: a server-side apply of so many pods costs the API server twice the time.
func (c *Client) patchPod(ctx context.Context, namespace string, pod preemption.VictimPod, condition map[string]any) error {
	condition["type"] = string(corev1.DisruptionTarget)
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return fmt.Errorf("encode the mark of pod %s: %w", pod.Name, err)
	}
	_, err = c.pods.Resource(podsResource).Namespace(namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: FieldManager}, "status")
	return ignoreGone("mark pod "+pod.Name, err)
}

// Delete implements API.
func (c *Client) Delete(ctx context.Context, namespace string, pod preemption.VictimPod) error {
	err := c.pods.Resource(podsResource).Namespace(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	return ignoreGone("delete pod "+pod.Name, err)
}

// Suspend implements API. It writes the version that it has read, so that it overwrites no other change.
func (c *Client) Suspend(ctx context.Context, v preemption.Victim, m Mark) error {
	path := group.SuspendPath(v.Suspend)
	owners, owner, err := c.owner(ctx, v)
	if err != nil || owner == nil {
		return err
	}
	if is, _, _ := unstructured.NestedBool(owner.Object, path...); is {
		return nil // its pods end anyway
	}
	patch := map[string]any{"metadata": map[string]any{
		"uid": owner.GetUID(), "resourceVersion": owner.GetResourceVersion(),
		"annotations": map[string]any{group.SuspendedForAnnotation: group.SuspensionFor(m.For.UID, owner.GetUID())},
	}}
	if err := unstructured.SetNestedField(patch, true, path...); err != nil {
		return fmt.Errorf("suspend %s %s: %w", v.Suspend.Kind, v.Suspend.Name, err)
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode the suspension of %s %s: %w", v.Suspend.Kind, v.Suspend.Name, err)
	}
	_, err = owners.Patch(ctx, owner.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: FieldManager})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		// A conflict says that the owner has changed: it is read again.
		return fmt.Errorf("suspend %s %s: %w", v.Suspend.Kind, v.Suspend.Name, err)
	}
	return nil
}

// SuspendedBy implements API.
func (c *Client) SuspendedBy(ctx context.Context, v preemption.Victim) (types.UID, error) {
	_, owner, err := c.owner(ctx, v)
	if err != nil || owner == nil {
		return "", err
	}
	if is, _, _ := unstructured.NestedBool(owner.Object, group.SuspendPath(v.Suspend)...); !is {
		return "", nil
	}
	return group.SuspendedFor(owner), nil
}

// owner reads the owner of a victim. It returns nil if there is no such owner.
func (c *Client) owner(ctx context.Context, v preemption.Victim) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	o := v.Suspend
	if o == (group.Owner{}) { // the mark of an earlier process names an owner that is gone
		return nil, nil, nil
	}
	kind, may := group.SuspendableKindOf(o)
	if !may {
		return nil, nil, fmt.Errorf("suspend %s %s: the kind cannot be suspended", o.Kind, o.Name)
	}
	resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}
	owners := c.objects.Resource(resource).Namespace(v.Namespace)
	owner, err := owners.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && owner.GetUID() != o.UID:
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("get %s %s: %w", o.Kind, o.Name, err)
	}
	return owners, owner, nil
}

// condition writes the condition of a mark onto the victim's PodGroup.
func (c *Client) condition(ctx context.Context, v preemption.Victim, status metav1.ConditionStatus, message string) error {
	condition := map[string]any{"type": ConditionPreempted, "status": string(status), "reason": reason.Preempted, "message": message, "lastTransitionTime": metav1.NewTime(c.now())}
	if v.Kind != preemption.Group {
		condition["type"], condition["reason"] = conditionNative, corev1.PodReasonPreemptionByScheduler
	}
	return c.apply(ctx, podGroupsOf(v), v.Namespace, v.Name, v.UID, condition)
}

func podGroupsOf(v preemption.Victim) schema.GroupVersionResource {
	if v.Kind == preemption.NativeGroup {
		return nativegroup.PodGroups
	}
	return scheduling.PodGroups
}

// apply writes conditions with server-side apply, to the PodGroup of this UID only. Conditions of this field manager
// that are not passed are removed.
func (c *Client) apply(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, uid types.UID, conditions ...any) error {
	status := map[string]any{}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "PodGroup",
		"metadata": map[string]any{"name": name, "namespace": namespace, "uid": uid},
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encode the mark of PodGroup %s: %w", name, err)
	}
	force := true
	_, err = c.objects.Resource(resource).Namespace(namespace).Patch(ctx, name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: FieldManager, Force: &force}, "status")
	return ignoreGone("mark PodGroup "+name, err)
}

// ignoreGone drops the error that the object is gone, or that another one has its name.
func ignoreGone(what string, err error) error {
	if err == nil || apierrors.IsNotFound(err) || isOtherUID(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// otherUID matches what the API server says of a deletion whose precondition does not hold, and of a patch that would make
// the object.
var otherUID = regexp.MustCompile(`UID in (the )?precondition|uid mismatch`)

// isOtherUID reports whether the API server has refused a request because the object of the name has another UID, or
// because a patch with a UID would make the object. Other conflicts pass. The API server tells them apart by text only.
func isOtherUID(err error) bool {
	if apierrors.IsConflict(err) {
		return otherUID.MatchString(err.Error())
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
