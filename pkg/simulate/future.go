package simulate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A Future is a cluster as it is expected to be at a later time.
type Future struct {
	// Pods are the pods of the cluster at that time.
	Pods []*corev1.Pod
	// Placed are the pods, also in Pods, that get their nodes between now and then. Their groups start now, or are promised
	// room.
	Placed []*corev1.Pod
	// Ended is the number of pods that have ended by then.
	Ended int
	// Promised are the groups that are promised room which they have then, in the order of the queue.
	Promised []Start
}

// At returns the cluster as it is expected to be at a time. Pods end by then whose end is known. Groups that the scheduler
// would place now have started, and those to which it promises room by then have it. now is the present time.
func At(ctx context.Context, c Cluster, configuration Configuration, now, at time.Time) (*Future, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	now = now.Truncate(time.Second)
	configuration.now = func() time.Time { return now }
	r, err := New(ctx, c, configuration)
	if err != nil {
		return nil, err
	}
	f, promised := &Future{}, map[types.UID]string{}
	for _, key := range r.order {
		d, err := r.Decide(ctx, key)
		if err != nil {
			return nil, err
		}
		room, ok := r.pl.RoomOf(key)
		if !ok || room.Start.After(at) || !room.End.IsZero() && !room.End.After(at) {
			continue
		}
		s := Start{Decision: d}
		s.From, s.Nodes, _ = r.pl.PromiseOf(key)
		f.Promised = append(f.Promised, s)
		for _, slot := range room.Slots {
			promised[types.UID(slot.Key)] = slot.Node
		}
	}
	waited := map[types.UID]bool{}
	for _, o := range c.Objects {
		if pod, ok := o.(*corev1.Pod); ok {
			waited[pod.UID] = pod.Spec.NodeName == ""
		}
	}
	for _, o := range r.bound(c.Objects, now) {
		pod, ok := o.(*corev1.Pod)
		switch {
		case !ok:
			continue
		case promised[pod.UID] != "":
			pod = pod.DeepCopy()
			pod.Spec.NodeName = promised[pod.UID]
		case translate.Holds(pod) && r.endsBy(pod, at):
			f.Ended++
			continue
		}
		if waited[pod.UID] && pod.Spec.NodeName != "" {
			f.Placed = append(f.Placed, pod)
		}
		f.Pods = append(f.Pods, pod)
	}
	return f, nil
}

// endsBy reports whether a pod with a node is expected to have ended by a time.
func (r *Scheduler) endsBy(pod *corev1.Pod, at time.Time) bool {
	if d := pod.DeletionTimestamp; d != nil && !d.After(at) {
		return true
	}
	end := fluence.EndOf(r.pl, pod)
	return !end.IsZero() && !end.After(at)
}
