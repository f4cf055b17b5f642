package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/stack"
)

// faultyScheduler builds the scheduler with the plugins of faulty-scheduler, once for all stories.
var faultyScheduler = sync.OnceValues(func() (string, error) {
	return stack.BuildProgram(context.Background(), fluence.Dir(), "./test/e2e/faulty-scheduler")
})

// gatePath returns the file that stops pods at a step. See gate.
func (s *story) gatePath() string { return filepath.Join(s.Dir(), "gate") }

// gate stops pods at a step from now on: "PreFilter" or "PreBind". A second word is
// a label, and then only pods with that label stop. An empty step lets all pass.
func (s *story) gate(step string) {
	s.Helper()
	// The file is renamed, so that nobody reads half of it.
	next := s.gatePath() + ".new"
	err := os.WriteFile(next, []byte(step), 0o600)
	if err == nil {
		err = os.Rename(next, s.gatePath())
	}
	if err != nil {
		s.Fatalf("set the gate: %v", err)
	}
}

// gated runs the scheduler with the gate for the rest of the
// story. Without an election it works a second after its start.
func (s *story) gated(election bool) {
	s.Helper()
	binary, err := faultyScheduler()
	if err != nil {
		s.Fatal(err)
	}
	s.gate("")
	s.restart(stack.Scheduler, func(c *stack.Config) {
		c.SchedulerBinary = binary
		c.Profile = func(config map[string]any) {
			config["leaderElection"].(map[string]any)["leaderElect"] = election
			profile := config["profiles"].([]any)[0].(map[string]any)
			points := profile["plugins"].(map[string]any)
			for _, point := range []string{"preFilter", "preBind"} {
				points[point] = map[string]any{"enabled": []any{map[string]any{"name": "Gate"}}}
			}
			profile["pluginConfig"] = append(profile["pluginConfig"].([]any), map[string]any{"name": "Gate", "args": map[string]any{"file": s.gatePath()}})
		}
	})
	s.Cleanup(func() {
		s.gate("")
		s.restart(stack.Scheduler, func(c *stack.Config) { c.SchedulerBinary, c.Profile = "", nil })
	})
}

// stopped waits until n pods with a name prefix are stopped at a step of the first scheduler.
func (s *story) stopped(step, prefix string, n int) {
	s.Helper()
	line := regexp.MustCompile(`"Stopped on purpose" step="` + step + `" pod="` + regexp.QuoteMeta(s.ns+"/"+prefix) + `[^"]*"`)
	s.eventually(fmt.Sprintf("%d pods %s* stopped at %s", n, prefix, step), func(context.Context) (bool, string) {
		stopped := map[string]bool{}
		for _, found := range line.FindAllString(s.schedulerLog(), -1) {
			stopped[found] = true
		}
		return len(stopped) == n, fmt.Sprintf("%d are", len(stopped))
	})
}

// logOf returns all that the processes of a name have logged.
func (s *story) logOf(process string) string {
	s.Helper()
	text, err := os.ReadFile(s.Process(process).Log())
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// crew returns a group of n bare pods of one CPU each, which are created one after another.
// The first pod makes the attempt for the group. The pods at held have the label "held".
func crew(name string, n int, held ...int) string {
	labels := map[int]string{}
	for _, i := range held {
		labels[i] = `held: "yes"`
	}
	var text strings.Builder
	for i := range n {
		more := []string{sized(n)}
		if l := labels[i]; l != "" {
			more = append(more, l)
		}
		text.WriteString(member(fmt.Sprintf("%s-%d", name, i), name, "1", more...))
	}
	return text.String()
}

// bindings returns how often the API server bound each
// of the story's pods, and how many binds it refused.
func (s *story) bindings() (bound map[string]int, refused int) {
	s.Helper()
	bound = map[string]int{}
	for ev, err := range s.AuditEvents() {
		if err != nil {
			s.Fatal(err)
		}
		ref := ev.ObjectRef
		if ref == nil || ref.Resource != "pods" || ref.Subresource != "binding" || ref.Namespace != s.ns {
			continue
		}
		if ev.ResponseStatus.Code == 201 {
			bound[ref.Name]++
		} else {
			refused++
		}
	}
	return bound, refused
}

// boundOnce fails if a pod was bound twice.
func (s *story) boundOnce() {
	s.Helper()
	bound, _ := s.bindings()
	for pod, n := range bound {
		if n > 1 {
			s.Errorf("pod %s was bound %d times", pod, n)
		}
	}
}

// stayed fails if one of these pods has gone, or is on another node.
func (s *story) stayed(bound []corev1.Pod) {
	s.Helper()
	now := map[types.UID]string{}
	for _, p := range s.pods("") {
		now[p.UID] = p.Spec.NodeName
	}
	for _, p := range bound {
		if now[p.UID] != p.Spec.NodeName {
			s.Errorf("pod %s was bound to %s, and is now on %q", p.Name, p.Spec.NodeName, now[p.UID])
		}
	}
}

// allBooked waits until the sidecar has exactly one slot for each pod on
// a node. The sidecar of a scheduler that has ended hears of nothing.
func (s *story) allBooked() {
	s.Helper()
	sidecar := stack.Sidecar
	if s.Process(stack.Scheduler).State() != nil {
		sidecar = stack.StandbySidecar
	}
	s.eventually("a slot for every pod on a node", func(ctx context.Context) (bool, string) {
		slots, err := s.Metric(ctx, sidecar, "fluence_sidecar_slots")
		pods := len(s.onNodes(""))
		return err == nil && int(slots) == pods, fmt.Sprintf("%v slots for %d pods, error %v", slots, pods, err)
	})
}

// pause stops a process, which lives on. resume continues it.
func (s *story) pause(process string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
	defer cancel()
	if err := s.Process(process).Pause(ctx); err != nil {
		s.Fatal(err)
	}
}

func (s *story) resume(process string) {
	s.Helper()
	if err := s.Process(process).Resume(); err != nil {
		s.Fatal(err)
	}
}
