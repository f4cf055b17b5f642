package group

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxShownValue is the largest number of bytes of a wrong value in a text of ValueProblems.
const maxShownValue = 24

// ValueProblems returns what is wrong with the values of the labels and annotations of a pod, or of a pod
// template, in the words in which the scheduler and the controller refuse them. It leaves out what only their
// configuration says: the names of levels, the longest times, and the policies of a matcher. alone says that no
// owner and no label puts the pod into a group with others. The texts are without doubles, and bounded by
// MaxKeyProblems and MaxKeyProblem. A long value is cut.
func ValueProblems(labels, annotations map[string]string, alone bool) []string {
	var problems []string
	add := func(err error) {
		if err == nil {
			return
		}
		if text := shortened(err.Error(), labels, annotations); !slices.Contains(problems, text) && len(problems) < MaxKeyProblems {
			problems = append(problems, text)
		}
	}
	read := UserSizeOf
	if alone {
		read = SizeAlone
	}
	_, err := read(labels, annotations)
	add(err)
	add(CheckQueue(labels[QueueLabel]))
	add(ValidateMatchPolicy(annotations[MatchPolicyAnnotation]))
	// The topology is refused with its first error. A user corrects all of them at once.
	said := TopologyAnnotationsOf(annotations)
	for _, part := range []TopologyAnnotations{{Required: said.Required}, {Preferred: said.Preferred}, {Balanced: said.Balanced}, {Exclusive: said.Exclusive}, {PodsPerNode: said.PodsPerNode}, said} {
		add(part.Validate())
	}
	_, err = ParseIncompletePolicy(annotations[IncompletePolicyAnnotation])
	add(err)
	_, err = ParseIncompleteTimeout(annotations[IncompleteTimeoutAnnotation], 0)
	add(err)
	add(ValidateStages(annotations[StagesAnnotation]))
	add(ValidateExpect(annotations[ExpectAnnotation]))
	for _, key := range []string{ExpectTimeoutAnnotation, ExpectTotalAnnotation, RestartTimeoutAnnotation} {
		add(ValidateExpectTime(key, annotations[key]))
	}
	_, err = ParseDuration(annotations[DurationAnnotation])
	add(err)
	_, err = ParsePreemptionDelay(annotations[PreemptionDelayAnnotation], 0)
	add(err)
	return problems
}

// JobSizeProblem says that the size labels of a Job's pod template ask for more pods than the Job makes at a time: the
// group cannot start then, because the pods of a Job alone are its group. It returns "" if they do not, if a label or a
// field puts the pods into a group that others may share, if the Job makes no pods for now, and if the Job or a label
// cannot be read. spec is the spec of the Job as JSON.
func JobSizeProblem(spec []byte, labels, annotations map[string]string) string {
	said, err := UserSizeOf(labels, annotations)
	var job jobSpec
	if err != nil || labels[Label] != "" || json.Unmarshal(spec, &job) != nil {
		return ""
	}
	parts, err := job.parts()
	if err != nil || parts[0].native() != "" || parts[0].pods == 0 || int64(said.Min) <= parts[0].pods {
		return ""
	}
	key := MinLabel
	if labels[MinLabel] == "" {
		key = SizeLabel
	}
	makes := parts[0].pods
	return fmt.Sprintf("label %s: %q: the Job makes only %d of these pods at a time (spec.parallelism, spec.completions): the group would wait for %d more", key, labels[key], makes, int64(said.Min)-makes)
}

// shortened cuts the long values of labels and annotations in a text, and the text to MaxKeyProblem bytes.
func shortened(text string, sources ...map[string]string) string {
	for _, from := range sources {
		for _, value := range from {
			if len(value) > maxShownValue {
				text = strings.ReplaceAll(text, strconv.Quote(value), strconv.Quote(value[:maxShownValue])+"...")
			}
		}
	}
	if len(text) <= MaxKeyProblem {
		return text
	}
	end := MaxKeyProblem - len("...")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprint(text[:end], "...")
}
