package gang

import "time"

// An Expectation is what a started group has free seats for.
type Expectation struct {
	// Pods is how many pods have a seat and do not exist yet.
	Pods int
	// Until is when their seats are given back, by what is known now. It is zero if it is not known yet.
	Until time.Time
}

// expectation returns what a group has free seats for.
func (r *rules) expectation(s *groupState) Expectation {
	if !s.started || len(s.free) == 0 {
		return Expectation{}
	}
	e := Expectation{Pods: len(s.free)}
	timeout, total, _ := r.expectTimes(s)
	if !s.heldSince.IsZero() {
		e.Until = s.heldSince.Add(total)
	}
	if end := s.awaitedSince.Add(timeout); !s.awaitedSince.IsZero() && (e.Until.IsZero() || end.Before(e.Until)) {
		e.Until = end
	}
	return e
}
