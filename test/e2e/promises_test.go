package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/sidecar/client"
	"github.com/flux-k8s/fluence/test/stack"
)

// promises runs the scheduler so that this many groups are promised room. With enforced the controller ends pods after
// their duration, and the scheduler knows that.
func (s *story) promises(depth int, enforced bool) {
	s.Helper()
	s.restarted(
		func(c *stack.Config) {
			c.Args = maps.Clone(c.Args)
			c.Args["promises"], c.Args["enforceDuration"] = map[string]any{"depth": depth}, enforced
		},
		func(c *stack.Config) { delete(c.Args, "promises"); delete(c.Args, "enforceDuration") })
	if enforced {
		s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = []string{"--enforce-duration"} })
		s.Cleanup(func() { s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = nil }) })
	}
}

// lasting is a Job whose pods take a node of 8 CPUs each, for this time. Its pods end at once.
func lasting(name string, n int, duration string) string {
	annotations := ""
	if duration != "" {
		annotations = "annotations: {" + group.DurationAnnotation + ": " + duration + "}"
	}
	return strings.Replace(job(name, n, "8", annotations), "    spec:\n", "    spec:\n      terminationGracePeriodSeconds: 0\n", 1)
}

// A toldPromise is what the message of a group says of its promise.
type toldPromise struct {
	nodes int
	at    time.Time
	// before is when it was promised from before it moved to a later time, and why says what moved it.
	before time.Time
	why    string
}

// promiseText matches the message of a group that is promised room.
var promiseText = regexp.MustCompile(`^promised (\d+) nodes? from (\S+Z)(?: \(before: from (\S+Z); ([^)]*)\))?`)

// readPromise returns what a message says.
func readPromise(message string) (p toldPromise, err error) {
	found := promiseText.FindStringSubmatch(message)
	if found == nil {
		return p, errors.New("no promise")
	}
	timeOf := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		at, wrong := reason.ParseTime(text, time.Now())
		err = errors.Join(err, wrong)
		return at
	}
	p.nodes, err = strconv.Atoi(found[1])
	p.at, p.before, p.why = timeOf(found[2]), timeOf(found[3]), found[4]
	return p, err
}

// promised waits until the group of a Job is promised room as ok takes it, and returns the promise.
func (s *story) promised(job string, ok func(toldPromise) bool) (p toldPromise) {
	s.Helper()
	s.eventually("group of "+job+" is promised room", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, "job-"+job+"-")
		if g == nil {
			return false, "no PodGroup"
		}
		c := meta.FindStatusCondition(g.Status.Conditions, "Scheduled")
		if c == nil {
			return false, "no condition"
		}
		var err error
		p, err = readPromise(c.Message)
		return err == nil && ok(p), fmt.Sprint(c.Message, err)
	})
	return p
}

// anyPromise takes every promise.
func anyPromise(toldPromise) bool { return true }

// anyTime takes every time.
func anyTime(time.Time) bool { return true }

// from takes a promise from a time on, or from nearly that.
func from(at time.Time) func(toldPromise) bool {
	return func(p toldPromise) bool { return p.at.Sub(at).Abs() < 2*time.Minute }
}

// loadedGraph matches the line of a scheduler that has loaded the graph.
var loadedGraph = regexp.MustCompile(`(?m)^I(\d{4} [\d:.]+) .*"Loaded the graph".* epoch=(\d+)`)

// loaded returns when the graph was loaded last, and its epoch.
func (s *story) loaded() (at time.Time, epoch match.Epoch) {
	s.Helper()
	all := loadedGraph.FindAllStringSubmatch(s.schedulerLog(), -1)
	if len(all) == 0 {
		return at, 0
	}
	last := all[len(all)-1]
	at, err1 := time.ParseInLocation("2006 0102 15:04:05.000000", fmt.Sprint(time.Now().Year(), " ", last[1]), time.Local)
	n, err2 := strconv.ParseUint(last[2], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		s.Fatal(err)
	}
	return at, match.Epoch(n)
}

// reservations returns what the matcher has reserved for a later time.
func (s *story) reservations(ctx context.Context) (reserved []match.Job, err error) {
	s.Helper()
	matcher, err := client.Dial(s.Endpoint(), client.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, matcher.Close()) }()
	_, epoch := s.loaded()
	jobs, err := matcher.Jobs(ctx, epoch)
	return slices.DeleteFunc(jobs, func(j match.Job) bool { return !j.Reserved }), err
}

