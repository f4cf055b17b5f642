package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/test/stack"
)

// priorities makes priority classes of the story's own and returns the name of the
// one with a value.
func (s *story) priorities(values ...int) func(value int) string {
	s.Helper()
	name := func(value int) string { return fmt.Sprintf("%s-%d", s.ns, value) }
	for _, v := range values {
		s.applyText(fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %s}\nvalue: %d\n", name(v), v))
		s.discard("priorityclass/" + name(v))
	}
	return name
}

// prioritized gives the pods of a manifest a priority class.
func prioritized(manifest, class string) string {
	indent := "  "
	if strings.Contains(manifest, "kind: Job") {
		indent = "      "
	}
	return strings.Replace(manifest, indent+"schedulerName:", indent+"priorityClassName: "+class+"\n"+indent+"schedulerName:", 1)
}

// ofSize has the one container of a manifest ask for so many CPUs instead of one.
func ofSize(manifest, cpu string) string {
	return strings.Replace(manifest, `cpu: "1"`, `cpu: "`+cpu+`"`, 1)
}

// lingering keeps a pod terminating until letGo is called for it.
func lingering(manifest string) string {
	return strings.Replace(manifest, "metadata: {", "metadata: {finalizers: [fluence.test/lingers], ", 1)
}

func (s *story) letGo(pod string) {
	s.Helper()
	s.kubectl("patch", "pod", pod, "-n", s.ns, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

// preempting leads to a pod of this scheduler that is nominated for a node of 8 CPUs,
// where one of 6 CPUs ends slowly and 2 are free, and that wants 6 itself.
func (s *story) preempting(scheduler string) (class func(int) string) {
	s.Helper()
	class = s.priorities(100, 1000, 2000)
	s.nodes("n", 1, "8")
	s.applyText(lingering(ofSize(lonePod("victim", scheduler), "6")))
	s.running("victim", 1)
	s.applyText(prioritized(ofSize(lonePod("preemptor", scheduler), "6"), class(1000)))
	s.eventually("the preemptor is nominated and its victim ends", func(context.Context) (bool, string) {
		p, v := s.pods("preemptor")[0], s.pods("victim")[0]
		return p.Status.NominatedNodeName == "n-0" && v.DeletionTimestamp != nil,
			fmt.Sprintf("nominated for %q, the victim's deletion %v", p.Status.NominatedNodeName, v.DeletionTimestamp)
	})
	return class
}

// besides runs a story beside kube-scheduler and beside another profile of the same
// scheduler.
func besides(t *testing.T, then func(s *story, scheduler string)) {
	t.Run("kube-scheduler", func(t *testing.T) { then(tell(t), "default-scheduler") })
	t.Run("profile", func(t *testing.T) {
		s := tell(t)
		s.restarted(
			func(c *stack.Config) { c.Profile = twoProfiles(t) },
			func(c *stack.Config) { c.Profile = nil })
		then(s, "other")
	})
}

// Room that a pod of another scheduler is nominated for is left to it by groups of
// lower priority, which wait with numbers; groups above it take it.
func TestANominatedPodGetsItsRoom(t *testing.T) {
	besides(t, func(s *story, scheduler string) {
		class := s.preempting(scheduler)
		s.applyText(prioritized(job("low", 2, "1"), class(100)))
		s.refused("job-low-", "NoRoom", "needs 2 pods with cpu 1", "room for 0")
		s.noneOnNodes("low-")
		s.applyText(prioritized(job("high", 1, "1"), class(2000)))
		s.running("high-", 1)
		s.refused("job-low-", "NoRoom", "needs 2 pods with cpu 1", "room for 0")
		s.letGo("victim")
		s.running("preemptor", 1)
		s.refused("job-low-", "NoRoom", "needs 2 pods with cpu 1", "room for 1")
		s.noneOnNodes("low-")
		s.noneRejected()
	})
}

// What ends with a nomination is an event that helps, though nothing was held.
func TestAGroupStartsWhenANominationGoes(t *testing.T) {
	besides(t, func(s *story, scheduler string) {
		class := s.preempting(scheduler)
		s.applyText(prioritized(job("low", 2, "1"), class(100)))
		s.refused("job-low-", "NoRoom", "needs 2 pods with cpu 1", "room for 0")
		s.noneOnNodes("low-")
		s.kubectl("delete", "pod", "preemptor", "-n", s.ns, "--force", "--grace-period=0")
		s.running("low-", 2)
		s.letGo("victim")
		s.noneRejected()
	})
}
