package admission

import (
	"fmt"
	"strconv"
	"time"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// describe returns the reason and the message of the condition Admitted of a job that waits. The message has no place in the
// queue: very many would have to be written again whenever the first job starts. The CLI tells the place. why is why its promise has
// moved, or why its pods were refused.
func describe(s queue.State, name string, q *jobQueue, why string, now time.Time) (string, string) {
	switch s.Reason {
	case queue.Held:
		return v1alpha1.ReasonHeld, "spec.held is true: it waits until somebody releases it"
	case queue.Unplaceable:
		text := fmt.Sprintf("its pods could not take the nodes of %d allocations; it asks again when its FluxJob is edited, or held and released", maxRefusals)
		if why != "" {
			text += ": " + why
		}
		return v1alpha1.ReasonUnplaceable, translate.Shorten(text)
	case queue.NoQueue:
		return v1alpha1.ReasonNoQueue, fmt.Sprintf("there is no Queue %s", name)
	case queue.QueueStopped:
		if q != nil && q.reason != "" {
			return v1alpha1.ReasonQueueStopped, translate.Shorten(fmt.Sprintf("Queue %s cannot start jobs: %s", name, q.message))
		}
		return v1alpha1.ReasonQueueStopped, fmt.Sprintf("Queue %s starts no jobs: its spec.started is false", name)
	case queue.NeverFits:
		return v1alpha1.ReasonNeverFits, s.Message
	case queue.NodesDown:
		return v1alpha1.ReasonNodesDown, "it would fit if nodes that are down or cordoned came back: " + s.Message
	case queue.NodesExcluded:
		return v1alpha1.ReasonUnplaceable, "it would fit only with nodes on which the scheduler's filters have refused its pods: " + s.Message
	case queue.LimitReached:
		return v1alpha1.ReasonLimitReached, limitReached(s.Limit, name)
	case queue.HasPromise:
		text := fmt.Sprintf("promised %s from %s", reason.Plural(s.Promise.Nodes, "node"), reason.Time(s.Promise.From, now))
		if why != "" {
			text += ", later than before: " + why
		}
		if s.Message != "" {
			text += "; " + s.Message
		}
		return v1alpha1.ReasonPromised, translate.Shorten(text)
	case queue.NoRoom:
		if s.Message == "" {
			return v1alpha1.ReasonNoRoom, "a job before it that asks for the same was refused for room"
		}
		return v1alpha1.ReasonNoRoom, s.Message
	case queue.NoAnswer:
		return v1alpha1.ReasonNoMatcher, "the matcher did not answer; it is asked again"
	default:
		return v1alpha1.ReasonNotItsTurn, fmt.Sprintf("other jobs of Queue %s come before it", name)
	}
}

// limitReached says which limit of a queue keeps a job.
func limitReached(l queue.LimitState, name string) string {
	field, count := "spec.limits."+l.Name, func(n int64) string { return strconv.FormatInt(n, 10) }
	if l.Name == queue.LimitRequests {
		field += "." + l.Resource
		count = func(n int64) string { return quantityOf(l.Resource, n) }
	}
	text := fmt.Sprintf("%s of Queue %s is %s: %s used", field, name, count(l.Max), isOrAre(l.Used, count))
	if l.Promised > 0 {
		text += fmt.Sprintf(", %s kept for the job that is promised room", isOrAre(l.Promised, count))
	}
	return text + fmt.Sprintf(", and it needs %s", count(l.Wanted))
}

// isOrAre returns an amount with its verb.
func isOrAre(n int64, count func(int64) string) string {
	if n == 1 {
		return count(n) + " is"
	}
	return count(n) + " are"
}

// admittedMessage says what a job was given.
func admittedMessage(r *room, now time.Time) string {
	text := fmt.Sprintf("room for %s on %s", reason.Plural(len(r.slots), "pod"), reason.Plural(countNodes(r.slots), "node"))
	if !r.end.IsZero() {
		text += ", until " + reason.Time(r.end, now)
	}
	return text
}