// reserved waits until the matcher has one reservation, which begins at a time that ok takes. It returns that time.
func (s *story) reserved(ok func(time.Time) bool) (at time.Time) {
	s.Helper()
	s.soon("one reservation", 20*time.Millisecond, func(ctx context.Context) (bool, string) {
		jobs, err := s.reservations(ctx)
		if err != nil || len(jobs) != 1 {
			return false, fmt.Sprintf("%d, error %v", len(jobs), err)
		}
		at = jobs[0].Start
		return ok(at), fmt.Sprint("from ", at)
	})
	return at
}

// againWithin is how long after the graph is loaded a promise may be absent. The goal is a second.
const againWithin = 5 * time.Second

// promisedAgain fails if a promise is not there again soon after a restart, or if it is later than before.
func (s *story) promisedAgain(loads int, before time.Time) {
	s.Helper()
	s.soon("the graph is loaded", 20*time.Millisecond, func(context.Context) (bool, string) {
		n := s.loads(stack.Scheduler)
		return n > loads, fmt.Sprintf("%d times", n)
	})
	ready, _ := s.loaded()
	s.reserved(func(at time.Time) bool { return !at.After(before) })
	if took := time.Since(ready); took > againWithin {
		s.Errorf("the promise was there again %s after the graph was loaded, want at most %s", took, againWithin)
	} else {
		s.Logf("the promise was there again %s after the graph was loaded", took.Round(time.Millisecond))
	}
}

// A gang that needs all nodes is promised them at the end of what runs. A shorter Job runs before that. A longer one waits
// and says until when, and so does one without an end. Neither the matcher nor the scheduler forgets the promise
// when it is killed. What ends early moves it to an earlier time.
func TestAShortJobRunsBeforeAPromise(t *testing.T) {
	s := tell(t)
	s.promises(1, true)
	s.nodes("n", 4, "8")
	s.applyText(lasting("running", 2, "20m"))
	s.running("running-", 2)
	began := time.Now()
	s.applyText(lasting("large", 4, "20m"))
	first := s.promised("large", from(began.Add(20*time.Minute)))
	s.apply("backfill.yaml")
	s.running("in-the-gap-", 1)
	large := s.group(t.Context(), "job-large-").Name
	for name, duration := range map[string]string{"longer": "30m", "endless": ""} {
		s.applyText(lasting(name, 1, duration))
		s.refused("job-"+name+"-", "NoRoom", "room for 1 more is promised to "+s.ns+"/"+large+" from ")
	}
	for _, process := range []string{stack.Sidecar, stack.Scheduler} {
		before, loads := s.reserved(anyTime), s.loads(stack.Scheduler)
		s.kill(process)
		if process == stack.Scheduler {
			s.dropLease()
		}
		s.start(process)
		s.promisedAgain(loads, before)
		s.applyText(lasting("after-"+process, 1, "30m"))
		s.refused("job-after-"+process+"-", "NoRoom", "room for 1 more is promised to "+s.ns+"/"+large+" from ")
		s.promised("large", func(p toldPromise) bool { return !p.at.After(first.at) })
	}
	for _, name := range []string{"longer-", "endless-", "after-"} {
		s.noneOnNodes(name)
	}
	s.kubectl("delete", "job", "running", "-n", s.ns)
	s.promised("large", from(began.Add(5*time.Minute)))
	s.kubectl("delete", "job", "in-the-gap", "-n", s.ns)
	s.running("large-", 4)
}

// A Job is ended after its duration, and the group that was promised its nodes starts when it was promised.
func TestAGroupStartsWhenItWasPromised(t *testing.T) {
	s := tell(t)
	s.promises(1, true)
	s.nodes("n", 2, "8")
	s.apply("duration.yaml")
	s.running("half-hour-", 4)
	s.kubectl("delete", "job", "half-hour", "-n", s.ns)
	s.applyText(lasting("running", 2, "20s"))
	s.running("running-", 2)
	s.applyText(lasting("large", 2, "10m"))
	at := s.promised("large", anyPromise).at
	s.within(time.Minute, "the group has started", 50*time.Millisecond, func(context.Context) (bool, string) {
		n := len(s.onNodes("large-"))
		return n == 2, fmt.Sprintf("%d pods have nodes", n)
	})
	if late := time.Since(at); late > 10*time.Second {
		t.Errorf("it has started %s after its time", late)
	} else {
		t.Logf("it has started %s after its time", late)
	}
	s.eventually("the Job has failed", func(context.Context) (bool, string) {
		why := s.kubectl("get", "job", "running", "-n", s.ns, "-o", "jsonpath={.status.conditions[?(@.type==\"Failed\")].reason}")
		return why == "DeadlineExceeded", why
	})
}
