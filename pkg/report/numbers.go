package report

import (
	"maps"
	"math/rand/v2"
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
	// minNumbersDelay and maxNumbersDelay are about the shortest and the longest time for which
	// such a write is put off at once.
	minNumbersDelay, maxNumbersDelay = time.Second, 5 * time.Minute
)

// numbersLimits bounds the writes of namespaces that change only numbers. The zero value is ready for use.
type numbersLimits struct {
	mu          sync.Mutex
	byNamespace map[string]*numbersLimit
	sweepAt     time.Time
}

// A numbersLimit bounds the writes of one namespace.
type numbersLimit struct {
	*rate.Limiter
	// putOff counts the writes that were put off and have not asked again. Those that never do, because
	// their object is gone or is written for another reason, count until no write is put off for a while.
	putOff int
}

// next returns until when a write has to be put off, or zero if it may be made now. notBefore is what next has
// returned for the write before. A write does not ask again before that, however often it changes.
func (l *numbersLimits) next(namespace string, notBefore time.Time) time.Time {
	now := time.Now()
	if now.Before(notBefore) {
		return notBefore
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.sweepAt) {
		// A limiter that has all its tokens is as a new one.
		maps.DeleteFunc(l.byNamespace, func(_ string, n *numbersLimit) bool { return n.TokensAt(now) >= numbersBurst })
		l.sweepAt = now.Add(time.Minute)
	}
	if l.byNamespace == nil {
		l.byNamespace = map[string]*numbersLimit{}
	}
	n := l.byNamespace[namespace]
	if n == nil {
		n = &numbersLimit{Limiter: rate.NewLimiter(numbersRate, numbersBurst)}
		l.byNamespace[namespace] = n
	}
	if !notBefore.IsZero() && n.putOff > 0 {
		n.putOff--
	}
	if n.AllowN(now, 1) {
		return time.Time{}
	}
	n.putOff++
	// Together they ask about as often as there are tokens.
	wait := min(maxNumbersDelay, max(minNumbersDelay, time.Duration(n.putOff)*time.Second/numbersRate))
	return now.Add(wait/2 + rand.N(wait))
}
