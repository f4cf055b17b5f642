package report

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Writes that change only the numbers of a message, as StableText has it, come in each namespace at
// most at numbersRate a second, after the first numbersBurst. Otherwise thousands of groups would be
// written to again whenever a node comes, or is reserved for one of them.
const (
	numbersRate  = 5
	numbersBurst = 100
)

// numbersLimits bounds the writes of namespaces that change only numbers. The zero value is ready for use.
type numbersLimits struct {
	mu          sync.Mutex
	byNamespace map[string]*rate.Limiter
	sweepAt     time.Time
}

// nextTurn takes the next turn of a namespace to write, and returns when that is.
func (l *numbersLimits) nextTurn(namespace string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !now.Before(l.sweepAt) {
		// A limiter that has all its tokens is as a new one.
		maps.DeleteFunc(l.byNamespace, func(_ string, r *rate.Limiter) bool { return r.TokensAt(now) >= numbersBurst })
		l.sweepAt = now.Add(time.Minute)
	}
	if l.byNamespace == nil {
		l.byNamespace = map[string]*rate.Limiter{}
	}
	r := l.byNamespace[namespace]
	if r == nil {
		r = rate.NewLimiter(numbersRate, numbersBurst)
		l.byNamespace[namespace] = r
	}
	return now.Add(r.ReserveN(now, 1).DelayFrom(now))
}
