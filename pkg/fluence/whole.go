package fluence

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// ConditionWholeNodes is the PodGroup condition, the scheduler's own, that is True where the
// nodes of a group that runs are its own. It is False where annotations ask for that which came
// after the match, and it is not there where nothing asks.
const ConditionWholeNodes = "WholeNodes"

// wholeNodes are the rules for whole nodes that the arguments and the namespaces make.
func (pl *Fluence) wholeNodes() gang.WholeNodes {
	return gang.WholeNodes{Denied: pl.deniedWholeNodes, Shared: pl.running.beside}
}

// deniedWholeNodes says why annotations in a namespace give no whole nodes; nothing if they do.
func (pl *Fluence) deniedWholeNodes(namespace string) string {
	label := ""
	// One that is not there has no label.
	if ns, err := pl.namespaces.Get(namespace); err == nil {
		label = ns.Labels[group.WholeNodesLabel]
	}
	return group.DeniedWholeNodes(pl.args.WholeNodes, namespace, label)
}

// namespaceSeen takes note of a namespace that came or changed.
func (pl *Fluence) namespaceSeen(ctx context.Context, old, ns *corev1.Namespace) {
	was := ""
	if old != nil {
		was = old.Labels[group.WholeNodesLabel]
	}
	if ns.Labels[group.WholeNodesLabel] == was {
		return
	}
	pl.apply(ctx, pl.groups.NamespaceChanged(ns.Name))
}

// namespaceGone forgets what a namespace that is gone has taken.
func (pl *Fluence) namespaceGone(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if ns, ok := obj.(*corev1.Namespace); ok {
		pl.forgetNamespace(ns.Name)
	}
}

// wholeRecord is what the status of a PodGroup says of its pods' nodes.
func wholeRecord(pg *scheduling.PodGroup) (gang.WholeRecord, time.Time) {
	switch c := meta.FindStatusCondition(pg.Status.Conditions, ConditionWholeNodes); {
	case c == nil:
		return gang.WholeUnknown, time.Time{}
	case c.Status == metav1.ConditionTrue:
		return gang.WholeYes, c.LastTransitionTime.Time
	default:
		return gang.WholeNo, c.LastTransitionTime.Time
	}
}

// newsOf are those that a condition told, and the one of whole nodes beside it.
func newsOf(pg *scheduling.PodGroup, c *metav1.Condition) news {
	n := news{status: c.Status, reason: c.Reason, message: c.Message}
	if w := meta.FindStatusCondition(pg.Status.Conditions, ConditionWholeNodes); w != nil {
		n.whole = w.Status == metav1.ConditionTrue
		if annotation, ok := strings.CutPrefix(w.Message, "annotation "); ok {
			n.inVain, _, _ = strings.Cut(annotation, " ")
		}
	}
	return n
}

// wholeCondition is what is told of a placement's nodes; its type is empty if that is nothing. It
// has the time of the condition before, if that was told of the same life of the group: pods that
// were made since are not those that it is told of.
func (n news) wholeCondition(pg *scheduling.PodGroup, before uint64) metav1.Condition {
	c := metav1.Condition{Type: ConditionWholeNodes, ObservedGeneration: pg.Generation, LastTransitionTime: metav1.Now()}
	switch {
	case n.whole:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reason.Matched, "the group's nodes are its own until its pods end"
	case n.inVain != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason.AskedTooLate,
			fmt.Sprintf("annotation %s came after the match: the group shares its nodes until it starts anew", n.inVain)
	default:
		return metav1.Condition{}
	}
	if old := meta.FindStatusCondition(pg.Status.Conditions, ConditionWholeNodes); old != nil && old.Status == c.Status && n.life == before {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}
