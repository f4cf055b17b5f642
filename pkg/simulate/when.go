package simulate

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/fluence"
)

// A Start is when a group would start. It starts now, or when others have been evicted for it, or at From. If all of
// that is not so, no time is known, and Reason and Message say why.
type Start struct {
	Decision
	// From is when what is in the group's way has ended. It is zero if that is not known, and if the group starts now.
	From time.Time
	// Nodes are the nodes that the group would have from then on.
	Nodes []string
	// Ahead is the number of groups that wait for room before it, and of which such a time is known.
	Ahead int
}

// When returns when the groups of some pods without a node would start, in the order of the queue, as of a time. Pods that
// do not wait for a node in this scheduler are left out.
//
// A first scheduler, which decides by its own arguments, says which groups start now. A second one finds these on
// their nodes, and promises room to each group that waits, one after the other.
func When(ctx context.Context, c Cluster, configuration Configuration, pods []*corev1.Pod, at time.Time) ([]Start, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	at = at.Truncate(time.Second)
	configuration.now = func() time.Time { return at }
	r, err := New(ctx, c, configuration)
	if err != nil {
		return nil, err
	}
	var starts []Start
	for _, key := range r.groupsOf(pods) {
		d, err := r.Decide(ctx, key)
		if err != nil {
			return nil, err
		}
		starts = append(starts, Start{Decision: d})
	}
	if !slices.ContainsFunc(starts, Start.waits) {
		return starts, nil
	}
	if configuration, err = configuration.WithDepth(fluence.MaxPromises); err != nil {
		return nil, err
	}
	c.Objects = r.bound(c.Objects, at)
	if r, err = New(ctx, c, configuration); err != nil {
		return nil, err
	}
	for i := range starts {
		if s := &starts[i]; s.waits() && slices.Contains(r.order, s.Group) {
			if err := r.promise(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	return starts, nil
}

// waits reports whether the group waits for more than evictions for it.
func (s Start) waits() bool { return !s.Starts && len(s.Evicts) == 0 }

// groupsOf returns the groups of pods that wait for a node, in the order of the queue.
func (r *Scheduler) groupsOf(pods []*corev1.Pod) []types.NamespacedName {
	wanted := map[types.NamespacedName]bool{}
	for _, pod := range pods {
		if key, ok := r.GroupOf(pod.UID); ok {
			wanted[key] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(r.order), func(key types.NamespacedName) bool { return !wanted[key] })
}

// bound returns the objects of a cluster with the pods that got nodes on these, bound at a time.
func (r *Scheduler) bound(all []runtime.Object, at time.Time) []runtime.Object {
	nodes := map[types.UID]string{}
	for pod, c := range r.cycles {
		nodes[pod.UID] = c.node
	}
	all = slices.Clone(all)
	for i, o := range all {
		pod, ok := o.(*corev1.Pod)
		if !ok || nodes[pod.UID] == "" {
			continue
		}
		pod = pod.DeepCopy()
		pod.Spec.NodeName = nodes[pod.UID]
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)})
		all[i] = pod
	}
	return all
}

// promise fills in when a group starts that waits, in a scheduler that promises room to all.
func (r *Scheduler) promise(ctx context.Context, s *Start) (err error) {
	key := s.Group
	if s.Decision, err = r.Decide(ctx, key); err != nil {
		return err
	}
	s.From, s.Nodes, _ = r.pl.PromiseOf(key)
	for _, before := range r.order[:slices.Index(r.order, key)] {
		if _, _, promised := r.pl.PromiseOf(before); promised {
			s.Ahead++
		}
	}
	return nil
}
