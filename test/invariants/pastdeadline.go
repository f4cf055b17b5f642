package invariants

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// judgeDeadlines judges whether the pods of jobs in queues have ended. Kubernetes ends them by the deadline that the controller sets,
// which is earlier than the end of the room by the grace of the queue. A new end counts from when it is seen.
func (j *judge) judgeDeadlines(now time.Time) {
	var by map[types.UID][]*pod
	for _, q := range j.jobs {
		if q.room == nil || q.room.end.IsZero() || q.overdueTold {
			continue
		}
		due := later(q.due(), q.endSeen)
		if j.excuses.elapsed(due, now) <= j.cfg.Slack {
			continue
		}
		if by == nil {
			by = j.servingBy()
		}
		pods := slices.DeleteFunc(by[q.workload], func(p *pod) bool { return j.isNodeGone(p.node) })
		if len(pods) == 0 {
			continue
		}
		q.overdueTold = true
		j.report(RulePastDeadline, q.key, now, "its room was to be free from %s, and %.1fs after that (limit %v) its pods still run: %s",
			q.room.end.UTC().Format(time.TimeOnly), now.Sub(due).Seconds(), j.cfg.Slack, namesOf(pods))
	}
}

// due returns when the pods of a job with room must have ended. The time limit counts from when the workload was let go, which may be
// later than when the room was held for it.
func (f *fluxJobFact) due() time.Time {
	if f.started.IsZero() {
		return f.room.end
	}
	return later(f.room.end, f.started.Add(f.room.end.Sub(f.room.at)))
}

// isNodeGone reports whether a node does not exist. Nobody ends the pods of such a node, until they are deleted.
func (l *ledger) isNodeGone(name string) bool {
	b := l.nodes[name]
	return b == nil || len(b.states) == 0 || b.states[len(b.states)-1].gone
}
