package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/simulate"
)

// addPositions sets the places of groups in the queue, as the command groups shows them, if pods of them wait for nodes.
// It counts the groups of all namespaces. If the user may not list them, it counts the groups of one namespace and says
// so. It leaves the places out if the queue cannot be read.
func (o *options) addPositions(ctx context.Context, r *reader, answers []*whyAnswer) error {
	asks := func(s *whyAnswer) bool {
		return s.Waits && slices.ContainsFunc(s.members, func(pod *corev1.Pod) bool { return waits(pod) && !gated(pod) })
	}
	if !slices.ContainsFunc(answers, asks) {
		return nil
	}
	notes := r.notes
	ns, whole, err := r.readQueue(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		r.notes = notes
		return nil
	}
	if err != nil {
		return err
	}
	configuration, err := o.quietConfiguration(ctx, r)
	r.notes = notes
	if err != nil {
		return err
	}
	order, err := ns.queue(configuration)
	if err != nil {
		return err
	}
	for _, s := range answers {
		keys := s.keys(ns)
		at := slices.IndexFunc(order, func(q fluence.QueuedGroup) bool { return slices.Contains(keys, q.Key) })
		if at >= 0 && asks(s) {
			s.Position, s.Queued = at+1, len(order)
		}
	}
	if !whole && slices.ContainsFunc(answers, func(s *whyAnswer) bool { return s.Queued > 1 }) {
		r.notes = append(r.notes, placeInNamespace("what is shown", r.namespace))
	}
	return nil
}

// placeInNamespace is the note that what is shown as the place of a group counts the groups of one namespace alone.
func placeInNamespace(shown, namespace string) string {
	return fmt.Sprintf("you may not list the pods, PodGroups and Jobs of all namespaces: %s is the place among the groups of namespace %s", shown, namespace)
}

// queue returns the groups that ask for nodes, in the order in which they ask.
func (ns *namespace) queue(c simulate.Configuration) ([]fluence.QueuedGroup, error) {
	return simulate.Queue(ns.pods, simulate.Cluster{PodGroups: ns.own, NativePodGroups: ns.native}, ns.ownersOf, c, ns.now.Time)
}
