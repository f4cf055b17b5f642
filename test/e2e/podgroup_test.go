package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/stack"
)

const podGroups = "podgroups.scheduling.x-k8s.io"

func (s *story) dropPodGroup(prefix string) {
	s.Helper()
	s.kubectl("delete", podGroups, s.group(s.Context(), prefix).Name, "-n", s.ns)
}

func TestMinMemberIsEditedWhileTheGroupWaits(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "2")
	s.applyText(mine(3) + member("m-0", "mine", "1") + member("m-1", "mine", "1"))
	s.refused("mine", "Gathering", "has 2 of minMember 3")
	s.edit("mine", `"minMember":4`)
	s.refused("mine", "Gathering", "has 2 of minMember 4")
	s.applyText(member("m-2", "mine", "1") + member("m-3", "mine", "1"))
	s.refused("mine", "NeverFits", "needs 4 pods", "could hold 2")
	s.noneOnNodes("m-")
	s.edit("mine", `"minMember":2`)
	s.running("m-", 2)
	started := slices.DeleteFunc(s.pods("m-"), onNoNode)
	s.edit("mine", `"minMember":4`)
	s.condition("mine", "Scheduled", metav1.ConditionTrue, "Placed", "2 more pods are without a node: NoRoom")
	s.untouched(started)
	if g := s.group(t.Context(), "mine"); g.Spec.MinMember != 4 {
		t.Errorf("minMember = %d, want what the user wrote last", g.Spec.MinMember)
	}
}

// A user may edit the controller's PodGroup too.
func TestAUsersMinMemberGoesBeforeTheJobs(t *testing.T) {
	s := tell(t)
	s.nodes("n", 3, "8")
	s.apply("wait-for-a-node.yaml")
	s.refused("job-four-nodes-", "NeverFits", "needs 4 pods", "could hold 3")
	s.edit("job-four-nodes-", `"minMember":3`)
	s.running("four-nodes-", 3)
	s.restart(stack.Controller, func(*stack.Config) {})
	s.nodes("late", 1, "8")
	s.running("four-nodes-", 4)
	s.eventually("phase Running with the user's minMember", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, "job-four-nodes-")
		return g != nil && g.Spec.MinMember == 3 && g.Status.Phase == scheduling.PodGroupRunning, s.columns("job-four-nodes-")
	})
}

func TestAPodGroupDeletedWhileItsGroupWaits(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	s.applyText(job("waits", 2, "8") + "---\n" + mine(2) + member("m-0", "mine", "8") + member("m-1", "mine", "8"))
	s.refused("mine", "NeverFits", "needs 2 pods")
	s.refused("job-waits-", "NeverFits", "needs 2 pods")
	before := s.group(t.Context(), "job-waits-")
	s.dropPodGroup("job-waits-")
	s.dropPodGroup("mine")
	// The controller creates its PodGroup again. Nobody creates the user's again.
	s.eventually("another PodGroup for the Job", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, "job-waits-")
		return g != nil && g.Name == before.Name && g.UID != before.UID, s.columns("")
	})
	s.refused("job-waits-", "NeverFits", "needs 2 pods")
	s.nodes("late", 3, "8")
	s.running("waits-", 2)
	s.placed("job-waits-")
	s.event("NoPodGroup", "does not exist")
	s.noneOnNodes("m-")
	s.applyText(mine(2))
	s.running("m-", 2)
	s.placed("mine")
}

func TestAPodGroupDeletedWhileItsGroupRuns(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.applyText(job("runs", 2, "8") + "---\n" + mine(2) + member("m-0", "mine", "8") + member("m-1", "mine", "8"))
	s.running("runs-", 2)
	s.running("m-", 2)
	s.placed("job-runs-")
	pods := s.pods("")
	before := s.group(t.Context(), "job-runs-")
	s.dropPodGroup("job-runs-")
	s.dropPodGroup("mine")
	s.eventually("another PodGroup for the Job", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, "job-runs-")
		return g != nil && g.UID != before.UID && g.Status.Phase == scheduling.PodGroupRunning, s.columns("")
	})
	s.placed("job-runs-")
	// The pods still hold what they held.
	s.applyText(job("next", 1, "8"))
	s.refused("job-next-", "NoRoom", "room for 0")
	s.untouched(pods)
	if g := s.group(t.Context(), "mine"); g != nil {
		t.Errorf("PodGroup %s came back, which a user had made and deleted", g.Name)
	}
}

// columns returns what kubectl prints for the PodGroups with a name prefix.
func (s *story) columns(prefix string) string {
	s.Helper()
	out, _, err := s.Kubectl(context.WithoutCancel(s.Context()), "get", "fpg", "-n", s.ns)
	if err != nil {
		return err.Error()
	}
	var rows []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "NAME ") || strings.HasPrefix(line, prefix) {
			rows = append(rows, strings.Join(fields, " "))
		}
	}
	return strings.Join(rows, "\n")
}

func TestKubectlShowsHowFarAGroupIs(t *testing.T) {
	s := tell(t)
	s.nodes("n", 3, "8")
	s.applyText(job("goes", 2, "8"))
	s.running("goes-", 2)
	s.applyText(job("waits", 2, "8"))
	for prefix, want := range map[string]string{"job-goes-": " 2 2 2 Running Placed ", "job-waits-": " 2 2 0 Pending NoRoom "} {
		s.eventually("a row of "+prefix, func(context.Context) (bool, string) {
			got := s.columns(prefix)
			header, row, _ := strings.Cut(got, "\n")
			return header == "NAME MIN SIZE BOUND PHASE REASON AGE" && strings.Contains(row, want), got
		})
	}
}

// Flow 20 of the lessons of earlier systems: the controller never deletes
// PodGroups that users created. PodGroups that it created go with their owner.
func TestAPodGroupLivesAsLongAsWhatItIsFor(t *testing.T) {
	s := tell(t)
	s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = []string{"--empty-group-delay=1s"} })
	defer s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = nil })
	s.nodes("n", 1, "8")
	s.applyText(job("ends", 2, "1", `annotations: {kwok.fluence.flux-framework.org/run-for: 1ms}`))
	s.applyText(mine(1) + member("mine-0", "mine", "1"))
	s.applyText(member("bare-0", "bare", "1", sized(2)) + member("bare-1", "bare", "1", sized(2)))
	s.running("mine-", 1)
	s.running("bare-", 2)
	s.placed("bare")
	s.eventually("phase Finished", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, "job-ends-")
		return g != nil && g.Status.Phase == scheduling.PodGroupFinished, s.columns("")
	})
	s.kubectl("delete", "pods", "mine-0", "bare-0", "bare-1", "-n", s.ns, "--force", "--grace-period=0")
	s.without("bare")
	if s.group(t.Context(), "mine") == nil {
		t.Error("a user's own PodGroup is gone with its pods")
	}
	g := s.group(t.Context(), "job-ends-")
	if g == nil || g.Status.Phase != scheduling.PodGroupFinished {
		t.Fatalf("PodGroup of a finished Job: %+v, want it to stay", g)
	}
	if c := meta.FindStatusCondition(g.Status.Conditions, "Incomplete"); c != nil && c.Status == "True" {
		t.Errorf("a finished group is incomplete: %+v", c)
	}
	s.kubectl("delete", "job", "ends", "-n", s.ns)
	s.without("job-ends-")
}
