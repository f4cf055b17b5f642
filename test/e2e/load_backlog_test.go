package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/stack"
)

// The limits are five times the goals in docs/performance.md,
// for a machine that has other work too.
const (
	loadP99   = 1500 * time.Millisecond
	loadWorst = 5 * time.Second
)

// Many Jobs wait when the scheduler starts. All have room, so the matches end long
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
	l.fewWrites()
}

const (
	// leaseTime is how long a killed scheduler keeps its lease on a
	// stack. restartTime is how long its successor takes to begin.
	leaseTime, restartTime = 8 * time.Second, 2 * time.Second
	// takenOver is how long a Job may be half bound after its scheduler was killed.
	takenOver = leaseTime + restartTime + 5*time.Second
)

// The scheduler is killed when some of many binds are done. All are done within two
// seconds, and what this test sees of them is up to half a second late. The scheduler is restarted, or has a
// successor. Jobs that are half bound are complete soon, and no room is assigned twice.
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
			l.seen(l.size(), l.size()/8)
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
			// Binds in flight are answered at once. After
			// that nothing is bound before the lease ends.
			if l.boundAfter(killed.Add(leaseTime/4)) == 0 {
				t.Error("it was killed after the last bind")
			}
			l.neverInHalves(takenOver, takenOver, span{})
			l.nothingDoubled()
		})
	}
}
