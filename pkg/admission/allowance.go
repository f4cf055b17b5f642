package admission

import "time"

const (
	// matchingPart says for how much of the time the jobs of queues may use the engine: for one matchingPart-th of it, or more if one
	// question a pass takes longer. The groups that are in no queue are placed in the rest.
	matchingPart = 5
	// maxMatching is for how long one pass may use the engine.
	maxMatching = 60 * time.Millisecond
)

// An allowance is for how long the engine may be used now. It is a token bucket: what jobs do not use while little happens helps them
// when something does. So all jobs that one end may help ask in the same pass.
type allowance time.Duration

// grow adds what a time brings.
func (a *allowance) grow(d time.Duration) {
	*a = min(allowance(maxMatching), *a+allowance(d/matchingPart))
}

// use takes off for how long the engine was used. The last question of a pass may take longer than allowed; that is no debt.
func (a *allowance) use(d time.Duration) { *a = max(0, *a-allowance(d)) }
