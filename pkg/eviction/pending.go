package eviction

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/preemption"
)

// A Pending is a victim that is evicted and has not gone yet, and for whom.
type Pending struct {
	For preemption.Preemptor
	// Accepted is when this process has accepted the plan, or has found the mark.
	Accepted time.Time
	Progress
}

// Pending returns the victims of all plans that have not gone, in the order of the plans. Victims that were not
// touched when their plan was canceled are left out.
func (e *Evictor) Pending() []Pending {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Pending
	for _, p := range e.order {
		for _, v := range p.victims {
			if v.isPending(p) {
				all = append(all, Pending{p.preemptor, p.accepted, v.Progress})
			}
		}
	}
	return all
}

// IsVictim reports whether a pod belongs to a victim that has not gone.
func (e *Evictor) IsVictim(pod types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.order {
		for _, v := range p.victims {
			if v.isPending(p) && slices.ContainsFunc(v.Pods, func(o preemption.VictimPod) bool { return o.UID == pod }) {
				return true
			}
		}
	}
	return false
}

// isPending reports whether the victim is going to end, and has not gone. The caller holds mu.
func (v *victim) isPending(of *plan) bool {
	return v.State == Ending || (!of.canceled || v.begun) && (v.State == Planned || v.State == Marked)
}
