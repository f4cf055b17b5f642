package fluence

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// unpromised is what is remembered of groups that wait and are promised nothing. The zero value is ready for use.
type unpromised struct {
	mu sync.Mutex
	// lost are the groups that were promised room until nobody knew any more when they fit.
	lost map[types.NamespacedName]lostPromise
	// unanswered are the groups whose last search for a time had no answer.
	unanswered map[types.NamespacedName]unansweredSearch
}

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
func (u *unpromised) lose(key types.NamespacedName, what, why string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lost == nil {
		u.lost = map[types.NamespacedName]lostPromise{}
	}
	u.lost[key] = lostPromise{at: now, what: what, why: why}
}

// hadNoAnswer records that the search for a time at which a group fits had no answer. No event is sure to come, so the group
// asks again, at first in a second and then less often.
func (u *unpromised) hadNoAnswer(key types.NamespacedName, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unanswered == nil {
		u.unanswered = map[types.NamespacedName]unansweredSearch{}
	}
	tries := u.unanswered[key].tries
	u.unanswered[key] = unansweredSearch{tries: tries + 1, askAt: now.Add(min(askPromisedEvery, time.Second<<min(tries, 10)))}
}

// answered records that the last search for a time at which a group fits had an answer, or that none was made.
func (u *unpromised) answered(key types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.unanswered, key)
}

// isUnanswered reports whether the last search for a time at which a group fits had no answer.
func (u *unpromised) isUnanswered(key types.NamespacedName) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, is := u.unanswered[key]
	return is
}

// describeLoss says that a group has lost its promise so, as the last part of a message. It returns nothing if the group has
// not, or has got another one since.
func (u *unpromised) describeLoss(key types.NamespacedName, now time.Time) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	of, lost := u.lost[key]
	if !lost {
		return ""
	}
	text := "; no longer promised room: " + of.what
	if of.why != "" {
		text += fmt.Sprintf(", since %s: %s", reason.Time(of.at, now), of.why)
	}
	return text
}

// forgetLoss records that a group is promised room again.
func (u *unpromised) forgetLoss(key types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.lost, key)
}

// due returns the groups that are to ask again, because their last search had no answer.
func (u *unpromised) due(now time.Time) (keys []types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, of := range u.unanswered {
		if !now.Before(of.askAt) {
			of.askAt = now.Add(askPromisedEvery)
			u.unanswered[key] = of
			keys = append(keys, key)
		}
	}
	return keys
}

// keep forgets the groups that do not wait. The refusal of one is recorded a moment after its search.
func (u *unpromised) keep(now time.Time, waits func(types.NamespacedName) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.lost, func(key types.NamespacedName, _ lostPromise) bool { return !waits(key) })
	maps.DeleteFunc(u.unanswered, func(key types.NamespacedName, of unansweredSearch) bool { return !waits(key) && !now.Before(of.askAt) })
}
