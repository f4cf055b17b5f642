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

// wholeNodes are the rules for whole nodes that the arguments and the namespaces make.
func (b *base) wholeNodes() gang.WholeNodes {
	return gang.WholeNodes{Denied: b.deniedWholeNodes, Shared: b.running.beside}
}

// deniedWholeNodes says why annotations in a namespace give no whole nodes; nothing if they do.
func (b *base) deniedWholeNodes(namespace string) string {
	label := ""
	// One that is not there has no label.
	if ns, err := b.namespaces.Get(namespace); err == nil {
		label = ns.Labels[group.WholeNodesLabel]
	}
	return group.DeniedWholeNodes(b.args.WholeNodes, namespace, label)
}

// namespaceSeen takes note of a namespace that came or changed.
func (w *watcher) namespaceSeen(ctx context.Context, old, ns *corev1.Namespace) {
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

// wholeRecord is what the status of a PodGroup says of its pods' nodes.
func wholeRecord(pg *scheduling.PodGroup) (gang.WholeRecord, time.Time) {
	switch whole, known, since := report.WholeNodes(pg); {
	case !known:
		return gang.WholeUnknown, since
	case whole:
		return gang.WholeYes, since
	default:
		return gang.WholeNo, since
	}
}
