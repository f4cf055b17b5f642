package bindqueue

import "time"

// maxPause is the longest pause of the gate after a refusal. It is also the longest wait of a
// pod, unless the server asks for more than half of it.
const maxPause = 30 * time.Second

// podBackoff is how often the API server was too busy for the binds of a pod.
type podBackoff struct {
	// times counts the refusals.
	times int
	// alone counts the refusals of this pod while the server took most binds of others: since
	// the refusal before, it had taken more binds than it had refused.
	alone int
	// taken and throttled are how many binds of all pods the server had taken and refused at
	// the last refusal.
	taken, throttled int
}

// next takes note of a refusal, and returns for how long the pod's bind is not sent. After
// the first one it keeps its place. After the second one in a row others are tried first.
// If these are taken while it is refused, the time doubles with each refusal: something
// refuses this pod, such as a webhook, and each refusal costs all others a pause.
func (r *podBackoff) next(taken, turnedAway int, after time.Duration) time.Duration {
	if r.times++; r.times > 1 && taken-r.taken > turnedAway-r.throttled {
		r.alone++
	}
	r.taken, r.throttled = taken, turnedAway+1
	if r.times == 1 {
		return after
	}
	// The pod waits for longer than the gate pauses, so that others leave meanwhile.
	return min(max(maxPause, 2*after), after<<min(1+r.alone, 10))
}

// newAside returns the pods that stand at the gate and do not leave it before a time of
// their own, in the order of these times.
func newAside() indexedHeap[*assignedPod] {
	return indexedHeap[*assignedPod]{before: func(p, o *assignedPod) bool { return p.until.Before(o.until) }, index: (*assignedPod).place}
}
