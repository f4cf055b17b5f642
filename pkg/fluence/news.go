package fluence

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// ConditionScheduled is the PodGroup condition that the scheduler owns. It is
// True with reason Placed when the group's pods have nodes, and else False with
// the one reason that stands in the way.
const ConditionScheduled = "Scheduled"

// news is what there is to say of a group.
type news struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	// whole says that the group's nodes are its own, and inVain which annotation asked for that
	// too late.
	whole  bool
	inVain string
	// life tells apart the incarnations of a group of which that is said.
	life uint64
}

// tellsOfNodes says that there is something to say of whose the nodes are.
func (n news) tellsOfNodes() bool { return n.whole || n.inVain != "" }

func notScheduled(reason, message string) news {
	return news{status: metav1.ConditionFalse, reason: reason, message: message}
}

// scheduled says where the group's pods are, of many nodes the first few.
func scheduled(p gang.Placement) news {
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
	message := fmt.Sprintf("%s on %s (%s)", reason.Count(pods, "pod"), reason.Count(len(names), "node"), strings.Join(parts, ", "))
	if p.Waiting > 0 {
		message += fmt.Sprintf("; %d more cannot follow: %s: %s", p.Waiting, p.Reason, p.Message)
	}
	return news{status: metav1.ConditionTrue, reason: reason.Placed, message: message}
}

// placedRecord is how many pods had nodes when scheduled was last told of a PodGroup; 0 if what was
// told last is something else.
func placedRecord(pg *scheduling.PodGroup) int {
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
