package bindqueue

import "time"

// maxPause bounds the pause of the bind queue after a throttled bind. It also bounds
// the backoff of a pod, unless twice the pause is longer.
const maxPause = 30 * time.Second

// podBackoff counts how often the API server throttled the binds of one pod.
type podBackoff struct {
	// throttledCount counts the throttled binds of the pod.
	throttledCount int
	// throttledAlone counts the throttled binds of the pod that seem to concern
	// this pod alone: since the pod's throttled bind before, the
	// server had taken more binds of all pods than it had throttled.
	throttledAlone int
	// succeeded is how many binds of all pods the server had taken at the pod's last
	// throttled bind. throttled is how many it had throttled by then, with that bind.
	succeeded, throttled int
}

// next records a throttled bind, and returns for how long the pod's bind is not sent. After
// the first one this is the pause of the bind queue, so the pod keeps its place. After the
// second one it is longer, so that other pods are tried first. It doubles each time that
// the pod is throttled while most others are not: then something, such as a webhook,
// throttles this pod alone, and each try of it would pause the bind queue for all others.
func (r *podBackoff) next(succeeded, throttled int, retryAfter time.Duration) time.Duration {
	if r.throttledCount++; r.throttledCount > 1 && succeeded-r.succeeded > throttled-r.throttled {
		r.throttledAlone++
	}
	r.succeeded, r.throttled = succeeded, throttled+1
	if r.throttledCount == 1 {
		return retryAfter
	}
	// The pod waits for longer than the bind queue pauses, so that others leave meanwhile.
	return min(max(maxPause, 2*retryAfter), retryAfter<<min(1+r.throttledAlone, 10))
}

// newBackoffQ returns an empty heap of pods that back off. The first is the pod whose
// backoff ends first.
func newBackoffQ() indexedHeap[*assignedPod] {
	return indexedHeap[*assignedPod]{before: func(p, o *assignedPod) bool { return p.backoffUntil.Before(o.backoffUntil) }, index: (*assignedPod).heapIndex}
}
