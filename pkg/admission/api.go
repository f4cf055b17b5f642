package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/report"
)

// durationManager is the field manager that writes the condition Valid while a longer time limit does not count. At all other
// times the controller writes this condition. The driver's other writes have another field manager: server-side apply removes
// the fields of a manager that its next write leaves out.
const durationManager = report.FieldManager + "-duration"

// An api writes FluxJobs and Queues.
type api interface {
	// apply writes fields of the status of a FluxJob with server-side apply. It returns the FluxJob.
	apply(ctx context.Context, j *applied, manager string) (*v1alpha1.FluxJob, error)
	get(ctx context.Context, key types.NamespacedName) (*v1alpha1.FluxJob, error)
	applyQueue(ctx context.Context, q *v1alpha1.Queue, s *v1alpha1.QueueStatus) error
}

// An applied is a FluxJob with the fields that the scheduler writes. What is left out is removed if the scheduler has written it.
type applied struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   appliedMetadata `json:"metadata"`
	Status     appliedStatus   `json:"status"`
}

// An appliedMetadata names the very object, in the very version, that is written.
type appliedMetadata struct {
	Namespace       string    `json:"namespace"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
}

type appliedStatus struct {
	Phase      v1alpha1.JobPhase       `json:"phase,omitempty"`
	Promise    *v1alpha1.JobPromise    `json:"promise,omitempty"`
	Allocation *v1alpha1.JobAllocation `json:"allocation,omitempty"`
	Requeues   int32                   `json:"requeues,omitempty"`
	Conditions []metav1.Condition      `json:"conditions,omitempty"`
}

// newApplied returns an applied without a status. The caller holds the lock of the jobs.
func newApplied(j *job) *applied {
	return &applied{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kindFluxJob,
		Metadata: appliedMetadata{j.key.Namespace, j.key.Name, j.uid, j.version},
	}
}

// toApply returns what the FluxJob of a job is to say. The caller holds the lock of the jobs.
func (j *job) toApply(now time.Time) *applied {
	a := newApplied(j)
	s := &a.Status
	s.Requeues = j.requeues
	if j.takenBack != 0 {
		s.Requeues++
	}
	c := metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: j.sayReason, Message: j.sayMessage, ObservedGeneration: j.generation}
	if r := j.room; r != nil && j.takenBack == 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonAdmitted, admittedMessage(r, now)
		s.Allocation = r.allocation()
		if !j.isLetGo() {
			s.Phase = v1alpha1.Ready
		}
	} else {
		s.Phase = j.waitingPhase()
		if p := j.promise; p != nil {
			s.Promise = &v1alpha1.JobPromise{At: metav1.NewTime(p.job.Start), Nodes: int32(len(p.nodes)), Since: metav1.NewTime(p.since), Why: p.why}
		}
	}
	if c.Reason == "" {
		c.Reason = v1alpha1.ReasonNotItsTurn
	}
	c.LastTransitionTime = metav1.NewTime(j.since)
	if j.since.IsZero() || j.admitted != (c.Status == metav1.ConditionTrue) {
		c.LastTransitionTime = metav1.NewTime(now)
	}
	s.Conditions = []metav1.Condition{c}
	return a
}

// isLetGo reports whether the controller has let the workload go.
func (j *job) isLetGo() bool {
	return j.room != nil && j.room.written && (j.phase == v1alpha1.Running || j.phase == v1alpha1.Finished)
}

// waitingPhase returns the phase of a job that has no room. One that its queue has not taken yet stays requested.
func (j *job) waitingPhase() v1alpha1.JobPhase {
	if j.takenIn == "" && (j.phase == "" || j.phase == v1alpha1.Requested) {
		return v1alpha1.Requested
	}
	return v1alpha1.Waiting
}

// delayToApply returns the condition Valid of a job whose longer time limit does not count, or counts by now. The caller holds
// the lock of the jobs.
func (j *job) delayToApply(now time.Time) *applied {
	a := newApplied(j)
	c := metav1.Condition{Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValid, ObservedGeneration: j.generation, LastTransitionTime: metav1.NewTime(now)}
	if j.sayDelay != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonWouldDelay, j.sayDelay
	}
	a.Status.Conditions = []metav1.Condition{c}
	return a
}

// allocation returns a room as the FluxJob has it.
func (r *room) allocation() *v1alpha1.JobAllocation {
	a := &v1alpha1.JobAllocation{Attempt: r.attempt, At: metav1.NewMicroTime(r.at), Seats: r.toShow()}
	if !r.end.IsZero() {
		a.End = &metav1.Time{Time: r.end}
	}
	return a
}

// A restAPI is the API of an API server.
type restAPI struct{ client rest.Interface }

// apply implements api.
func (r restAPI) apply(ctx context.Context, a *applied, manager string) (*v1alpha1.FluxJob, error) {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	body, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the status of FluxJob %s/%s: %w", a.Metadata.Namespace, a.Metadata.Name, err)
	}
	fj := &v1alpha1.FluxJob{}
	err = r.client.Patch(types.ApplyPatchType).
		Namespace(a.Metadata.Namespace).Resource(v1alpha1.FluxJobs.Resource).Name(a.Metadata.Name).SubResource("status").
		Param("fieldManager", manager).Param("force", "true").
		Body(body).MaxRetries(0).Do(ctx).Into(fj)
	if err != nil {
		return nil, fmt.Errorf("apply the status of FluxJob %s/%s: %w", a.Metadata.Namespace, a.Metadata.Name, err)
	}
	return fj, nil
}

// get implements api.
func (r restAPI) get(ctx context.Context, key types.NamespacedName) (*v1alpha1.FluxJob, error) {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	fj := &v1alpha1.FluxJob{}
	err := r.client.Get().Namespace(key.Namespace).Resource(v1alpha1.FluxJobs.Resource).Name(key.Name).Do(ctx).Into(fj)
	if err != nil {
		return nil, fmt.Errorf("get FluxJob %s: %w", key, err)
	}
	return fj, nil
}

// applyQueue implements api.
func (r restAPI) applyQueue(ctx context.Context, q *v1alpha1.Queue, s *v1alpha1.QueueStatus) error {
	ctx, cancel := context.WithTimeout(ctx, report.WriteTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kindQueue,
		"metadata": map[string]any{"name": q.Name, "uid": q.UID},
		"status":   s,
	})
	if err != nil {
		return fmt.Errorf("encode the status of Queue %s: %w", q.Name, err)
	}
	err = r.client.Patch(types.ApplyPatchType).
		Resource(v1alpha1.Queues.Resource).Name(q.Name).SubResource("status").
		Param("fieldManager", report.FieldManager).Param("force", "true").
		Body(body).MaxRetries(0).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply the status of Queue %s: %w", q.Name, err)
	}
	return nil
}

// sameStatus reports whether two statuses of a Queue say the same.
func sameStatus(a, b *v1alpha1.QueueStatus) bool {
	if b == nil || len(a.Conditions) != len(b.Conditions) {
		return false
	}
	x, y := *a, *b
	x.Conditions, y.Conditions = nil, nil
	for i := range a.Conditions {
		c, d := a.Conditions[i], b.Conditions[i]
		c.LastTransitionTime = d.LastTransitionTime
		if c != d {
			return false
		}
	}
	return equality.Semantic.DeepEqual(x, y)
}
