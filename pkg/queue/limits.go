package queue

import "time"

// usage is what counts in the limits of a queue.
type usage struct {
	running    int
	namespaces map[string]int
	requests   map[string]int64
	// limited is set if a lane may be kept from asking by a limit.
	limited bool
}

// add counts a job n times: once, or -1 times when it has ended.
func (u *usage) add(j *job, n int) {
	u.running += n
	if u.namespaces[j.Key.Namespace] += n; u.namespaces[j.Key.Namespace] == 0 {
		delete(u.namespaces, j.Key.Namespace)
	}
	for resource, amount := range j.Requests {
		if u.requests[resource] += int64(n) * amount; u.requests[resource] == 0 {
			delete(u.requests, resource)
		}
	}
}

// overLimit returns the limit that a job would exceed if it started now. What is promised counts as used for those jobs after
// it that would still run when the promise begins.
func (q *queue) overLimit(j *job, now time.Time) (over LimitState, is bool) {
	kept := q.holder
	if kept != nil && (kept == j || j.before(kept) || j.Duration > 0 && !now.Add(j.Duration).After(kept.promise.From)) {
		kept = nil
	}
	if m := q.Limits.Running; m > 0 {
		over = LimitState{Name: LimitRunning, Max: int64(m), Used: int64(q.usage.running), Wanted: 1}
		if kept != nil {
			over.Promised = 1
		}
		if over.isOver() {
			return over, true
		}
	}
	if m := q.Limits.NamespaceRunning; m > 0 {
		over = LimitState{Name: LimitNamespaceRunning, Max: int64(m), Used: int64(q.usage.namespaces[j.Key.Namespace]), Wanted: 1}
		if kept != nil && kept.Key.Namespace == j.Key.Namespace {
			over.Promised = 1
		}
		if over.isOver() {
			return over, true
		}
	}
	for resource, most := range q.Limits.Requests {
		l := LimitState{Name: LimitRequests, Resource: resource, Max: most, Used: q.usage.requests[resource], Wanted: j.Requests[resource]}
		if kept != nil {
			l.Promised = kept.Requests[resource]
		}
		if l.Wanted > 0 && l.isOver() && (!is || resource < over.Resource) {
			over, is = l, true
		}
	}
	return over, is
}

func (l LimitState) isOver() bool { return l.Used+l.Promised+l.Wanted > l.Max }
