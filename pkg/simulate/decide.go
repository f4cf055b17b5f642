package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Decision is what the scheduler would decide on a group now.
type Decision struct {
	// Group is the name of the PodGroup. If Named is false, it names a single pod.
	Group types.NamespacedName `json:"-"`
	// Named is true if the group has a PodGroup.
	Named bool `json:"-"`
	// Starts is true if the group's minimum has nodes, or would have.
	Starts bool `json:"starts"`
	// Placements are the nodes to which pods would be bound,
	// in the order in which the scheduler assigns them.
	Placements []Placement `json:"places,omitempty"`
	// Waiting names the pods that would get no node.
	Waiting []string `json:"waiting,omitempty"`
	// Reason is why they would get none, as in the PodGroup's condition.
	Reason string `json:"reason,omitempty"`
	// Message is the text to Reason.
	Message string `json:"message,omitempty"`
	// Evicts are the victims that would be evicted for the group, so that it starts when they have
	// gone. Until then it has no nodes, and Starts is false.
	Evicts []Victim `json:"evicts,omitempty"`
}

// A Placement is the node of a pod.
type Placement struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

// maxTries bounds the cycles of one pod in a simulation. After a refusal by a filter
// the group is tried again differently, as the scheduler does after its backoff.
const maxTries = 10

// Groups returns the groups that have a pod without a node, in the order of the queue.
func (r *Scheduler) Groups() []types.NamespacedName { return r.order }

// GroupOf returns the group of a pod without a node. It returns false for any other pod.
func (r *Scheduler) GroupOf(uid types.UID) (types.NamespacedName, bool) {
	key, ok := r.groups[uid]
	return key, ok
}

// Decide returns the decision on a group. It decides on the groups before
// it in the queue first, as the scheduler does: they take their nodes, or
// have nodes reserved. It fails for a group that has no pod without a node.
func (r *Scheduler) Decide(ctx context.Context, key types.NamespacedName) (Decision, error) {
	for _, k := range r.order {
		d, ok := r.decided[k]
		if !ok {
			if err := ctx.Err(); err != nil {
				return d, fmt.Errorf("decide on the groups before %s in the queue: %w", key, err)
			}
			var err error
			if d, err = r.decideGroup(ctx, k); err != nil {
				return d, err
			}
			r.decided[k] = d
		}
		if k == key {
			return d, nil
		}
	}
	return Decision{}, fmt.Errorf("group %s: no pod of it waits for a node", key)
}

// decideGroup decides on a group, for all its pods that wait. After a refusal with a backoff it
// tries again as if the backoff had passed. If that places no more pods, the first decision counts.
func (r *Scheduler) decideGroup(ctx context.Context, key types.NamespacedName) (Decision, error) {
	members, tries := r.members[key], map[*corev1.Pod]int{}
	d, err := r.runCycles(ctx, key, tries)
	for again := d; err == nil; {
		if len(again.Placements) > len(d.Placements) || len(again.Evicts) > len(d.Evicts) {
			d = again
		}
		spent := slices.ContainsFunc(members, func(pod *corev1.Pod) bool { return tries[pod] == maxTries })
		if len(d.Waiting) == 0 || spent || !r.pl.ExpireBackoff(key) {
			break
		}
		again, err = r.runCycles(ctx, key, tries)
	}
	return d, err
}

// runCycles runs scheduling cycles for the members of a group until none may be placed any more.
func (r *Scheduler) runCycles(ctx context.Context, key types.NamespacedName, tries map[*corev1.Pod]int) (Decision, error) {
	d := Decision{Group: key}
	members := r.members[key]
	var last *fwk.Status
	for goesOn := true; goesOn; {
		goesOn = false
		for _, pod := range members {
			s, ok := r.pl.StateOf(pod)
			if _, placed := r.cycles[pod]; placed || !ok || !s.MayEnterCycle || tries[pod] == maxTries {
				continue
			}
			tries[pod]++
			goesOn = true
			status, err := r.runCycle(ctx, pod)
			if err != nil {
				return d, err
			}
			if !status.IsSuccess() {
				last = status
			}
			r.undo(ctx, members)
		}
	}
	r.fillIn(&d, members, last)
	return d, nil
}

