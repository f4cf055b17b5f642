package group

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The annotations of a group about the room that is held for pods that its owner makes later. The
// PodGroup's value goes first. Otherwise the value of the oldest pod that has the annotation counts.
const (
	// ExpectAnnotation asks for such room if its value is ExpectTrue. It counts
	// only where ExpectLabelled applies.
	ExpectAnnotation = "fluence.flux-framework.org/expect"
	// ExpectTimeoutAnnotation and ExpectTotalAnnotation are durations such as "90s". They are
	// for one group what the scheduler's arguments expectTimeout and expectTotal are for all, and
	// can only be shorter.
	ExpectTimeoutAnnotation = "fluence.flux-framework.org/expect-timeout"
	ExpectTotalAnnotation   = "fluence.flux-framework.org/expect-total"
	// RestartTimeoutAnnotation is a duration such as "1m", and at most the scheduler's argument
	// expectTimeout. For so long the room of a pod that fails or is deleted is kept for the pod that the
	// owner makes in its place. Without it no room is kept.
	RestartTimeoutAnnotation = "fluence.flux-framework.org/restart-timeout"
)

// ExpectTrue is the value of ExpectAnnotation that asks for room.
const ExpectTrue = "true"

// ExpectLabel is the label of a namespace that says for its groups what the
// scheduler's argument expect says for all others. Its value is one of ExpectModes.
const ExpectLabel = "fluence.flux-framework.org/expect"

// The values of the scheduler's argument expect, and of the label
// ExpectLabel: for which groups room is held for pods that are made later.
const (
	// ExpectAll means all groups.
	ExpectAll = "all"
	// ExpectLabelled means the groups that ask for it by ExpectAnnotation.
	ExpectLabelled = "labelled"
	// ExpectNone means no group.
	ExpectNone = "none"
)

// ExpectModes returns the values of the argument expect.
func ExpectModes() []string { return []string{ExpectAll, ExpectLabelled, ExpectNone} }

// ExpectAnnotations holds the values of the annotations about room for pods that are made later.
type ExpectAnnotations struct{ Expect, Timeout, Total, Restart string }

// ExpectAnnotationsOf reads the annotations of an object.
func ExpectAnnotationsOf(annotations map[string]string) ExpectAnnotations {
	return ExpectAnnotations{annotations[ExpectAnnotation], annotations[ExpectTimeoutAnnotation], annotations[ExpectTotalAnnotation], annotations[RestartTimeoutAnnotation]}
}

// WhyNotExpect returns why no room is held for pods that the owner of a group makes later, in words fit
// for a user. It returns nothing if room is held. The mode is one of ExpectModes. The label is the value of
// the label ExpectLabel of the group's namespace, and goes before the mode. It is empty if there is none. The
// annotation is the group's value of ExpectAnnotation.
func WhyNotExpect(mode, namespace, label, annotation string) string {
	by := "the argument expect of the scheduler is " + mode
	if label != "" {
		mode = label
		by = fmt.Sprintf("the label %s of namespace %s is %q", ExpectLabel, namespace, label)
	}
	switch {
	case mode == ExpectAll, mode == ExpectLabelled && annotation == ExpectTrue:
		return ""
	case mode == ExpectLabelled && annotation == "":
		return fmt.Sprintf("%s, and the group has no annotation %s: %q", by, ExpectAnnotation, ExpectTrue)
	case mode == ExpectLabelled:
		return fmt.Sprintf("%s, and the annotation %s of the group is %q: it has to be %q", by, ExpectAnnotation, annotation, ExpectTrue)
	case !slices.Contains(ExpectModes(), mode):
		return fmt.Sprintf("%s, and an administrator has to set it to one of %s", by, strings.Join(ExpectModes(), ", "))
	}
	return by
}

// ValidateExpect returns what is wrong with a value of ExpectAnnotation, in words fit for a user. It returns nil
// if the value is valid or empty. Any value but ExpectTrue asks for no room.
func ValidateExpect(value string) error {
	if value != "" && value != ExpectTrue && value != "false" {
		return &NotBoolError{Annotation: ExpectAnnotation, Value: value}
	}
	return nil
}

// ValidateExpectTime returns what is wrong with a value of one of the annotations about room that are durations,
// whatever the scheduler's argument is, in words fit for a user. It returns nil if the value is valid or empty.
func ValidateExpectTime(annotation, value string) error {
	if _, err := ParseExpectTime(annotation, value, math.MaxInt64); err != nil {
		return fmt.Errorf("annotation %s: %q: must be a duration such as 90s, and is ignored", annotation, value)
	}
	return nil
}

// ParseExpectTime reads a value of one of the annotations about room that are durations. It returns most if
// there is no value, and with an error if the value is wrong or longer. most is the value of the scheduler's
// argument. The error names the annotation and the value in words fit for a user.
func ParseExpectTime(annotation, value string, most time.Duration) (time.Duration, error) {
	if value == "" {
		return most, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > most {
		return most, fmt.Errorf("annotation %s: %q: must be a duration from 0s to %s, as the scheduler has it, and is ignored", annotation, value, most)
	}
	return d, nil
}
