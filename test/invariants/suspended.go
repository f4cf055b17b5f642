package invariants

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// resumedWithin is how long after its last pod has gone a Job must be resumed that was suspended for another group.
const resumedWithin = time.Minute

// suspensions answers how long Jobs have been suspended for other groups although their pods have gone.
type suspensions struct {
	// since is when a Job was first seen so. It is zero if the Job is reported already.
	since map[types.UID]time.Time
}

// judgeSuspended judges whether the Jobs are resumed that were suspended for other groups. A new controller begins anew. A Job of a queue
// waits for its turn again.
func (j *judge) judgeSuspended(now time.Time) {
	onNodes := map[types.UID]bool{}
	for _, p := range j.pods {
		if p.node != "" && p.gone.IsZero() && !p.ended() {
			onNodes[p.controller] = true
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(j.owners)) {
		job := j.owners[uid].job
		if job == nil || !job.evicted || job.queue != "" || onNodes[uid] {
			delete(j.suspensions.since, uid)
			continue
		}
		since, known := j.suspensions.since[uid]
		switch {
		case !known:
			j.suspensions.since[uid] = now
		case !since.IsZero() && j.excuses.elapsed(later(since, j.turned), now) > resumedWithin:
			j.suspensions.since[uid] = time.Time{}
			j.report(RuleLeftSuspended, job.key, now, "it was suspended for another group, and is not resumed %.1fs after its last pod has gone", now.Sub(since).Seconds())
		}
	}
}
