package gate

import "time"

// longest is for how long a pod, or the gate, waits at most after a refusal.
const longest = 30 * time.Second

// refused is how often the API server was too busy for the binds of a pod.
type refused struct {
	// times counts the refusals, and alone those of them before which the server took
	// other binds since the last one: it is not too busy for these.
	times, alone int
	// taken is how many binds it had taken at the last refusal.
	taken int
}

// again takes note of a refusal, and returns for how long the pod's bind is not sent. After
// the first one it keeps its place. After the second one in a row others are tried first.
// If these are taken while it is refused, the time doubles with each refusal: something
// refuses this pod, such as a webhook, and each refusal costs all others a pause.
func (r *refused) again(taken int, after time.Duration) time.Duration {
	if r.times++; r.times > 1 && taken > r.taken {
		r.alone++
	}
	r.taken = taken
	if r.times == 1 {
		return after
	}
	return min(longest, after<<min(1+r.alone, 10))
}

// newAside returns the pods that stand at the gate and do not leave it before a time of
// their own, in the order of these times.
func newAside() heapOf[*pod] {
	return heapOf[*pod]{before: func(p, o *pod) bool { return p.until.Before(o.until) }, index: (*pod).place}
}
