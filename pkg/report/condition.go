package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// ConditionScheduled is the PodGroup condition that the scheduler owns. It is
// True with reason Placed when the group's pods have nodes, and else False with
// the one reason that stands in the way.
const ConditionScheduled = "Scheduled"

// ConditionWholeNodes is the PodGroup condition, the scheduler's own, that is True where the
// nodes of a group that runs are its own. It is False where annotations ask for that which came
// after the match, and it is not there where nothing asks.
const ConditionWholeNodes = "WholeNodes"

// GroupStatus is what there is to say of a group: the condition Scheduled.
type GroupStatus struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	// exclusive says that the group's nodes are its own, and lateAnnotation which annotation asked for that
	// too late.
	exclusive      bool
	lateAnnotation string
	// incarnation tells apart the incarnations of a group of which that is said.
	incarnation uint64
}

// hasWholeNodesCondition says that there is something to say of whose the nodes are.
func (n GroupStatus) hasWholeNodesCondition() bool { return n.exclusive || n.lateAnnotation != "" }

// NotScheduled says what stands in the way of a group.
func NotScheduled(reason, message string) GroupStatus {
	return GroupStatus{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// A Placement says where the pods of a group are: how many by node. Waiting more cannot follow, and
// Reason and Message say why.
type Placement struct {
	Nodes           map[string]int
	Waiting         int
	Reason, Message string
}

// Scheduled says where the group's pods are, of many nodes the first few.
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
		parts = append(parts, fmt.Sprintf("and %d more", len(names)-most))
	}
	message := fmt.Sprintf("%s on %s (%s)", reason.Plural(pods, "pod"), reason.Plural(len(names), "node"), strings.Join(parts, ", "))
	if p.Waiting > 0 {
		message += fmt.Sprintf("; %d more cannot follow: %s: %s", p.Waiting, p.Reason, p.Message)
	}
	return GroupStatus{Status: metav1.ConditionTrue, Reason: reason.Placed, Message: message}
}

// PlacedPods reads how many pods had nodes when a PodGroup was last told that they have; 0 if what it was
// told last is something else.
func PlacedPods(pg *scheduling.PodGroup) int {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason.Placed {
		return 0
	}
	pods, _, _ := strings.Cut(c.Message, " ")
	n, err := strconv.Atoi(pods)
	if err != nil {
		return 0
	}
	return n
}

// WholeNodes reads what a PodGroup says of whose its pods' nodes are, and since when: whole where they
// are its own, and known where it says anything.
func WholeNodes(pg *scheduling.PodGroup) (whole, known bool, since time.Time) {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionWholeNodes)
	if c == nil {
		return false, false, time.Time{}
	}
	return c.Status == metav1.ConditionTrue, true, c.LastTransitionTime.Time
}

// WaitsSince reads since when a group that waits for room has not been scheduled; zero if it waits for
// something that ends its time. That it had another reason at first, such as that pods were missing,
// is not to be seen there.
func WaitsSince(pg *scheduling.PodGroup) time.Time {
	c := meta.FindStatusCondition(pg.Status.Conditions, ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionFalse || !reason.PropertiesOf(c.Reason).KeepsWaitingTime {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// groupStatusOf are those that a condition told, and the one of whole nodes beside it.
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

// wholeCondition is what is told of a placement's nodes; its type is empty if that is nothing. It
// has the time of the condition before, if that was told of the same life of the group: pods that
// were made since are not those that it is told of.
func (n GroupStatus) wholeCondition(pg *scheduling.PodGroup, before uint64) metav1.Condition {
	c := metav1.Condition{Type: ConditionWholeNodes, ObservedGeneration: pg.Generation, LastTransitionTime: metav1.Now()}
	switch {
	case n.exclusive:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reason.Matched, "the group's nodes are its own until its pods end"
	case n.lateAnnotation != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason.AskedTooLate,
			fmt.Sprintf("annotation %s came after the match: the group shares its nodes until it starts anew", n.lateAnnotation)
	default:
		return metav1.Condition{}
	}
	if old := meta.FindStatusCondition(pg.Status.Conditions, ConditionWholeNodes); old != nil && old.Status == c.Status && n.incarnation == before {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}
