package invariants

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A release is a Job that Fluence has let go.
type release struct {
	job types.UID
	key types.NamespacedName
	seen
}

// seeRelease records that a Job was let go. Only Fluence takes its annotation off a Job. What a user resumes has it still, or has never had it.
func (j *judge) seeRelease(before, now *ownerFact, s seen) {
	if before == nil || before.job == nil || now.job == nil || s.listed || now.job.queue == "" {
		return
	}
	if was := before.job; was.idle && was.queued && !now.job.idle && !now.job.queued {
		j.releases = append(j.releases, release{job: now.uid, key: now.job.key, seen: s})
	}
}

// noteStop records when a Job was suspended.
func (f *ownerFact) noteStop(before *ownerFact, s seen) {
	if f.job == nil || before == nil || before.job == nil {
		return
	}
	job := *f.job
	if job.stopped = before.job.stopped; job.idle && !before.job.idle {
		job.stopped = s.at
	}
	f.job = &job
}

// judgeReleases judges whether the Jobs that were let go had room.
func (j *judge) judgeReleases(now time.Time) {
	j.releases = slices.DeleteFunc(j.releases, func(r release) bool {
		if now.Sub(r.at) < judgeAfter {
			return false
		}
		if !j.excuses.deaf(r.at.Add(-grace), r.at) && !j.wasAdmitted(r.job, r.version, r.at) {
			j.report(RuleStartedUnadmitted, r.key, r.at, "the Job was let go, and its FluxJob had no allocation for more than %v", judgeAfter)
		}
		return true
	})
}

// judgeAdmitted judges a bind by Fluence of a pod of a queue.
func (j *judge) judgeAdmitted(b bind, received time.Time) {
	workload := b.pod.workloadOf()
	ways := j.wayAt(workload, b.version, received.Add(-judgeAfter))
	if j.queueOf(b.pod) == "" && (len(ways) == 0 || slices.ContainsFunc(ways, func(s jobState) bool { return s.gone })) {
		return
	}
	j.stats.QueueBinds++
	if !j.wasAdmitted(workload, b.version, received) {
		j.report(RuleStartedUnadmitted, b.pod.key, received, "the pod of a queue was bound to node %s, and its FluxJob had no allocation for more than %v", b.pod.node, judgeAfter)
	}
}

// queueOf returns the queue that the labels of a pod name: of its Job, else its own.
func (j *judge) queueOf(p podFact) string {
	if o := j.owners[p.controller]; o != nil && o.job != nil && o.job.queue != "" {
		return o.job.queue
	}
	return p.labels[queueLabel]
}

// wasAdmitted reports whether the FluxJob of a workload may have had an allocation in Fluence's eyes when a change was made. What
// Fluence began with an allocation may end a moment after it has lost it.
func (j *judge) wasAdmitted(workload types.UID, version uint64, at time.Time) bool {
	return slices.ContainsFunc(j.wayAt(workload, version, j.excuses.clear(at, judgeAfter)), func(s jobState) bool { return !s.gone && s.admitted() })
}
