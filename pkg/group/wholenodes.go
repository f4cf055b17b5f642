package group

import (
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The label of a namespace, and its value, that lets its groups ask for whole nodes by
// annotation.
const (
	WholeNodesLabel   = "fluence.flux-framework.org/whole-nodes"
	WholeNodesAllowed = "allowed"
)

// The values of the scheduler's argument wholeNodes: in which namespaces annotations may ask
// for whole nodes.
const (
	// WholeNodesAll: in all namespaces.
	WholeNodesAll = "all"
	// WholeNodesLabelled: in those whose label WholeNodesLabel is WholeNodesAllowed.
	WholeNodesLabelled = "labelled"
	// WholeNodesNone: in none.
	WholeNodesNone = "none"
)

// WholeNodesModes lists the values of the argument wholeNodes.
func WholeNodesModes() []string {
	return []string{WholeNodesAll, WholeNodesLabelled, WholeNodesNone}
}

// WhyNoWholeNodes says why annotations in a namespace give no whole nodes, in words fit for a
// user; nothing if they do. The mode is one of WholeNodesModes, and label the value of the
// namespace's label WholeNodesLabel, empty if it has none.
func WhyNoWholeNodes(mode, namespace, label string) string {
	switch {
	case mode == WholeNodesAll:
		return ""
	case mode == WholeNodesNone:
		return "annotations give no whole nodes in this cluster (the argument wholeNodes of the scheduler is none)"
	case label == WholeNodesAllowed:
		return ""
	}
	return fmt.Sprintf("namespace %q may not have whole nodes: its label %s is %q, and has to be %q", namespace, WholeNodesLabel, label, WholeNodesAllowed)
}

// ExclusiveRequest returns the annotation, and its value, by which annotations ask for whole
// nodes; both are empty if none does.
func ExclusiveRequest(annotations map[string]string) (annotation, value string) {
	if v := annotations[ExclusiveAnnotation]; v == ExclusiveTrue {
		return ExclusiveAnnotation, v
	}
	if v := annotations[MatchPolicyAnnotation]; match.IsExclusive(v) {
		return MatchPolicyAnnotation, v
	}
	return "", ""
}

// DeniedMessage says, in words fit for a user, that an annotation asks in vain for whole nodes.
func DeniedMessage(annotation, value, why string) string {
	return fmt.Sprintf("annotation %s: %q: %s", annotation, value, why)
}
