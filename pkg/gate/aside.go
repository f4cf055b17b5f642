package gate

import (
	"slices"
	"time"
)

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

// aside is the pods that stand at the gate and do not leave it before a time of their own.
// They are few: each was refused more than once.
type aside struct {
	pods []*pod
}

func (a *aside) add(p *pod) { a.pods = append(a.pods, p) }

// remove takes a pod out, and returns false if it is not here.
func (a *aside) remove(p *pod) bool {
	i := slices.Index(a.pods, p)
	if i >= 0 {
		a.pods = slices.Delete(a.pods, i, i+1)
	}
	return i >= 0
}

// due takes out those whose time has come.
func (a *aside) due(now time.Time) []*pod {
	var due []*pod
	a.pods = slices.DeleteFunc(a.pods, func(p *pod) bool {
		if p.until.After(now) {
			return false
		}
		due = append(due, p)
		return true
	})
	return due
}

// next returns when the next one's time comes; zero if there is none.
func (a *aside) next() time.Time {
	var next time.Time
	for _, p := range a.pods {
		if next.IsZero() || p.until.Before(next) {
			next = p.until
		}
	}
	return next
}
