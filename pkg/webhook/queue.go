package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/controller/fluxjob"
	"github.com/flux-k8s/fluence/pkg/group"
)

// Queues says how new Jobs and pods enter their queues.
type Queues interface {
	// Enter returns how a new Job or pod enters its queue.
	Enter(ctx context.Context, obj metav1.Object, now time.Time) fluxjob.Entry
}

// enterQueue returns what to add to an object so that it waits in its queue, and what its user is warned of. Jobs are
// suspended and pods gated until their turn.
func (c *newObject) enterQueue(ctx context.Context, queues Queues, raw []byte, now time.Time) (edits []edit, hold []jsonpatch.JsonPatchOperation, warnings []string) {
	var obj metav1.Object
	switch {
	case c.template == nil:
		obj = &corev1.Pod{}
	case c.podOwner.Kind == "Job" && c.ownerKind == "":
		obj = &batchv1.Job{}
	default:
		return nil, nil, c.endless()
	}
	if json.Unmarshal(raw, obj) != nil {
		return nil, nil, nil // the API server refuses it
	}
	obj.SetNamespace(c.pod.Namespace)
	e := queues.Enter(ctx, obj, now)
	edits = []edit{queueLabel(nil, e.Label), queueLabel(c.template, e.TemplateLabel)}
	if e.Hold {
		edits = append(edits, edit{path: []string{"metadata", "annotations"}, values: map[string]string{group.QueuedAnnotation: e.Since}})
		hold = c.hold()
	}
	return edits, hold, e.Warnings
}

// endless warns of a queue of an object whose pods cannot wait in one. Its pods are held only if they, or their Jobs, have the
// label themselves.
func (c *newObject) endless() []string {
	queue, _ := group.QueueOf(c.ownerLabels, c.pod.Labels, c.labels)
	if queue == "" {
		return nil
	}
	why := fmt.Sprintf("a %s does not end", c.podOwner.Kind)
	if c.ownerKind != "" {
		why = "the Jobs of a CronJob do not wait in queues"
	}
	follows := "its pods run without a queue: the label belongs on Jobs and on pods that nothing controls"
	if held, _ := group.QueueOf(c.ownerLabels, c.pod.Labels); held != "" {
		follows = "its pods never start as long as its template has the label"
	}
	return []string{fmt.Sprintf("queue %s: %s: %s; %s", queue, v1alpha1.ReasonNotAllowed, why, follows)}
}

// elsewhere warns of a queue of an object whose pods ask for another scheduler: they start at once, by that scheduler.
func (c *newObject) elsewhere(scheduler string) []string {
	queue, _ := group.QueueOf(c.labels, c.pod.Labels)
	if queue == "" || c.controller != (group.Owner{}) {
		return nil
	}
	field := strings.Join(below(c.template, "spec", "schedulerName"), ".")
	return []string{fmt.Sprintf("queue %s: %s: %s: %q: only pods of the scheduler %s wait in queues; these run without a queue", queue, v1alpha1.ReasonNotAllowed, field, c.scheduler, scheduler)}
}

// queueLabel is the addition of the label of a queue to an object, or to its pod template. It adds nothing without a queue.
func queueLabel(template []string, queue string) edit {
	e := edit{path: below(template, "metadata", "labels"), values: map[string]string{}}
	if queue != "" {
		e.values[group.QueueLabel] = queue
	}
	return e
}

// hold returns the operations that suspend a Job, or gate a pod.
func (c *newObject) hold() []jsonpatch.JsonPatchOperation {
	if c.template != nil {
		return []jsonpatch.JsonPatchOperation{jsonpatch.NewOperation("add", "/spec/suspend", true)}
	}
	gate := map[string]any{"name": v1alpha1.QueueGate}
	gates, _, _ := unstructured.NestedSlice(c.fields, "spec", "schedulingGates")
	for _, g := range gates {
		if is, ok := g.(map[string]any); ok && is["name"] == v1alpha1.QueueGate {
			return nil
		}
	}
	if len(gates) > 0 {
		return []jsonpatch.JsonPatchOperation{jsonpatch.NewOperation("add", "/spec/schedulingGates/-", gate)}
	}
	return []jsonpatch.JsonPatchOperation{jsonpatch.NewOperation("add", "/spec/schedulingGates", []any{gate})}
}
