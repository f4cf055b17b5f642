package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster/tools"
	"github.com/flux-k8s/fluence/test/stack"
)

// restarted runs the story with another configuration
// of the scheduler, which is reset after the story.
func (s *story) restarted(change, back func(*stack.Config)) {
	s.Helper()
	s.restart(stack.Scheduler, change)
	s.Cleanup(func() { s.restart(stack.Scheduler, back) })
}

// twoProfiles returns a change that gives a scheduler the profiles of the shipped configuration
// with two profiles, first the one of kube-scheduler's kind, with this stack's arguments.
func twoProfiles(t *testing.T) func(config map[string]any) {
	t.Helper()
	root, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "manifests", "scheduler-config-profiles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var shipped map[string]any
	if err := yaml.Unmarshal(text, &shipped); err != nil {
		t.Fatal(err)
	}
	return func(config map[string]any) {
		args := stack.PluginArgs(config)
		config["profiles"] = shipped["profiles"]
		clear(stack.PluginArgs(config))
		maps.Copy(stack.PluginArgs(config), args)
		slices.Reverse(config["profiles"].([]any))
	}
}

// Flow 18 of the lessons of earlier systems, in one scheduler: while the sidecar is
// stopped, the pods of the other profile are scheduled. They are charged afterwards.
func TestAnotherProfileSchedulesWhileTheSidecarStandsStill(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.restarted(
		func(c *stack.Config) { c.Profile = twoProfiles(t) },
		func(c *stack.Config) { c.Profile = nil })
	s.applyText(lonePod("first", "other"))
	s.applyText(job("before", 2, "1"))
	s.running("first", 1)
	s.running("before-", 2)

	s.signal(stack.Sidecar, syscall.SIGSTOP)
	defer s.signal(stack.Sidecar, syscall.SIGCONT)
	s.applyText(job("waits", 2, "5"))
	s.refused("job-waits-", "MatcherUnavailable", "the matcher does not answer")
	for i := range 6 {
		s.applyText(lonePod(fmt.Sprintf("other-%d", i), "other"))
	}
	s.running("other-", 6)
	s.noneOnNodes("waits-")

	// 9 of 16 CPUs are in use.
	s.signal(stack.Sidecar, syscall.SIGCONT)
	s.refused("job-waits-", "NoRoom", "needs 2 pods")
	s.kubectl("delete", "job", "before", "-n", s.ns)
	s.kubectl("delete", "pod", "other-0", "other-1", "other-2", "other-3", "other-4", "other-5", "-n", s.ns, "--force", "--grace-period=0")
	s.running("waits-", 2)
	s.noneRejected()
}

// signal sends a signal to one of Fluence's processes.
func (s *story) signal(name string, sig syscall.Signal) {
	s.Helper()
	if err := s.Process(name).Signal(sig); err != nil {
		s.Fatalf("signal %s: %v", name, err)
	}
}
