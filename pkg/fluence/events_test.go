package fluence

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
)

func TestEventsOfBindsWaitForBinds(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(2, 100*time.Millisecond)
		r.node("n1", 60)
		for i := range 5 {
			r.createGang(fmt.Sprintf("g%d", i), 8)
		}
		r.schedule()
		r.pass(1900 * time.Millisecond)
		if n, bound := len(r.binds.events()), len(r.binds.bound()); n > 0 || bound >= 40 {
			t.Errorf("%d events are sent when %d of 40 pods are bound, want none", n, bound)
		}
		r.pass(2 * time.Second)
		events := r.binds.events()
		if len(events) != 40 {
			t.Fatalf("%d events are sent, want 40", len(events))
		}
		for i, e := range events {
			if e.reason != "Scheduled" || !strings.HasPrefix(e.note, "Successfully assigned ns/"+e.pod+" to n1") {
				t.Errorf("event %d: %+v", i, e)
			}
		}
		// Events have the time when pods were bound, not
		// when they were sent. Several are sent at a time.
		times := map[time.Time]bool{}
		for _, e := range events {
			times[e.made] = true
		}
		if len(times) < 2 {
			t.Errorf("events are of %v, want the times of the binds", times)
		}
	})
}

// While pods are bound, conditions and events wait, but no event gets
// older than half a minute, and no condition older than two seconds.
func TestEventsAndConditionsWaitForBindsForALimitedTime(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(1, 100*time.Millisecond)
		r.node("n1", 600)
		r.node("n2", 600)
		r.node("n3", 600)
		r.node("n4", 600)
		r.schedule()
		r.createGang("g", 2)
		for i := range 50 {
			r.createGang(fmt.Sprintf("h%02d", i), 8)
		}
		r.pass(1900 * time.Millisecond)
		if c := meta.FindStatusCondition(r.podGroupAPI.get(g).Status.Conditions, report.ConditionScheduled); c != nil && c.Reason == reason.Placed {
			t.Error("the condition of the group that was bound first is written while binds wait")
		}
		r.pass(1100 * time.Millisecond)
		if c := r.scheduledCondition(); c.Reason != reason.Placed {
			t.Errorf("condition of the group that was bound first: %+v, want %s", c, reason.Placed)
		}
		r.pass(27 * time.Second)
		events := r.binds.events()
		if len(events) == 0 || len(r.binds.bound()) >= 402 {
			t.Fatalf("%d events are sent while binds go on (%d)", len(events), len(r.binds.bound()))
		}
		r.pass(time.Minute)
		for _, e := range r.binds.events() {
			if age := e.at.Sub(e.made); age > 30*time.Second {
				t.Errorf("the event of pod %s was sent %v after its bind", e.pod, age)
			}
		}
		if got := len(r.binds.events()); got != 402 {
			t.Errorf("%d events, want one for each of 402 pods", got)
		}
	})
}

func TestEventsAreSentWithTheirBindsWhereTheArgumentsSaySo(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.limitBinds(2, 100*time.Millisecond)
		r.pl.events.SendInline = true
		r.node("n1", 60)
		r.createGang("g", 20)
		r.schedule()
		for range 10 {
			r.pass(100 * time.Millisecond)
			if bound, sent := len(r.binds.bound()), len(r.binds.events()); bound-sent > 2 {
				t.Errorf("%d pods are bound, and %d events are sent", bound, sent)
			}
		}
		if got := len(r.binds.events()); got != 20 {
			t.Errorf("%d events are sent, want 20", got)
		}
	})
}

func TestEventsThatTheServerIsTooBusyForAreSentLater(t *testing.T) {
	for _, always := range []bool{false, true} {
		t.Run(fmt.Sprintf("always=%t", always), func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.events.SendInline = always
				r.binds.set(0, func(what string) *http.Response {
					if strings.HasSuffix(what, " event") {
						return tooMany("1")
					}
					return nil
				})
				r.node("n1", 60)
				r.createGang("g", 20)
				r.schedule()
				r.pass(10 * time.Second)
				if bound, waiting := len(r.binds.bound()), r.pl.events.Waiting(); bound != 20 || waiting != 20 {
					t.Errorf("%d pods are bound and %d events wait, want 20, and one each", bound, waiting)
				}
				r.binds.set(0, nil)
				r.pass(5 * time.Second)
				if got := len(r.binds.events()); got != 20 || r.pl.events.Waiting() != 0 {
					t.Errorf("%d events are sent and %d wait, want 20 and none", got, r.pl.events.Waiting())
				}
			})
		})
	}
}

// With podEvents: always, the goroutine of a bind sends the event.
// The workers of the EventWriter wait for a signal meanwhile.
func TestAnEventOfALonePodThatTheServerIsTooBusyForIsSentLater(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.events.SendInline = true
		busy := true
		r.binds.set(0, func(what string) *http.Response {
			if busy && strings.HasSuffix(what, " event") {
				busy = false
				return tooMany("10")
			}
			return nil
		})
		r.node("n1", 60)
		r.schedule()
		expect := func(after time.Duration, bound, sent, waiting int) {
			t.Helper()
			r.pass(after)
			if b, s, w := len(r.binds.bound()), len(r.binds.events()), r.pl.events.Waiting(); b != bound || s != sent || w != waiting {
				t.Errorf("%d pods are bound, %d events sent and %d wait, want %d, %d and %d", b, s, w, bound, sent, waiting)
			}
		}
		r.pod("first")
		expect(9*time.Second, 1, 0, 1)
		expect(2*time.Second, 1, 1, 0)
		busy = true
		r.pod("second")
		r.pass(time.Second)
		r.pod("third")
		expect(8*time.Second, 3, 1, 2) // the server asks to wait
		expect(2*time.Second, 3, 3, 0)
	})
}
