package admission

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A pass ends in time also if it asks little of the engine. It goes on with the next job.
func TestAPassEndsInTime(t *testing.T) {
	const jobs, most = 12, 5
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, jobs, easy("batch"))
		defer r.d.Stop() // its work queues have goroutines in the bubble
		asked := 0
		r.d.cfg.Groups.Claims = func(gang.Rank) Claims {
			asked++
			time.Sleep(maxPass / most) // the clock of the bubble
			return Claims{}
		}
		for i := range jobs {
			r.submit(fmt.Sprintf("j%d", i), "batch", 1, 4, "1h")
		}
		var passes []int
		for range 4 {
			r.now, asked = r.now.Add(passEvery), 0
			r.d.loop.step(r.now)
			passes = append(passes, asked)
		}
		if got, want := fmt.Sprint(passes), fmt.Sprint([]int{most, most, jobs - 2*most, 0}); got != want {
			t.Errorf("so many jobs have asked in each pass: %s, want %s", got, want)
		}
	})
}

// A slow engine takes a while for each question, by the clock of a bubble.
type slow struct {
	match.Engine
	takes time.Duration
	asked int
}

// Match implements match.Matcher.
func (s *slow) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	s.asked++
	time.Sleep(s.takes)
	return s.Engine.Match(ctx, r)
}

// After a quiet time a pass uses the engine for longer than the passes that follow it at once.
func TestPassesKeepToTheirTimeInTheEngine(t *testing.T) {
	const jobs = 12
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, jobs, fcfs("batch"))
		r.d.Stop() // its work queues have goroutines in the bubble
		engine := &slow{Engine: r.engine, takes: maxMatching / 6}
		r.engine = engine
		r.build()
		defer r.d.Stop()
		r.putQueue(fcfs("batch"))
		for i := range jobs {
			r.submit(fmt.Sprintf("j%d", i), "batch", 1, 4, "1h")
		}
		var passes []int
		for range 5 {
			r.now, engine.asked = r.now.Add(passEvery), 0
			r.d.loop.step(r.now)
			passes = append(passes, engine.asked)
		}
		if got, want := fmt.Sprint(passes), "[6 2 2 2 0]"; got != want {
			t.Errorf("so many jobs have asked in each pass: %s, want %s", got, want)
		}
	})
}
