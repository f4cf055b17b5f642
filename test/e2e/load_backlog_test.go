package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/stack"
)

// Five times what docs/performance.md has as goals, for a machine that does other things
// too.
const (
	loadP99   = 1500 * time.Millisecond
	loadWorst = 5 * time.Second
)

// Many Jobs wait when the scheduler comes. All have room, so the matches are over long
// before the binds. The API server answers each bind, and each Job starts as a whole.
func TestManyJobsAtOnceStartEachAsAWhole(t *testing.T) {
	s := tell(t)
	l := s.load(*loadJobs, 0)
	l.backlog(stack.Scheduler)
	l.begin(stack.Scheduler)
	l.allPlaced()
	l.neverInHalves(loadP99, loadWorst, span{})
	if refused := l.tooMany(); len(refused) > 0 {
		t.Errorf("requests that were too many for the API server: %v, want none", refused)
	}
	l.nothingDoubled()
}

const (
	// leaseTime is how long a scheduler that was killed keeps its lease, on a stack, and
	// restartTime how long its successor takes to be at work.
	leaseTime, restartTime = 8 * time.Second, 2 * time.Second
	// takenOver is how long a Job may be in halves whose scheduler was killed.
	takenOver = leaseTime + restartTime + 5*time.Second
)

// The scheduler is killed when half of many binds are done, and is started again or has a
// successor. The Jobs that are in halves are whole soon, and no room is given out twice.
func TestTheSchedulerIsKilledInTheMiddleOfManyBinds(t *testing.T) {
	for name, standby := range map[string]bool{"alone": false, "with a standby": true} {
		t.Run(name, func(t *testing.T) {
			s := tell(t)
			l := s.load(*loadJobs, 0)
			schedulers := []string{stack.Scheduler}
			if standby {
				s.standby()
				schedulers = append(schedulers, stack.StandbyScheduler)
			}
			l.backlog(schedulers...)
			l.begin(schedulers...)
			leader := l.leader()
			l.seen(l.size(), l.size()/2)
			s.kill(leader)
			killed := time.Now()
			t.Logf("%s was killed with %d of %d pods bound", leader, l.onNode(), l.size())
			if standby {
				schedulers = slices.DeleteFunc(schedulers, func(name string) bool { return name == leader })
			} else {
				s.start(leader)
			}
			l.guard(schedulers...)
			l.allPlaced()
			// What was in flight is answered at once, and nobody binds before the lease ends.
			if l.boundAfter(killed.Add(leaseTime/4)) == 0 {
				t.Error("it was killed after the last bind")
			}
			l.neverInHalves(takenOver, takenOver, span{})
			l.nothingDoubled()
		})
	}
}
