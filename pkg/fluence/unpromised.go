package fluence

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// A lostPromise says when a group lost its promise, what is known of the time at which it fits, and what has changed. The
// change is empty if it is not known.
type lostPromise struct {
	at        time.Time
	what, why string
}

// What is said of the time at which a group fits that has lost its promise.
const (
	noTime      = "there is no time at which it is known to fit"
	farTime     = "it fits in more than 7 days at the earliest"
	noAnswer    = "the searches for a time have no answer"
	cannotStart = "it does not start on the nodes that it finds"
)

// An unansweredSearch is the search for a time at which a group fits, that has had no answer so many times in a row.
type unansweredSearch struct {
	tries int
	// askAt is when the group asks again.
	askAt time.Time
}

// lose records that a group loses its promise now.
func (s *promises) lose(key types.NamespacedName, what, why string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = map[types.NamespacedName]lostPromise{}
	}
	s.lost[key] = lostPromise{at: now, what: what, why: why}
}

// hadNoAnswer records that the search for a time at which a group fits had no answer. No event is sure to come, so the group
// asks again, at first in a second and then less often.
func (s *promises) hadNoAnswer(key types.NamespacedName, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unanswered == nil {
		s.unanswered = map[types.NamespacedName]unansweredSearch{}
	}
	tries := s.unanswered[key].tries
	s.unanswered[key] = unansweredSearch{tries: tries + 1, askAt: now.Add(min(askPromisedEvery, time.Second<<min(tries, 10)))}
}

// hadAnswer records that the last search for a time at which a group fits had an answer, or that none was made.
func (s *promises) hadAnswer(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unanswered, key)
}

// isUnanswered reports whether the last search for a time at which a group fits had no answer.
func (s *promises) isUnanswered(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.unanswered[key]
	return is
}

// describeLoss says that a group has lost its promise so, as the last part of a message. It returns nothing if the group has
// not, or has got another one since.
func (s *promises) describeLoss(key types.NamespacedName, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, lost := s.lost[key]
	if !lost {
		return ""
	}
	text := "; no longer promised room: " + of.what
	if of.why != "" {
		text += fmt.Sprintf(", since %s: %s", reason.Time(of.at, now), of.why)
	}
	return text
}
