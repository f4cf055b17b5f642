package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/group"
)

// onNode lets the pods of a Job run on one node only.
func onNode(job, node string) string {
	return strings.Replace(job, "    spec:\n", "    spec:\n      nodeSelector: {kubernetes.io/hostname: "+node+"}\n", 1)
}

// setDuration sets the duration of a Job's pods while they run, as a user does.
func (s *story) setDuration(job, duration string) {
	s.Helper()
	s.kubectl("annotate", "podgroups.scheduling.x-k8s.io", s.group(s.Context(), "job-"+job+"-").Name, "-n", s.ns, "--overwrite", group.DurationAnnotation+"="+duration)
}

// A shift is something that moves a promise to a later time.
type shift struct {
	name  string
	shift func(*story)
	// why matches what the message says, and to is when the room is promised from, after the story's begin.
	why string
	to  time.Duration
	// undo moves the promise back. It may be nil.
	undo func(*story)
}

// A gang is promised a free node and one on which a pod ends. Whatever moves that to a later time is named
// in its message, with the time before. When it is over, the promise moves back, and the message names nothing.
func TestWhatMovesAPromiseIsNamed(t *testing.T) {
	s := tell(t)
	s.promises(2, true)
	s.nodes("n", 4, "8")
	class := s.patient(100)(100)
	began := time.Now()
	for i := 1; i < 4; i++ {
		s.applyText(onNode(lasting(fmt.Sprintf("until-%d", i), 1, fmt.Sprintf("%dm", 10+10*i)), fmt.Sprintf("n-%d", i)))
	}
	s.running("until-", 3)
	s.applyText(lasting("large", 2, "1h"))
	first := s.promised("large", from(began.Add(20*time.Minute))).at
	// The first time is by when the pods were to be bound, and the later ones are by when they were.
	isFirst := func(at time.Time) bool { return at.Sub(first).Abs() < 5*time.Second }
	drop := func(job string) func(*story) {
		return func(s *story) { s.kubectl("delete", "job", job, "-n", s.ns) }
	}
	pod := "pod " + s.ns + "/"
	for _, c := range []shift{
		{"an end is raised", func(s *story) { s.setDuration("until-1", "25m") },
			pod + `until-1-\w+ ends later now, at \S+Z`, 25 * time.Minute, func(s *story) { s.setDuration("until-1", "20m") }},
		{"another scheduler", func(s *story) { s.applyText(podOn("foreign", "n-0", "", "")) },
			pod + "foreign of another scheduler is on node n-0", 30 * time.Minute, func(s *story) { s.lose("foreign") }},
		{"a higher priority has room", func(s *story) { s.applyText(prioritized(lasting("urgent", 1, ""), class)) },
			pod + `urgent-\w+ was placed on node n-0 before it`, 30 * time.Minute, drop("urgent")},
		{"a node is lost", func(s *story) {
			if err := s.RemoveNodes(s.Context(), "n-0"); err != nil {
				s.Fatal(err)
			}
		}, "node n-0 is gone", 30 * time.Minute, nil},
	} {
		ok := t.Run(c.name, func(t *testing.T) {
			s := &story{T: t, Stack: s.Stack, ns: s.ns}
			c.shift(s)
			why := regexp.MustCompile("^" + c.why + "$")
			s.promised("large", func(p toldPromise) bool {
				return from(began.Add(c.to))(p) && p.nodes == 2 && isFirst(p.before) && why.MatchString(p.why)
			})
			if c.undo != nil {
				c.undo(s)
				s.promised("large", func(p toldPromise) bool { return isFirst(p.at) && p.why == "" })
			}
		})
		if !ok {
			return // the others would begin from another state
		}
	}
	s.kubectl("delete", "job", "until-1", "until-2", "-n", s.ns)
	s.running("large-", 2)
}

// Nobody ends pods after their duration. A gang that was promised their nodes says which of them should have ended, and
// when. It keeps its promise, and starts when they end.
func TestAnOverrunIsTold(t *testing.T) {
	s := tell(t)
	s.promises(1, false)
	s.nodes("n", 2, "8")
	s.applyText(lasting("running", 2, "8s"))
	s.running("running-", 2)
	s.applyText(lasting("large", 2, "10m"))
	s.promised("large", anyPromise)
	s.refused("job-large-", "NoRoom", "promised 2 nodes from ", ", which is over: pod "+s.ns+"/running-", " should have ended at ")
	s.noneOnNodes("large-")
	s.kubectl("delete", "job", "running", "-n", s.ns)
	s.running("large-", 2)
}
