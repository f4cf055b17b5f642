package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/stack"
)

// promises runs the scheduler so that this many groups are promised room, and the controller so that it ends pods after their
// duration.
func (s *story) promises(depth int) {
	s.Helper()
	s.restarted(
		func(c *stack.Config) {
			c.Args = maps.Clone(c.Args)
			c.Args["promises"], c.Args["enforceDuration"] = map[string]any{"depth": depth}, true
		},
		func(c *stack.Config) { delete(c.Args, "promises"); delete(c.Args, "enforceDuration") })
	s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = []string{"--enforce-duration"} })
	s.Cleanup(func() { s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = nil }) })
}

// lasting is a Job whose pods take a node of 8 CPUs each, for this time. Its pods end at once.
func lasting(name string, n int, duration string) string {
	annotations := ""
	if duration != "" {
		annotations = "annotations: {" + group.DurationAnnotation + ": " + duration + "}"
	}
	return strings.Replace(job(name, n, "8", annotations), "    spec:\n", "    spec:\n      terminationGracePeriodSeconds: 0\n", 1)
}

// promisedAt matches the time in the message of a group that is promised room.
var promisedAt = regexp.MustCompile(`^promised \d+ nodes? from (\S+Z)`)

// promised waits until the group of the Job large is promised room in a time that ok takes, and returns the time.
func (s *story) promised(ok func(time.Time) bool) (at time.Time) {
	s.Helper()
	s.eventually("the group is promised room", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, "job-large-")
		if g == nil {
			return false, "no PodGroup"
		}
		c := meta.FindStatusCondition(g.Status.Conditions, "Scheduled")
		if c == nil {
			return false, "no condition"
		}
		found := promisedAt.FindStringSubmatch(c.Message)
		if found == nil {
			return false, c.Message
		}
		var err error
		at, err = reason.ParseTime(found[1], c.LastTransitionTime.Time)
		return err == nil && ok(at), fmt.Sprint(c.Message, err)
	})
	return at
}

// A gang that needs all nodes is promised them at the end of what runs. A shorter Job runs before that. A longer one waits
// and says until when, and so does one without an end. Neither the matcher nor the scheduler forgets the promise
// when it is killed. What ends early moves it to an earlier time.
func TestAShortJobRunsBeforeAPromise(t *testing.T) {
	s := tell(t)
	s.promises(1)
	s.nodes("n", 4, "8")
	s.applyText(lasting("running", 2, "20m"))
	s.running("running-", 2)
	began := time.Now()
	near := func(d time.Duration) func(time.Time) bool {
		return func(at time.Time) bool { return at.Sub(began.Add(d)).Abs() < 2*time.Minute }
	}
	s.applyText(lasting("large", 4, "20m"))
	first := s.promised(near(20 * time.Minute))
	s.apply("backfill.yaml")
	s.running("in-the-gap-", 1)
	large := s.group(t.Context(), "job-large-").Name
	for name, duration := range map[string]string{"longer": "30m", "endless": ""} {
		s.applyText(lasting(name, 1, duration))
		s.refused("job-"+name+"-", "NoRoom", "room for 1 more is promised to "+s.ns+"/"+large+" from ")
	}
	for _, process := range []string{stack.Sidecar, stack.Scheduler} {
		s.kill(process)
		s.start(process)
		s.applyText(lasting("after-"+process, 1, "30m"))
		s.refused("job-after-"+process+"-", "NoRoom", "room for 1 more is promised to "+s.ns+"/"+large+" from ")
		s.promised(func(at time.Time) bool { return !at.After(first) })
	}
	for _, name := range []string{"longer-", "endless-", "after-"} {
		s.noneOnNodes(name)
	}
	s.kubectl("delete", "job", "running", "-n", s.ns)
	s.promised(near(5 * time.Minute))
	s.kubectl("delete", "job", "in-the-gap", "-n", s.ns)
	s.running("large-", 4)
}

// A Job is ended after its duration, and the group that was promised its nodes starts when it was promised.
func TestAGroupStartsWhenItWasPromised(t *testing.T) {
	s := tell(t)
	s.promises(1)
	s.nodes("n", 2, "8")
	s.apply("duration.yaml")
	s.running("half-hour-", 4)
	s.kubectl("delete", "job", "half-hour", "-n", s.ns)
	s.applyText(lasting("running", 2, "20s"))
	s.running("running-", 2)
	s.applyText(lasting("large", 2, "10m"))
	at := s.promised(func(time.Time) bool { return true })
	s.within(time.Minute, "the group has started", 50*time.Millisecond, func(context.Context) (bool, string) {
		n := len(s.onNodes("large-"))
		return n == 2, fmt.Sprintf("%d pods have nodes", n)
	})
	if late := time.Since(at); late > 10*time.Second {
		t.Errorf("it has started %s after its time", late)
	} else {
		t.Logf("it has started %s after its time", late)
	}
	if why := s.kubectl("get", "job", "running", "-n", s.ns, "-o", "jsonpath={.status.conditions[?(@.type==\"Failed\")].reason}"); why != "DeadlineExceeded" {
		t.Errorf("the Job has ended with %q", why)
	}
}
