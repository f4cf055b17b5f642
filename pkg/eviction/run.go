package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/preemption"
)

// A plan is a plan that is carried out.
type plan struct {
	preemptor preemption.Preemptor
	victims   []*victim
	withdrawn bool
	accepted  time.Time
}

// A victim is a victim of a plan that is carried out.
type victim struct {
	Progress
	mark Mark
}

func newPlan(p preemption.Preemptor, victims []preemption.Victim, now time.Time) *plan {
	made := &plan{preemptor: p, accepted: now}
	for _, v := range victims {
		made.victims = append(made.victims, &victim{Progress: Progress{Victim: v, State: Planned}, mark: markOf(p, v)})
	}
	return made
}

// add adds a plan. The caller holds mu.
func (e *Evictor) add(p *plan) {
	e.plans[p.preemptor.UID] = p
	e.order = append(e.order, p)
}

// takesAny reports whether one of these victims is a victim of another plan. The caller holds mu.
func (e *Evictor) takesAny(victims []preemption.Victim) bool {
	taken := map[types.UID]bool{}
	for _, p := range e.order {
		for _, v := range p.victims {
			taken[v.UID] = true
		}
	}
	for _, v := range victims {
		if taken[v.UID] {
			return true
		}
	}
	return false
}
