package eviction

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// A Found is a victim that an earlier process has marked.
type Found struct {
	// Victim has the pods of the victim on nodes that have not ended.
	Victim preemption.Victim
	// Ended is how many pods of the victim have ended on their nodes, and still exist.
	Ended int
	Mark  Mark
}

// Resume takes over the marks that were found when this scheduler began to lead. A victim whose eviction has
// begun is evicted to its end. That is so if a pod of it is being deleted or is gone, or if its owner is suspended for
// this preemptor. Any other mark is taken back, so that the preemptor decides anew. A victim of a plan of this
// process is left out.
func (e *Evictor) Resume(found ...Found) {
	e.mu.Lock()
	defer e.mu.Unlock()
	by := map[types.UID]*plan{}
	for _, f := range found {
		if e.takesAny([]preemption.Victim{f.Victim}) {
			continue
		}
		p := by[f.Mark.For.UID]
		if p == nil {
			p = newPlan(f.Mark.For, nil, e.Now())
			p.canceled, p.resumed = true, true
			by[f.Mark.For.UID] = p
			e.order = append(e.order, p)
		}
		v := &victim{Progress: Progress{Victim: f.Victim, State: Marked}, mark: f.Mark, markSent: true, sent: map[types.UID]bool{}}
		// A pod may be gone before it is seen to be deleted.
		if len(f.Victim.Pods)+f.Ended < f.Mark.Pods && f.Mark.Suspends == "" {
			v.begun = true
		}
		p.victims = append(p.victims, v)
	}
	signal.Send(e.wakeup)
}

// Undecided returns the victims with a mark of an earlier process for this preemptor, of which it is not known yet
// whether their eviction has begun. Until then the preemptor keeps their room: they are no candidates of a plan, so
// others would be evicted in their place, and what has gone already would be taken by others.
func (e *Evictor) Undecided(preemptor types.UID) (all []Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.order {
		for _, v := range p.victims {
			if p.resumed && p.preemptor.UID == preemptor && v.State == Marked && !v.begun {
				all = append(all, v.Progress)
			}
		}
	}
	return all
}
