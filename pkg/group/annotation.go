package group

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The annotations of a group. Each is read from the PodGroup first. Where that has none,
// the policy of a match is read from the pods, and what becomes of an incomplete group from
// the templates, or from pods that may speak for others.
const (
	// MatchPolicyAnnotation names the policy by which the group's nodes are chosen.
	// It defaults to the scheduler's own.
	MatchPolicyAnnotation = "fluence.flux-framework.org/match-policy"
	// IncompletePolicyAnnotation says what becomes of a group that has started and
	// has had fewer pods on nodes than its minimum for longer than its timeout. It
	// is one of IncompletePolicies and defaults to IncompleteWait.
	IncompletePolicyAnnotation = "fluence.flux-framework.org/incomplete-policy"
	// IncompleteTimeoutAnnotation is that timeout, a duration such as "90s" of at
	// least a second. It defaults to the controller's.
	IncompleteTimeoutAnnotation = "fluence.flux-framework.org/incomplete-timeout"
)

const (
	// IncompleteWait leaves the pods that run alone.
	IncompleteWait = "wait"
	// IncompleteRestart evicts them, so that the group starts again as a whole.
	IncompleteRestart = "restart"
)

// IncompletePolicies lists the values of IncompletePolicyAnnotation.
func IncompletePolicies() []string { return []string{IncompleteWait, IncompleteRestart} }

// Annotation returns what a group's annotation of this key says: on the PodGroup
// or else on the first of the pods that has it. Empty is that it says nothing.
func Annotation(key string, podGroup map[string]string, pods ...*corev1.Pod) string {
	if v := podGroup[key]; v != "" {
		return v
	}
	for _, p := range pods {
		if v := p.Annotations[key]; v != "" {
			return v
		}
	}
	return ""
}

// ParseIncompletePolicy reads a value of IncompletePolicyAnnotation. An error
// names the annotation and the value in words fit for a user.
func ParseIncompletePolicy(value string) (string, error) {
	switch {
	case value == "":
		return IncompleteWait, nil
	case !slices.Contains(IncompletePolicies(), value):
		return "", fmt.Errorf("annotation %s: %q: must be one of %q", IncompletePolicyAnnotation, value, IncompletePolicies())
	}
	return value, nil
}

// ParseIncompleteTimeout reads a value of IncompleteTimeoutAnnotation; without one
// it returns the default. An error names the annotation and the value in words
// fit for a user.
func ParseIncompleteTimeout(value string, def time.Duration) (time.Duration, error) {
	if value == "" {
		return def, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Second {
		return 0, fmt.Errorf("annotation %s: %q: must be a duration of at least 1s, such as 90s", IncompleteTimeoutAnnotation, value)
	}
	return d, nil
}

// ValidateMatchPolicy says what is wrong with a value of MatchPolicyAnnotation, in words fit for a user;
// nil if nothing is.
func ValidateMatchPolicy(policy string) error {
	if policy != "" && !slices.Contains(match.Policies(), policy) {
		return fmt.Errorf("annotation %s: %q: must be one of %q", MatchPolicyAnnotation, policy, match.Policies())
	}
	return nil
}
