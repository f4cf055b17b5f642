package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

const (
	// maxBlockers is the maximum number of jobs that bestBlockerInDomain tries.
	maxBlockers = 64
	// maxBlockersAnywhere, maxBlockersFilled and maxBlockerSlots bound bestBlockerAnywhere, so that it takes
	// little time beside the match itself. It tries so many jobs, or so many if it has to lay out
	// the request for each. It looks at nodes until it has seen so many slots.
	maxBlockersAnywhere, maxBlockersFilled, maxBlockerSlots = 8, 4, 32
	// maxBlockerSize is the maximum number of slots of a job whose slots elsewhere count too. A job with more
	// slots is left out if some are elsewhere, because its number would be wrong.
	maxBlockerSize = 256
)

// bestBlocker returns the job whose end would make room for the most slots of the shape that
// failed. It returns nil if the end of no single job would help, or if the match has no steps left.
// Permanent slots do not end.
func (p *storeBackend) bestBlocker(l *solver.Layout, v *store.WindowView, failed *solver.Shortfall, no *match.Reason) *match.Blocker {
	var best *match.Blocker
	switch {
	case l.IsExhausted():
	case failed.Nodes() != nil:
		best = p.bestBlockerInDomain(l, v, failed)
	case failed.Level == "" && no.Code == match.TooFew:
		best = p.bestBlockerAnywhere(l, v, failed, no.Wanted-no.Found)
	}
	if l.IsExhausted() {
		return nil
	}
	return best
}

// bestBlockerInDomain looks only at the domain that came closest. If there are too many jobs, only the jobs
// with the most slots there are tried.
func (p *storeBackend) bestBlockerInDomain(l *solver.Layout, v *store.WindowView, failed *solver.Shortfall) *match.Blocker {
	held := make(map[match.JobID][]*store.Slot)
	for _, at := range failed.Nodes() {
		if _, ok := p.addHeld(l, at, held); !ok {
			return nil
		}
	}
	jobs := mostSlots(held, maxBlockers)
	slices.Sort(jobs)
	survey := l.Survey()
	found := survey.RoomInClosest(failed)
	var best *match.Blocker
	for _, id := range jobs {
		if !l.Charge(2 * v.StepsToChange(held[id])) {
			return nil
		}
		v.Without(held[id], func() {
			best = better(best, id, survey.RoomInClosest(failed)-found)
		})
	}
	return best
}

// bestBlockerAnywhere is for a request without a domain that came closest. It looks at the first nodes, in
// the order of the request, that could hold a slot if they were empty, and tries the jobs with the most
// slots there. So in a large cluster another job may help more. missing is the number of slots that lack room.
func (p *storeBackend) bestBlockerAnywhere(l *solver.Layout, v *store.WindowView, failed *solver.Shortfall, missing int64) *match.Blocker {
	survey, held, seen := l.Survey(), make(map[match.JobID][]*store.Slot), 0
	for i, at := range p.builder.problem.Order {
		if seen >= maxBlockerSlots {
			break
		}
		if !survey.CouldHold(failed.Shape, i) {
			continue
		}
		n, ok := p.addHeld(l, at, held)
		if !ok {
			return nil
		}
		seen += n
	}
	alone := survey.IsAlone(failed.Shape)
	most, found := maxBlockersAnywhere, int64(0)
	if !alone {
		most, found = maxBlockersFilled, survey.RoomInClosest(failed)
	}
	more := func(slots []*store.Slot) (n int64, ok bool) {
		if !l.Charge(2 * v.StepsToChange(slots)) {
			return 0, false
		}
		if !alone {
			v.Without(slots, func() { n = survey.RoomInClosest(failed) - found })
			return n, true
		}
		at := p.positions(slots)
		found := survey.RoomOn(failed.Shape, at)
		v.Without(slots, func() { n = min(missing, survey.RoomOn(failed.Shape, at)-found) })
		return n, true
	}
	var best *match.Blocker
	for _, id := range mostSlots(held, most) {
		// Often the slots that were seen are enough, and the others of a large job need not be looked at.
		n, ok := more(held[id])
		if !ok {
			return nil
		}
		if n < missing {
			slots, all := p.slotsThatEnd(l, id, held[id])
			if !all {
				continue
			}
			if len(slots) > len(held[id]) {
				if n, ok = more(slots); !ok {
					return nil
				}
			}
		}
		if best = better(best, id, n); n >= missing {
			break
		}
	}
	return best
}

// slotsThatEnd returns all slots of a job that end with it. seen are those of them that are known. It
// returns false if there are too many, or too few steps left.
func (p *storeBackend) slotsThatEnd(l *solver.Layout, id match.JobID, seen []*store.Slot) ([]*store.Slot, bool) {
	j := p.store.Job(id)
	if len(seen) == j.Size() {
		return seen, true
	}
	if j.Size() > maxBlockerSize || !l.Charge(solver.SortSteps*j.Size()) {
		return nil, false
	}
	return slices.DeleteFunc(j.Slots(), (*store.Slot).IsPermanent), true
}

// addHeld adds the slots on the node at a position that may end to held, by their jobs. It returns the
// number of all slots there. It returns false if there are too few steps left.
func (p *storeBackend) addHeld(l *solver.Layout, at int32, held map[match.JobID][]*store.Slot) (n int, ok bool) {
	if !l.Charge(hostSteps) {
		return n, false
	}
	for s := range p.store.Slots(at) {
		if n++; !l.Charge(solver.SortSteps) {
			return n, false
		}
		if p.store.Job(s.JobID()) != nil && !s.IsPermanent() {
			held[s.JobID()] = append(held[s.JobID()], s)
		}
	}
	return n, true
}

// positions returns the positions of the nodes of slots, without repetitions. It leaves out nodes that the
// graph lacks.
func (p *storeBackend) positions(slots []*store.Slot) []int32 {
	at := make([]int32, 0, len(slots))
	for _, s := range slots {
		if i, there := p.store.Graph().Position(s.NodeName()); there {
			at = append(at, int32(i))
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// mostSlots returns the jobs with the most slots, at most most, these first.
func mostSlots(held map[match.JobID][]*store.Slot, most int) []match.JobID {
	jobs := slices.SortedFunc(maps.Keys(held), func(x, y match.JobID) int {
		return cmp.Or(cmp.Compare(len(held[y]), len(held[x])), cmp.Compare(x, y))
	})
	return jobs[:min(most, len(jobs))]
}

// better returns a blocker for a job if its end makes room for more slots than that of best.
func better(best *match.Blocker, id match.JobID, more int64) *match.Blocker {
	if more > 0 && (best == nil || more > best.MoreSlots) {
		return &match.Blocker{Job: id, MoreSlots: more}
	}
	return best
}
