package report

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// ConditionScheduled is a PodGroup condition that the scheduler owns. It is True if the group's pods
// have nodes: with reason Expecting while seats are held for further pods, and else with reason Placed.
// Otherwise it is False with the one reason why they have none.
const ConditionScheduled = "Scheduled"

// ConditionWholeNodes is a PodGroup condition that the scheduler owns. It is True
// if a started group has its nodes to itself. It is False if an annotation asked
// for whole nodes only after the match. It is absent if nothing asks for them.
const ConditionWholeNodes = "WholeNodes"

// A GroupStatus is what is reported of a group: the condition Scheduled, and whether
// the group has its nodes to itself.
type GroupStatus struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	// exclusive says that the group has its nodes to itself.
	exclusive bool
	// lateAnnotation is the annotation that asked for whole
	// nodes after the match. It is empty if none did.
	lateAnnotation string
	// incarnation tells apart the lives of a group: other pods may have the same nodes. It is
	// zero if the group has not started.
	incarnation uint64
}

// NotScheduled returns the status of a group without nodes.
func NotScheduled(reason, message string) GroupStatus {
	return GroupStatus{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// A Placement is where the pods of a group are.
type Placement struct {
	// Nodes is the number of pods by node.
	Nodes map[string]int
	// Waiting is how many further pods have no nodes.
	Waiting int
	// Reason is why they have none. Message says it in a sentence.
	Reason, Message string
	// Note says why no room is held for pods that are expected. It is empty if room is held, or none are expected.
	Note string
	// Expected is how many further pods have a seat and do not exist yet. SeatsUntil is when the seats
	// are given back, if that is known.
	Expected   int
	SeatsUntil time.Time
}

// withoutNode comes before the reason of further pods in the message of Scheduled.
const withoutNode = " without a node: "

// Scheduled returns the status of a group with nodes. Its message lists at most 8 nodes.
func Scheduled(p Placement) GroupStatus {
	const most = 8
	pods := 0
	for _, n := range p.Nodes {
		pods += n
	}
	names := slices.Sorted(maps.Keys(p.Nodes))
	parts := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		parts = append(parts, fmt.Sprintf("%s: %d", name, p.Nodes[name]))
	}
	if len(names) > most {
		parts = append(parts, "and "+reason.Plural(len(names)-most, "more node"))
	}
	message := fmt.Sprintf("%s on %s (%s)", reason.Plural(pods, "pod"), reason.Plural(len(names), "node"), strings.Join(parts, ", "))
	if p.Waiting > 0 {
		are := "are"
		if p.Waiting == 1 {
			are = "is"
		}
		message += fmt.Sprintf("; %s %s%s%s: %s", reason.Plural(p.Waiting, "more pod"), are, withoutNode, p.Reason, p.Message)
	}
	if p.Note != "" {
		message += "; " + p.Note
	}
	if p.Expected == 0 {
		return GroupStatus{Status: metav1.ConditionTrue, Reason: reason.Placed, Message: message}
	}
	expecting := fmt.Sprintf("%d of %d bound, %d expected", pods, pods+p.Expected, p.Expected)
	if !p.SeatsUntil.IsZero() {
		expecting += ", seats until " + p.SeatsUntil.UTC().Format("15:04Z")
	}
	return GroupStatus{Status: metav1.ConditionTrue, Reason: reason.Expecting, Message: expecting + ": " + message}
}

// promisedFrom matches the beginning of the message of a group that is promised room.
var promisedFrom = regexp.MustCompile(`^promised \d+ nodes? from (\S+Z)`)

// PromisedFrom returns from when a group is promised room that waits with a message, which was written at a time. It returns
// zero if the group is promised none.
func PromisedFrom(message string, written time.Time) time.Time {
	found := promisedFrom.FindStringSubmatch(message)
	if found == nil {
		return time.Time{}
	}
	at, err := reason.ParseTime(found[1], written)
	if err != nil {
		return time.Time{}
	}
	return at
}

// WhyWithoutNodes returns why further pods of a group with nodes have none, as the condition Scheduled of its
// PodGroup says. Both results are empty if the condition does not speak of such pods.
func WhyWithoutNodes(pg *scheduling.PodGroup) (why, message string) {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return "", ""
	}
	_, text, _ := strings.Cut(c.Message, withoutNode)
	why, message, _ = strings.Cut(text, ": ")
	return why, message
}

// PlacedPods returns how many pods had nodes when the condition Scheduled of a
// PodGroup was written. It returns 0 if the condition is not True with reason Placed or Expecting.
func PlacedPods(pg *scheduling.PodGroup) int {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason.Placed && c.Reason != reason.Expecting {
		return 0
	}
	pods, _, _ := strings.Cut(c.Message, " ")
	n, err := strconv.Atoi(pods)
	if err != nil {
		return 0
	}
	return n
}

// WholeNodes reads the condition WholeNodes of a PodGroup. whole is whether it is
// True, known is whether there is one, and since is when its status last changed.
func WholeNodes(pg *scheduling.PodGroup) (whole, known bool, since time.Time) {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionWholeNodes)
	if c == nil {
		return false, false, time.Time{}
	}
	return c.Status == metav1.ConditionTrue, true, c.LastTransitionTime.Time
}

// WaitsSince returns since when a group that waits for room has not been scheduled.
// It returns zero if the reason of the condition Scheduled ends the waiting time (see
// KeepsWaitingTime of package reason). The time may begin with another reason, such
// as missing pods, because the condition does not show when its reason changed.
func WaitsSince(pg *scheduling.PodGroup) time.Time {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionFalse || !reason.PropertiesOf(c.Reason).KeepsWaitingTime {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// groupStatusOf returns the status that the conditions of a PodGroup were written
// from, without the incarnation. c is the condition Scheduled.
func groupStatusOf(pg *scheduling.PodGroup, c *metav1.Condition) GroupStatus {
	n := GroupStatus{Status: c.Status, Reason: c.Reason, Message: c.Message}
	if w := meta.FindStatusCondition(pg.Status.Conditions, ConditionWholeNodes); w != nil {
		n.exclusive = w.Status == metav1.ConditionTrue
		if annotation, ok := strings.CutPrefix(w.Message, "annotation "); ok {
			n.lateAnnotation, _, _ = strings.Cut(annotation, " ")
		}
	}
	return n
}

// wholeNodesCondition returns the condition WholeNodes, or a zero Condition if
// there is nothing to write. before is the incarnation that the old condition
// was written for. The new condition keeps the time of the old one if the
// status and the incarnation are the same: another incarnation has other pods.
func (n GroupStatus) wholeNodesCondition(pg *scheduling.PodGroup, before uint64) metav1.Condition {
	c := metav1.Condition{Type: ConditionWholeNodes, ObservedGeneration: pg.Generation, LastTransitionTime: metav1.Now()}
	switch {
	case n.exclusive:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reason.Matched, "the group's nodes are its own until its pods end"
	case n.lateAnnotation != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason.AskedTooLate,
			fmt.Sprintf("annotation %s was set after the match: the group shares its nodes until it is placed again", n.lateAnnotation)
	default:
		return metav1.Condition{}
	}
	if old := meta.FindStatusCondition(pg.Status.Conditions, ConditionWholeNodes); old != nil && old.Status == c.Status && n.incarnation == before {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}
