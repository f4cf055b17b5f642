package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The annotations of a group. The PodGroup's value goes first. Otherwise the match policy and the stages are
// read from the pods. The incomplete policy and its timeout are read from the pod templates
// of the group's owner, and from pods whose template is not known (see package podgroup).
const (
	// MatchPolicyAnnotation names the policy by which the group's
	// nodes are chosen. It defaults to the scheduler's own policy.
	MatchPolicyAnnotation = "fluence.flux-framework.org/match-policy"
	// IncompletePolicyAnnotation names what to do with a started group that
	// has had fewer pods on nodes than its minimum for longer than its
	// timeout. It is one of IncompletePolicies and defaults to IncompleteWait.
	IncompletePolicyAnnotation = "fluence.flux-framework.org/incomplete-policy"
	// IncompleteTimeoutAnnotation is this timeout, a duration of at least
	// one second such as "90s". It defaults to the controller's timeout.
	IncompleteTimeoutAnnotation = "fluence.flux-framework.org/incomplete-timeout"
	// StagesAnnotation says when room is asked for for the stages that begin after others are complete.
	// It is StagesOne or StagesTogether, and defaults to StagesOne.
	StagesAnnotation = "fluence.flux-framework.org/stages"
)

const (
	// StagesOne asks for the room of a stage when its pods are made.
	StagesOne = "one"
	// StagesTogether asks for the room of all stages with the first, and holds it.
	StagesTogether = "together"
)

const (
	// IncompleteWait lets the remaining pods run on.
	IncompleteWait = "wait"
	// IncompleteRestart evicts the remaining pods, so
	// that the group starts again with all its pods.
	IncompleteRestart = "restart"
)

// EvictAnnotation is an annotation of a namespace. With the value EvictNever, no pod of the namespace is
// evicted for a group of higher priority. It has no effect on a pod or a PodGroup: their users could put
// themselves above all priorities with it.
const EvictAnnotation = "fluence.flux-framework.org/evict"

// PreemptionDelayAnnotation is a duration such as "5m": for how long a group waits for room before others
// are evicted for it. It goes before the scheduler's argument.
const PreemptionDelayAnnotation = "fluence.flux-framework.org/preemption-delay"

// ParsePreemptionDelay reads a value of PreemptionDelayAnnotation. It returns the default if there is no value,
// and with an error if the value is wrong. The error names the annotation and the value in words fit for a user.
func ParsePreemptionDelay(value string, def time.Duration) (time.Duration, error) {
	if value == "" {
		return def, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return def, fmt.Errorf("annotation %s: %q: must be a duration of at least 0s, such as 5m, and is ignored", PreemptionDelayAnnotation, value)
	}
	return d, nil
}

// EvictNever is the value of EvictAnnotation that keeps the pods of a namespace.
const EvictNever = "never"

// annotationPrefix is the prefix of all annotations of this project.
const annotationPrefix = "fluence.flux-framework.org/"

// ProjectAnnotations returns the annotations of this project, nil if there are none. Others are not
// read, and a cache need not hold them.
func ProjectAnnotations(all map[string]string) map[string]string {
	var own map[string]string
	for key, value := range all {
		if strings.HasPrefix(key, annotationPrefix) {
			if own == nil {
				own = map[string]string{}
			}
			own[key] = value
		}
	}
	return own
}

// IncompletePolicies returns the values of IncompletePolicyAnnotation.
func IncompletePolicies() []string { return []string{IncompleteWait, IncompleteRestart} }

// Annotation returns the value of a group's annotation: of the PodGroup,
// or else of the first pod that has it. It returns nothing if none has it.
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

// ParseIncompletePolicy reads a value of IncompletePolicyAnnotation. It returns IncompleteWait
// if there is no value. An error names the annotation and the value in words fit for a user.
func ParseIncompletePolicy(value string) (string, error) {
	switch {
	case value == "":
		return IncompleteWait, nil
	case !slices.Contains(IncompletePolicies(), value):
		return "", fmt.Errorf("annotation %s: %q: must be one of %s", IncompletePolicyAnnotation, value, strings.Join(IncompletePolicies(), ", "))
	}
	return value, nil
}

// ParseIncompleteTimeout reads a value of IncompleteTimeoutAnnotation. It returns the default
// if there is no value. An error names the annotation and the value in words fit for a user.
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

// ValidateStages returns what is wrong with a value of StagesAnnotation, in words fit for a user. It
// returns nil if the value is valid or empty.
func ValidateStages(value string) error {
	if value != "" && value != StagesOne && value != StagesTogether {
		return fmt.Errorf("annotation %s: %q: must be one of %s, %s", StagesAnnotation, value, StagesOne, StagesTogether)
	}
	return nil
}

// ValidateMatchPolicy returns what is wrong with a value of MatchPolicyAnnotation,
// in words fit for a user. It returns nil if the value is valid or empty.
func ValidateMatchPolicy(policy string) error {
	if policy != "" && !slices.Contains(match.Policies(), policy) {
		return fmt.Errorf("annotation %s: %q: must be one of %s", MatchPolicyAnnotation, policy, strings.Join(match.Policies(), ", "))
	}
	return nil
}
