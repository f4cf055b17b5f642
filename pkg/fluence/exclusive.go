package fluence

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// exclusiveRules returns the rules for exclusive nodes that
// follow from the arguments and from the labels of namespaces.
func (b *base) exclusiveRules() gang.ExclusiveRules {
	return gang.ExclusiveRules{WhyDenied: b.whyNoWholeNodes, HasForeignPods: b.occupants.hasForeign}
}

// whyNoWholeNodes returns why annotations in a namespace
// cannot ask for whole nodes. It returns "" if they can.
func (b *base) whyNoWholeNodes(namespace string) string {
	label := ""
	// A namespace that does not exist counts as one without the label.
	if ns, err := b.namespaces.Get(namespace); err == nil {
		label = ns.Labels[group.WholeNodesLabel]
	}
	return group.WhyNoWholeNodes(b.args.WholeNodes, namespace, label)
}

// observeNamespace handles a namespace that came or changed.
func (w *watcher) observeNamespace(ctx context.Context, old, ns *corev1.Namespace) {
	was, told := "", ""
	if old != nil {
		was, told = old.Labels[group.WholeNodesLabel], old.Annotations[group.EvictAnnotation]
	}
	if value := ns.Annotations[group.EvictAnnotation]; value != "" && value != group.EvictNever && value != told {
		klog.FromContext(ctx).Info("An annotation of a namespace has an unknown value, so its pods may be evicted", "namespace", ns.Name,
			"annotation", group.EvictAnnotation, "value", value, "want", group.EvictNever)
	}
	if ns.Labels[group.WholeNodesLabel] == was {
		return
	}
	w.apply(ctx, w.groups.NamespaceChanged(ns.Name))
}

// namespaceGone drops the debt and the metrics of a deleted namespace.
func (w *watcher) namespaceGone(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if ns, ok := obj.(*corev1.Namespace); ok {
		w.throttler.forgetNamespace(ns.Name)
	}
}

// exclusivityOf returns whether the nodes of a PodGroup's pods
// are exclusive, by the PodGroup's status, and since when.
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
