package gate

import "time"

// longest is the longest pause of the gate after a refusal. It is also the longest wait of a
// pod, unless the server asks for more than half of it.
const longest = 30 * time.Second

// refused is how often the API server was too busy for the binds of a pod.
type refused struct {
	// times counts the refusals.
	times int
	// alone counts the refusals of this pod while the server took most binds of others: since
	// the refusal before, it had taken more binds than it had refused.
	alone int
	// taken and turnedAway are how many binds of all pods the server had taken and refused at
	// the last refusal.
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
	// The pod waits for longer than the gate pauses, so that others leave meanwhile.
	return min(max(longest, 2*after), after<<min(1+r.alone, 10))
}

// newAside returns the pods that stand at the gate and do not leave it before a time of
// their own, in the order of these times.
func newAside() heapOf[*pod] {
	return heapOf[*pod]{before: func(p, o *pod) bool { return p.until.Before(o.until) }, index: (*pod).place}
}
