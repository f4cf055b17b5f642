package invariants

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A fluxJobFact is what the rules need to know of a FluxJob.
type fluxJobFact struct {
	key   types.NamespacedName
	uid   types.UID
	queue string
	// workload is the UID of the Job or the pod.
	workload types.UID
	phase    string
	// waits is why it waits: the reason of its condition Admitted. It is empty if it does not.
	waits string
	// asks is what all its pods request together.
	asks amounts
	// room is what it was given. It is nil if it has none.
	room *roomFact
	// started is when its workload was let go, in whole seconds. It is zero if that was not told.
	started time.Time
	// ran reports whether its pods were on nodes before it was in the queue. Then nobody gave it its room.
	ran bool
}

// A roomFact is an allocation of a FluxJob. Its end is zero if it is not known.
type roomFact struct {
	attempt int64
	at, end time.Time
}

// holds reports whether the job counts in the limits of its queue.
func (f *fluxJobFact) holds() bool { return f.room != nil && f.phase != phaseFinished }

// admitted reports whether pods of the job may start.
func (f *fluxJobFact) admitted() bool {
	return f.room != nil && (f.phase == phaseReady || f.phase == phaseRunning)
}

// A queueFact is what the rules need to know of a Queue: its limits. A number below 0 is none.
type queueFact struct {
	name                 string
	running, inNamespace int64
	requests             amounts
}

// noLimit is in a queueFact where there is no limit.
const noLimit = -1

// queues are what is known of Queues and FluxJobs. A workload may have several FluxJobs, one after the other.
type queues struct {
	jobs map[types.UID]*queuedJob
	// ways are the states of the FluxJobs of a workload, by its UID.
	ways map[types.UID][]jobState
	// limits are the states of a Queue, by its name.
	limits   map[string][]queueState
	grants   []grant
	releases []release
}

// A queuedJob is a FluxJob that exists.
type queuedJob struct {
	fluxJobFact
	// endSeen is since when it has had this end.
	endSeen time.Time
	// overdueTold reports whether it is reported that its pods run after it.
	overdueTold bool
}

// A jobState is a FluxJob from one version until the next state.
type jobState struct {
	version uint64
	at      time.Time
	gone    bool
	fluxJobFact
}

// A queueState is a Queue from one version until the next state.
type queueState struct {
	version uint64
	at      time.Time
	gone    bool
	queueFact
}

func newQueues() queues {
	return queues{jobs: map[types.UID]*queuedJob{}, ways: map[types.UID][]jobState{}, limits: map[string][]queueState{}}
}

// seeFluxJob records a FluxJob, or its end.
func (j *judge) seeFluxJob(f fluxJobFact, s seen) {
	j.stats.Facts++
	before := j.jobs[f.uid]
	if s.gone {
		if before == nil {
			return
		}
		f = before.fluxJobFact
		delete(j.jobs, f.uid)
	} else {
		now := &queuedJob{fluxJobFact: f, endSeen: s.at}
		if before != nil && before.endsAs(&f) {
			now.endSeen, now.overdueTold = before.endSeen, before.overdueTold
		}
		j.jobs[f.uid] = now
		if j.begun && !s.listed && f.holds() && !f.ran && (before == nil || !before.holds() || before.room.attempt != f.room.attempt) {
			j.grants = append(j.grants, j.grantOf(f, s))
		}
	}
	st := jobState{version: s.version, at: s.at, gone: s.gone, fluxJobFact: f}
	if !j.begun {
		st.version, st.at = 0, time.Time{}
	}
	j.ways[f.workload] = append(j.ways[f.workload], st)
}

// endsAs reports whether the pods of two states of a FluxJob have to end at the same time.
func (f *fluxJobFact) endsAs(other *fluxJobFact) bool {
	if f.room == nil || other.room == nil {
		return f.room == other.room
	}
	return *f.room == *other.room && f.started.Equal(other.started)
}

// lostFluxJob records the end of a FluxJob that is missing from a new list.
func (j *judge) lostFluxJob(uid types.UID, s seen) {
	s.gone = true
	j.seeFluxJob(fluxJobFact{uid: uid}, s)
}

// seeQueue records a Queue, or its end.
func (j *judge) seeQueue(f queueFact, s seen) {
	j.stats.Facts++
	st := queueState{version: s.version, at: s.at, gone: s.gone, queueFact: f}
	if !j.begun {
		st.version, st.at = 0, time.Time{}
	}
	j.limits[f.name] = append(j.limits[f.name], st)
}

// clean forgets what was overtaken before a moment.
func (q *queues) clean(old time.Time) {
	for uid, way := range q.ways {
		for len(way) > 1 && way[1].at.Before(old) {
			way = way[1:]
		}
		if q.ways[uid] = slices.Clone(way); len(way) == 1 && way[0].gone && way[0].at.Before(old) {
			delete(q.ways, uid)
		}
	}
	for name, states := range q.limits {
		for len(states) > 1 && states[1].at.Before(old) {
			states = states[1:]
		}
		q.limits[name] = slices.Clone(states)
	}
}

// wayAt returns the states that the FluxJob of a workload may have had at a version in Fluence's eyes: the last
// one delivered before the horizon, and each later one. None means that there was no FluxJob.
func (q *queues) wayAt(workload types.UID, version uint64, horizon time.Time) (found []jobState) {
	for _, s := range q.ways[workload] {
		switch {
		case s.version >= version:
		case !s.at.After(horizon):
			found = []jobState{s}
		default:
			found = append(found, s)
		}
	}
	return found
}

// limitsAt returns the states of a Queue in the same way.
func (q *queues) limitsAt(name string, version uint64, horizon time.Time) (found []queueState) {
	for _, s := range q.limits[name] {
		switch {
		case s.version >= version:
		case !s.at.After(horizon):
			found = []queueState{s}
		default:
			found = append(found, s)
		}
	}
	return found
}

// workloadOf returns the UID of what a pod is of as queues see it: what controls the pod, or the pod itself.
func (p *podFact) workloadOf() types.UID {
	if p.controller != "" {
		return p.controller
	}
	return p.uid
}

// servingBy returns the pods on nodes that are about to run on, by the workload that they are of.
func (j *judge) servingBy() map[types.UID][]*pod {
	by := map[types.UID][]*pod{}
	for _, p := range j.pods {
		if p.gone.IsZero() && p.serving() {
			by[p.workloadOf()] = append(by[p.workloadOf()], p)
		}
	}
	return by
}

// namesOf returns the names of pods, in order.
func namesOf(pods []*pod) string {
	names := map[string]bool{}
	for _, p := range pods {
		names[p.key.Name+" on "+p.node] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
