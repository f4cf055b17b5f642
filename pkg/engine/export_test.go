package engine

import "github.com/flux-k8s/fluence/pkg/engine/solver"

// SetLockedSteps sets the steps that a match has under the lock.
func (e *Engine) SetLockedSteps(steps int) { e.work.lockedSteps = steps }

// HoldUnlockedSearches makes unlocked searches wait until release is called.
func (e *Engine) HoldUnlockedSearches() (release func()) {
	e.work.unlockedSem <- struct{}{}
	return func() { <-e.work.unlockedSem }
}

// MaxOverrun returns the largest number of steps by which a match exceeded its maximum.
func (e *Engine) MaxOverrun() int { return int(e.work.maxOverrun.Load()) }

// Kept returns the size in bytes of the largest memory that one match leaves to the next.
func (e *Engine) Kept() int {
	p, ok := e.backend.(*storeBackend)
	if !ok {
		return 0
	}
	return max(p.workspace.Size(), 4*cap(p.builder.hostCells))
}

// KeptBytes is the maximum of Kept.
const KeptBytes = solver.KeptBytes

// Slack is the number of steps, in small pieces, that a match may take after its steps are used up.
const Slack = lockedSteps / 16

// LockedSteps is the number of steps that a match has under the lock.
const LockedSteps = lockedSteps

// StepsPerCheck is the number of steps between two checks of the caller's context.
const StepsPerCheck = solver.StepsPerCheck

// IsLockFree reports whether no call holds the lock.
func (e *Engine) IsLockFree() bool {
	if !e.mu.TryLock() {
		return false
	}
	e.mu.Unlock()
	return true
}

// UnlockedSteps is the number of steps that a match has for unlocked searches.
const UnlockedSteps = unlockedSteps

// SetUnlockedSteps sets the steps that a match has for unlocked searches.
func (e *Engine) SetUnlockedSteps(steps int) { e.work.unlockedSteps = steps }

// Break makes the next call that uses the store panic.
func (e *Engine) Break() {
	if p, ok := e.backend.(*storeBackend); ok {
		p.store = nil
	}
}

// Hold makes all calls wait until release is called.
func (e *Engine) Hold() (release func()) {
	e.mu.Lock()
	return e.mu.Unlock
}

// SetExhaustiveUnits sets the number of units up to which all sets of them are tried.
func (e *Engine) SetExhaustiveUnits(n int) { e.work.exhaustiveUnits = n }
