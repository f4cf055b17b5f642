package fluence

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
)

// expectRules returns the bounds of the seats of namespaces that follow from the
// arguments, from the labels of namespaces and from their ResourceQuotas.
func (b *base) expectRules() gang.ExpectRules {
	return gang.ExpectRules{WhyNone: b.whyNotExpect, WithinQuota: b.quotas.within}
}

// whyNotExpect returns why a group of a namespace gets no seats, by its value
// of group.ExpectAnnotation. It returns "" if the group may have seats.
func (b *base) whyNotExpect(namespace, annotation string) string {
	label := ""
	// A namespace that does not exist counts as one without the label.
	if ns, err := b.namespaces.Get(namespace); err == nil {
		label = ns.Labels[group.ExpectLabel]
	}
	return group.WhyNotExpect(b.args.Expect, namespace, label, annotation)
}

// countSeats counts what has become of seats.
func (b *base) countSeats(all []gang.SeatUse) {
	for _, use := range all {
		if _, err := b.namespaces.Get(use.Namespace); apierrors.IsNotFound(err) {
			// The namespace was deleted, and its metrics with it.
			continue
		}
		// Adding 0 makes the series, so that the first increase is visible.
		b.counters.seatsTaken.WithLabelValues(use.Namespace).Add(float64(use.Taken))
		b.counters.seatsWasted.WithLabelValues(use.Namespace).Add(float64(use.Wasted))
	}
}
