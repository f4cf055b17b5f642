package invariants

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A grant is a job that was given room, and what its queue then had.
type grant struct {
	job fluxJobFact
	seen
	// running and inNamespace are the numbers of jobs of the queue that had room then, and requests what they asked for. The job
	// itself counts.
	running, inNamespace int64
	requests             amounts
}

// grantOf counts what a queue has when a job is given room. FluxJobs are delivered in the order of their versions.
func (j *judge) grantOf(f fluxJobFact, s seen) grant {
	g := grant{job: f, seen: s, requests: amounts{}}
	for _, other := range j.jobs {
		if other.queue != f.queue || !other.holds() {
			continue
		}
		g.running++
		if other.key.Namespace == f.key.Namespace {
			g.inNamespace++
		}
		g.requests.add(other.asks)
	}
	return g
}

// judgeGrants judges whether the limits of the queues were kept. A limit counts that Fluence has known for judgeAfter, without
// excused time: what it has given before may be written so late, and later still if the API server was away. A job that exceeds a limit because the limit was lowered runs on.
func (j *judge) judgeGrants(now time.Time) {
	j.grants = slices.DeleteFunc(j.grants, func(g grant) bool {
		if now.Sub(g.at) < judgeAfter {
			return false
		}
		states := j.limitsAt(g.job.queue, g.version, j.excuses.clear(earlier(g.at, g.job.room.at), judgeAfter))
		unknown := len(states) == 0 || slices.ContainsFunc(states, func(s queueState) bool { return s.gone })
		// A scheduler that does not hear may not know that another one leads.
		if unknown || j.excuses.deaf(g.at.Add(-grace), g.at) {
			j.stats.AdmittedExcused++
			return true
		}
		j.stats.Admitted++
		if over := g.over(loosest(states)); over != "" {
			j.report(RuleOverLimit, g.job.key, g.at, "it was given room in queue %s, which is over a limit of the queue by that: %s", g.job.queue, over)
		}
		return true
	})
}

// loosest returns the limits that bound least among those of some states.
func loosest(states []queueState) queueFact {
	all := states[0].queueFact
	all.requests = maps.Clone(all.requests)
	for _, s := range states[1:] {
		all.running, all.inNamespace = looser(all.running, s.running), looser(all.inNamespace, s.inNamespace)
		for name, most := range all.requests {
			if other, is := s.requests[name]; is {
				all.requests[name] = max(most, other)
			} else {
				delete(all.requests, name)
			}
		}
	}
	return all
}

func looser(a, b int64) int64 {
	if a == noLimit || b == noLimit {
		return noLimit
	}
	return max(a, b)
}

// over returns which limit is exceeded, with numbers. It returns "" if none is.
func (g grant) over(l queueFact) string {
	switch {
	case l.running != noLimit && g.running > l.running:
		return fmt.Sprintf("running: %d of %d", g.running, l.running)
	case l.inNamespace != noLimit && g.inNamespace > l.inNamespace:
		return fmt.Sprintf("perNamespace.running: %d of %d in namespace %s", g.inNamespace, l.inNamespace, g.job.key.Namespace)
	}
	for _, name := range slices.Sorted(maps.Keys(l.requests)) {
		if g.job.asks[name] > 0 && g.requests[name] > l.requests[name] {
			return fmt.Sprintf("requests: %d of %d of %s", g.requests[name], l.requests[name], name)
		}
	}
	return ""
}