// fillIn fills in the result of a group's cycles.
func (r *Scheduler) fillIn(d *Decision, members []*corev1.Pod, last *fwk.Status) {
	d.Starts = len(members) > 0
	for _, pod := range members {
		s, ok := r.pl.StateOf(pod)
		if !ok {
			continue
		}
		d.Named = s.InPodGroup
		d.Starts = d.Starts && s.Started && s.Missing == 0
		if c, placed := r.cycles[pod]; placed {
			d.Placements = append(d.Placements, Placement{Pod: pod.Name, Node: c.node})
			if !s.InPodGroup {
				d.Starts = true
			}
			continue
		}
		d.Waiting = append(d.Waiting, pod.Name)
		if d.Reason == "" {
			d.Reason, d.Message = s.Reason, s.Message
		}
	}
	if len(d.Waiting) > 0 && d.Reason == "" {
		switch {
		case last != nil:
			d.Reason, d.Message = corev1.PodReasonUnschedulable, last.Message()
		default:
			d.Reason, d.Message = reason.Gathering, "its pods wait for other pods of the group, which are scheduled first"
		}
	}
	if victims := r.pl.VictimsFor(d.Group, members); len(d.Waiting) > 0 && len(victims) > 0 {
		d.addVictims(victims)
	}
}

// A cycle is the scheduling cycle of a pod that got a node.
type cycle struct {
	node    string
	state   fwk.CycleState
	assumed *corev1.Pod
}

func queued(pod *corev1.Pod) *schedulerframework.QueuedPodInfo {
	info, err := schedulerframework.NewPodInfo(pod)
	if err != nil {
		// An affinity term cannot be parsed. PodInfo is usable all the same.
		info = &schedulerframework.PodInfo{Pod: pod}
	}
	return &schedulerframework.QueuedPodInfo{PodInfo: info, QueueingParams: schedulerframework.QueueingParams{Timestamp: pod.CreationTimestamp.Time}}
}

// runCycle runs a scheduling cycle of a pod up to Permit. The status says why
// the pod got no node. It is nil if the pod got one. An error is unexpected.
func (r *Scheduler) runCycle(ctx context.Context, pod *corev1.Pod) (*fwk.Status, error) {
	logger := klog.FromContext(ctx)
	if err := r.sched.Cache.UpdateSnapshot(logger, r.snapshot); err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	state := schedulerframework.NewCycleState()
	result, err := r.sched.SchedulePod(ctx, r.profile, state, queued(pod))
	if fit, ok := errors.AsType[*schedulerframework.FitError](err); ok {
		r.profile.RunPostFilterPlugins(ctx, state, pod, fit.Diagnosis.NodeToStatus)
		message := fit.Diagnosis.PreFilterMsg
		if message == "" {
			message = fit.Error()
		}
		return fwk.NewStatus(fwk.Unschedulable, message), nil
	}
	if err != nil {
		return nil, fmt.Errorf("schedule pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	c := cycle{node: result.SuggestedHost, state: state, assumed: pod.DeepCopy()}
	c.assumed.Spec.NodeName = c.node
	if err := r.sched.Cache.AssumePod(logger, c.assumed); err != nil {
		return nil, fmt.Errorf("assume pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.cycles[pod] = c
	status := r.profile.RunReservePluginsReserve(ctx, state, c.assumed, c.node)
	if status.IsSuccess() {
		if _, status = r.profile.RunPermitPlugins(ctx, state, c.assumed, c.node); status.IsSuccess() {
			r.pl.MarkStarted(pod)
		}
	}
	if !status.IsSuccess() && !status.IsWait() {
		return status, r.forget(ctx, pod)
	}
	return nil, nil
}

// undo undoes the cycles of members whose assignments the group has revoked.
func (r *Scheduler) undo(ctx context.Context, members []*corev1.Pod) {
	for _, pod := range members {
		if _, placed := r.cycles[pod]; !placed {
			continue
		}
		if s, ok := r.pl.StateOf(pod); ok && !s.Assigned {
			if err := r.forget(ctx, pod); err != nil {
				klog.FromContext(ctx).Error(err, "Cannot undo a simulated scheduling cycle", "pod", klog.KObj(pod))
			}
		}
	}
}

// forget undoes the cycle of a pod.
func (r *Scheduler) forget(ctx context.Context, pod *corev1.Pod) error {
	c := r.cycles[pod]
	delete(r.cycles, pod)
	r.profile.RunReservePluginsUnreserve(ctx, c.state, c.assumed, c.node)
	if err := r.sched.Cache.ForgetPod(klog.FromContext(ctx), c.assumed); err != nil {
		return fmt.Errorf("forget pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
