package cli

import (
	"fmt"
	"io"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/simulate"
)

// maxVictims is how many victims the text shows.
const maxVictims = 20

// writeVictims writes a decision on a group that would start after the eviction of others. Names need not be
// hidden: without the right to read all pods and PodGroups there is no decision.
func (o *options) writeVictims(w io.Writer, when string, d simulate.Decision) {
	fmt.Fprintf(w, "  %s: %s\n", when, o.paint(yellow, d.Message))
	for _, v := range d.Evicts[:min(len(d.Evicts), maxVictims)] {
		fmt.Fprintf(w, "    %s\n", printable(victimText(v)))
	}
	if more := d.Evicts[min(len(d.Evicts), maxVictims):]; len(more) > 0 {
		fmt.Fprintf(w, "    and %d more, with priorities up to %d: -o json shows all\n", len(more), highest(more))
	}
}

func highest(victims []simulate.Victim) int32 {
	most := victims[0].Priority
	for _, v := range victims {
		most = max(most, v.Priority)
	}
	return most
}

// victimText says what would become of a victim.
func victimText(v simulate.Victim) string {
	text := fmt.Sprintf("group %s/%s (%s, priority %d): ", v.Namespace, printableName(v.Name), reason.Plural(len(v.Pods), "pod"), v.Priority)
	switch v.Kind {
	case "Pod":
		text = fmt.Sprintf("pod %s/%s (priority %d): ", v.Namespace, printableName(v.Name), v.Priority)
	case nativeKind:
		text = nativeKind + text[len("group"):]
	}
	switch {
	case v.How == simulate.Suspended:
		text += fmt.Sprintf("%s is suspended, and resumed when its pods have gone", printableName(v.Owner))
	case v.ComesBack:
		text += "deleted, and made again"
	default:
		text += "deleted, and may not be made again"
	}
	if v.Protected > 0 {
		text += fmt.Sprintf("; a PodDisruptionBudget protects %s", reason.Plural(v.Protected, "pod"))
	}
	return text
}
