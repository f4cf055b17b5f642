package gang

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/objects"
)

// full is a refusal that the end of a pod helps.
var full = Refusal{Reason: "NoRoom", RetryOn: []Event{Released}, WaitsFor: WaitsForRoom}

// inPauses returns groups a, b, c, ... of one pod each, in this order. The first was refused
// often and has the longest pause, and the others were refused once. Events have helped all.
func inPauses(t *testing.T, names string) *equals {
	e := &equals{T: t, Groups: New(seenOwners{}, ""), now: noon}
	for _, name := range names {
		e.PutPod(objects.Pod(string(name), objects.Created(noon)), e.now)
	}
	for range 5 {
		e.now = e.now.Add(2 * maxRetryPause)
		e.Due(e.now)
		e.refuse("a", full)
		e.ObserveEvent(Released)
	}
	for _, name := range names[1:] {
		e.refuse(string(name), full)
	}
	e.ObserveEvent(Released)
	e.ObserveEvent(Released)
	return e
}

func TestNoGroupRetriesDuringThePauseOfOneBeforeIt(t *testing.T) {
	e := inPauses(t, "abc")
	e.now = e.now.Add(minRetryPause)
	if e.PreEnqueue("b", e.now).Pass {
		t.Error("kube-scheduler's queue may retry b, which it has itself, before a")
	}
	e.wantDue(0)
	e.wantDue(maxRetryPause-minRetryPause, "a", "b", "c")
}

func TestAGroupWaitsForThePauseOfAnotherOnce(t *testing.T) {
	e := inPauses(t, "ab")
	e.wantDue(minRetryPause)
	// The first is refused once more just before its pause ends, so that it has a new one.
	first, _ := e.GroupOf("a")
	e.AskAgain([]types.NamespacedName{first.Key}, e.now)
	e.wantDue(maxRetryPause-minRetryPause*3/2, "a")
	e.refuse("a", full)
	e.ObserveEvent(Released)
	e.wantDue(minRetryPause/2, "b")
}

func TestTheFirstGroupDoesNotWaitForThePausesOfOthers(t *testing.T) {
	e := inPauses(t, "abc")
	e.wantDue(maxRetryPause, "a", "b", "c")
	e.refuse("b", full)
	e.place("a")
	e.refuse("c", full)
	e.PutPod(objects.Pod("d", objects.Created(noon), withPriority(1)), e.now)
	e.refuse("d", full)
	e.ObserveEvent(Released)
	e.wantDue(minRetryPause, "d")
}

func TestPausesEndTogether(t *testing.T) {
	for refused := range 12 {
		for _, since := range []time.Duration{0, time.Millisecond, 99 * time.Millisecond, 101 * time.Millisecond, 750 * time.Millisecond} {
			now := noon.Add(since)
			end := pauseAfter(refused, now)
			length := min(maxRetryPause, minRetryPause<<refused)
			if pause := end.Sub(now); !end.Truncate(length).Equal(end) || pause < minRetryPause || pause >= length+minRetryPause {
				t.Errorf("after %d refusals and %v, the pause is %v", refused, since, pause)
			}
		}
	}
}
