package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// maxBlockers is the maximum number of jobs that bestBlocker tries.
const maxBlockers = 64

// bestBlocker returns the job whose end would make room for the most slots of the shape that
// failed, in the domain that came closest. It returns nil if the end of no single job would help,
// or if the match has no steps left. Permanent slots do not end. If there are too many jobs, only
// the jobs with the most slots there are tried.
func (p *storeBackend) bestBlocker(l *solver.Layout, v *store.WindowView, failed *solver.Shortfall) *match.Blocker {
	if l.IsExhausted() {
		return nil
	}
	held := make(map[match.JobID][]*store.Slot)
	for _, at := range failed.Nodes() {
		if !l.Charge(hostSteps) {
			return nil
		}
		for s := range p.store.Slots(at) {
			if !l.Charge(solver.SortSteps) {
				return nil
			}
			if p.store.Job(s.JobID()) != nil && !s.IsPermanent() {
				held[s.JobID()] = append(held[s.JobID()], s)
			}
		}
	}
	jobs := slices.SortedFunc(maps.Keys(held), func(x, y match.JobID) int {
		return cmp.Or(cmp.Compare(len(held[y]), len(held[x])), cmp.Compare(x, y))
	})
	if len(jobs) > maxBlockers {
		jobs = jobs[:maxBlockers]
	}
	slices.Sort(jobs)
	survey := l.Survey()
	found := survey.RoomInClosest(failed)
	var best *match.Blocker
	for _, id := range jobs {
		if !l.Charge(2 * v.StepsToChange(held[id])) {
			return nil
		}
		v.Without(held[id], func() {
			more := survey.RoomInClosest(failed) - found
			if !l.IsExhausted() && more > 0 && (best == nil || more > best.MoreSlots) {
				best = &match.Blocker{Job: id, MoreSlots: more}
			}
		})
	}
	if l.IsExhausted() {
		return nil
	}
	return best
}
