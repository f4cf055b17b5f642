package trial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A Stream is gangs that come at random times, but at a steady rate, and that are
// removed soon after they are bound. The times between them are exponentially
// distributed, so that their number in any time has a Poisson distribution.
type Stream struct {
	// Share is the rate, as a share of the highest one at which the backlog does not
	// grow. The first run of a contender finds its highest rate, before the stream.
	Share float64
	// RateOf is the name of the contender whose highest rate counts, which
	// must have run before. It is empty if the contender's own rate counts.
	RateOf string
	// For is how long gangs come. The search tries rates for
	// a tenth of it each, and the one that it finds for half of it.
	For time.Duration
	// Seed determines the times. Streams with the same seed and rate have the same times.
	Seed uint64
}

const (
	// firstRate is the rate with which the search begins. leastRate
	// is where it gives up. Both are in gangs a second.
	firstRate = 8.0
	leastRate = 1.0 / 16
	// narrow is the ratio of a rate that is too high to one that is not, at which the
	// search proves the latter. While that fails, the rate is multiplied by reduction.
	narrow, reduction = 1.1, 0.9
)

// times returns the times at which gangs come, for a rate in gangs a second.
func (s Stream) times(rate float64, length time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(s.Seed, 0))
	var out []time.Duration
	for at := 0.0; ; {
		at += random.ExpFloat64() / rate
		due := time.Duration(at * float64(time.Second))
		if due >= length {
			return out
		}
		out = append(out, due)
	}
}

// A result is how a contender did at a rate.
type result struct {
	// keptUp means that the backlog did not grow.
	keptUp bool
	// served is the number of gangs bound in a second while gangs came.
	served float64
}

// search finds the highest rate, in gangs a second, at which the backlog does not
// grow. It doubles the rate from firstRate on until the backlog grows with probe, and
// narrows it down. Then the backlog may not grow with prove either, which takes longer.
// While it does, the rate is reduced, and to what was served if that is less.
//
// The search ends with a lateError if the backlog grows at every rate.
func search(probe, prove func(rate float64) (result, error)) (float64, error) {
	low, high := 0.0, math.Inf(1)
	for rate := firstRate; high > narrow*low; {
		if rate < leastRate {
			return 0, &lateError{fmt.Sprintf("the backlog grows even at %.2f gangs a second", rate)}
		}
		r, err := probe(rate)
		if err != nil {
			return 0, err
		}
		if r.keptUp {
			low = rate
		} else {
			high = rate
		}
		switch {
		case low == 0:
			rate /= 2
		case math.IsInf(high, 1):
			rate *= 2
		default:
			rate = math.Sqrt(low * high)
		}
	}
	for rate := low; rate >= leastRate; {
		r, err := prove(rate)
		if r.keptUp || err != nil {
			return rate, err
		}
		rate = min(reduction*rate, r.served)
	}
	return 0, &lateError{"the backlog grows at every rate over a longer time"}
}

// A sample is the number of gangs that have come and are not bound, at a time of a stream.
type sample struct {
	at      time.Duration
	waiting int
}

// grows reports whether the backlog of a stream grows: whether more gangs wait in its
// last quarter than in its second, by more than what comes in half a second. In a stream
// of less than 12 s that would need too many: there 8 % of what comes are too many.
func grows(samples []sample, rate float64, length time.Duration) bool {
	const chance = 3 // so many may wait for no reason
	tolerated := rate * min(0.5, length.Seconds()/24)
	quarter := func(n int) float64 {
		sum, count := 0, 0
		for _, s := range samples {
			if s.at >= length*time.Duration(n-1)/4 && s.at < length*time.Duration(n)/4 {
				sum, count = sum+s.waiting, count+1
			}
		}
		return float64(sum) / float64(max(1, count))
	}
	return quarter(4)-quarter(2) > max(tolerated, chance)
}
