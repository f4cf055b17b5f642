package group

import (
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The label of a namespace, and its value, that let the
// namespace's groups ask for whole nodes by annotation.
const (
	WholeNodesLabel   = "fluence.flux-framework.org/whole-nodes"
	WholeNodesAllowed = "allowed"
)

// The values of the scheduler's argument wholeNodes: in
// which namespaces annotations may ask for whole nodes.
const (
	// WholeNodesAll means all namespaces.
	WholeNodesAll = "all"
	// WholeNodesLabelled means the namespaces whose label WholeNodesLabel is WholeNodesAllowed.
	WholeNodesLabelled = "labelled"
	// WholeNodesNone means no namespace.
	WholeNodesNone = "none"
)

// WholeNodesModes returns the values of the argument wholeNodes.
func WholeNodesModes() []string {
	return []string{WholeNodesAll, WholeNodesLabelled, WholeNodesNone}
}

// WhyNoWholeNodes returns why annotations in a namespace give no whole nodes, in words fit for
// a user. It returns nothing if they give whole nodes. The mode is one of WholeNodesModes. The
// label is the value of the namespace's label WholeNodesLabel, empty if there is none.
func WhyNoWholeNodes(mode, namespace, label string) string {
	switch {
	case mode == WholeNodesAll:
		return ""
	case mode == WholeNodesNone:
		return "annotations cannot ask for whole nodes in this cluster (the argument wholeNodes of the scheduler is none)"
	case label == WholeNodesAllowed:
		return ""
	}
	return fmt.Sprintf("namespace %q may not have whole nodes: its label %s is %q, and an administrator has to set it to %q", namespace, WholeNodesLabel, label, WholeNodesAllowed)
}

// ExclusiveRequest returns the annotation that asks for whole
// nodes, and its value. Both are empty if there is none.
func ExclusiveRequest(annotations map[string]string) (annotation, value string) {
	if v := annotations[ExclusiveAnnotation]; v == ExclusiveTrue {
		return ExclusiveAnnotation, v
	}
	if v := annotations[MatchPolicyAnnotation]; match.IsExclusive(v) {
		return MatchPolicyAnnotation, v
	}
	return "", ""
}

// DeniedMessage returns, in words fit for a user, that an
// annotation asks for whole nodes and why they are denied.
func DeniedMessage(annotation, value, why string) string {
	return fmt.Sprintf("annotation %s: %q: %s", annotation, value, why)
}
