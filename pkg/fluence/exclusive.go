package fluence

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// exclusiveRules are the rules for whole nodes that the arguments and the namespaces make.
func (b *base) exclusiveRules() gang.ExclusiveRules {
	return gang.ExclusiveRules{WhyDenied: b.whyNoWholeNodes, HasForeignPods: b.occupants.hasForeign}
}

// whyNoWholeNodes says why annotations in a namespace give no whole nodes; nothing if they do.
func (b *base) whyNoWholeNodes(namespace string) string {
	label := ""
	// One that is not there has no label.
	if ns, err := b.namespaces.Get(namespace); err == nil {
		label = ns.Labels[group.WholeNodesLabel]
	}
	return group.WhyNoWholeNodes(b.args.WholeNodes, namespace, label)
}

// observeNamespace takes note of a namespace that came or changed.
func (w *watcher) observeNamespace(ctx context.Context, old, ns *corev1.Namespace) {
	was := ""
	if old != nil {
		was = old.Labels[group.WholeNodesLabel]
	}
	if ns.Labels[group.WholeNodesLabel] == was {
		return
	}
	w.apply(ctx, w.groups.NamespaceChanged(ns.Name))
}

// namespaceGone forgets what a namespace that is gone has taken.
func (w *watcher) namespaceGone(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if ns, ok := obj.(*corev1.Namespace); ok {
		w.accounts.forgetNamespace(ns.Name)
	}
}

// exclusivityOf is what the status of a PodGroup says of its pods' nodes.
func exclusivityOf(pg *scheduling.PodGroup) (gang.Exclusivity, time.Time) {
	switch whole, known, since := report.WholeNodes(pg); {
	case !known:
		return gang.ExclusivityUnknown, since
	case whole:
		return gang.Exclusive, since
	default:
		return gang.Shared, since
	}
}
