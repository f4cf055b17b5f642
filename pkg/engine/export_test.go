package engine

import "github.com/flux-k8s/fluence/pkg/engine/solver"

// SetLockedSteps has matches take so many steps before they go on beside the graph.
func (e *Engine) SetLockedSteps(steps int) { e.work.lockedSteps = steps }

// HoldLong keeps matches from going on beside the graph until release is called.
func (e *Engine) HoldLong() (release func()) {
	e.work.longSem <- struct{}{}
	return func() { <-e.work.longSem }
}

// MaxOverrun is by how many steps a match went at the most beyond what it may take, of the engine
// or beside the graph.
func (e *Engine) MaxOverrun() int { return int(e.work.maxOverrun.Load()) }

// Kept is how many bytes one match leaves to the next at the most in one piece.
func (e *Engine) Kept() int {
	p, ok := e.backend.(*storeBackend)
	if !ok {
		return 0
	}
	return max(p.workspace.Size(), 4*cap(p.binding.hostCells))
}

// The most that one match leaves to the next.
const KeptBytes = solver.KeptBytes

// Slack is how many steps a match may take in small pieces after its work is used up.
const Slack = lockedSteps / 16

// LockedSteps is how many steps a match may take of the engine.
const LockedSteps = lockedSteps

// StepsPerCheck is how many steps go by between two looks at the caller's context.
const StepsPerCheck = solver.StepsPerCheck

// Free says that no call has the engine.
func (e *Engine) Free() bool {
	if !e.mu.TryLock() {
		return false
	}
	e.mu.Unlock()
	return true
}

// LongSteps is how many steps a match may take beside the graph.
const LongSteps = longSteps

// SetLongSteps has matches take so many steps beside the graph at the most.
func (e *Engine) SetLongSteps(steps int) { e.work.longSteps = steps }

// Break has what writes down a job, or a node, panic.
func (e *Engine) Break() {
	if p, ok := e.backend.(*storeBackend); ok {
		p.store = nil
	}
}

// Hold keeps all calls waiting until release is called.
func (e *Engine) Hold() (release func()) {
	e.mu.Lock()
	return e.mu.Unlock
}
