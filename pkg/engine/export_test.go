package engine

import "github.com/flux-k8s/fluence/pkg/engine/solver"

// SetBrief has matches take so many steps before they go on beside the graph.
func (e *Engine) SetBrief(steps int) { e.work.brief = steps }

// HoldLong keeps matches from going on beside the graph until release is called.
func (e *Engine) HoldLong() (release func()) {
	e.work.long <- struct{}{}
	return func() { <-e.work.long }
}

// Overdrawn is by how many steps a match went at the most beyond what it may take, of the engine
// or beside the graph.
func (e *Engine) Overdrawn() int { return int(e.work.overrun.Load()) }

// Kept is how many bytes one match leaves to the next at the most in one piece.
func (e *Engine) Kept() int {
	p, ok := e.backend.(*pools)
	if !ok {
		return 0
	}
	return max(p.space.Size(), 4*cap(p.bound.inside))
}

// The most that one match leaves to the next.
const KeptRoom = solver.KeptRoom

// Slack is how many steps a match may take in small pieces after its work is used up.
const Slack = briefWork / 16

// BriefWork is how many steps a match may take of the engine.
const BriefWork = briefWork

// StepsPerLook is how many steps go by between two looks at the caller's context.
const StepsPerLook = solver.StepsPerLook

// Free says that no call has the engine.
func (e *Engine) Free() bool {
	if !e.mu.TryLock() {
		return false
	}
	e.mu.Unlock()
	return true
}

// LongWork is how many steps a match may take beside the graph.
const LongWork = longWork

// SetLong has matches take so many steps beside the graph at the most.
func (e *Engine) SetLong(steps int) { e.work.lengthy = steps }

// Break has what writes down a job, or a node, panic.
func (e *Engine) Break() {
	if p, ok := e.backend.(*pools); ok {
		p.store = nil
	}
}

// Hold keeps all calls waiting until release is called.
func (e *Engine) Hold() (release func()) {
	e.mu.Lock()
	return e.mu.Unlock
}
