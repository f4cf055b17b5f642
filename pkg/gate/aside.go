package gate

import "time"

// longest is for how long the gate waits at most after a refusal, and a pod at most if the
// server does not ask for more than half of that.
const longest = 30 * time.Second

// refused is how often the API server was too busy for the binds of a pod.
type refused struct {
	// times counts the refusals, and alone those of them since whose last one the server
	// took more binds than it refused: it is not too busy for these.
	times, alone int
	// taken is how many binds it had taken at the last refusal, and turnedAway how many it had
	// refused.
	taken, turnedAway int
}

// again takes note of a refusal, and returns for how long the pod's bind is not sent. After
// the first one it keeps its place. After the second one in a row others are tried first.
// If these are taken while it is refused, the time doubles with each refusal: something
// refuses this pod, such as a webhook, and each refusal costs all others a pause.
func (r *refused) again(taken, turnedAway int, after time.Duration) time.Duration {
	if r.times++; r.times > 1 && taken-r.taken > turnedAway-r.turnedAway {
		r.alone++
	}
	r.taken, r.turnedAway = taken, turnedAway+1
	if r.times == 1 {
		return after
	}
	// It is always longer than the gate is closed, so that others leave meanwhile.
	return min(max(longest, 2*after), after<<min(1+r.alone, 10))
}

// newAside returns the pods that stand at the gate and do not leave it before a time of
// their own, in the order of these times.
func newAside() heapOf[*pod] {
	return heapOf[*pod]{before: func(p, o *pod) bool { return p.until.Before(o.until) }, index: (*pod).place}
}
