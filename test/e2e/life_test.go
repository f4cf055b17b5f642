package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

// Requests 14 of the lessons of earlier systems: a Job with more
// completions than parallelism ends with fewer pods than it began with.
func TestJobWithMoreCompletionsThanParallelismRunsToItsEnd(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.apply("more-completions-than-parallelism.yaml")
	s.eventually("6 pods succeeded", func(ctx context.Context) (bool, string) {
		j, err := s.Client().BatchV1().Jobs(s.ns).Get(ctx, "waves", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return j.Status.Succeeded == 6, fmt.Sprintf("%+v", j.Status)
	})
}

func TestWhatAnotherPluginRefusesIsSaidOnTheGroup(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText(strings.Replace(job("claims", 2, "1"), "      containers:", `      volumes: [{name: data, persistentVolumeClaim: {claimName: nowhere}}]
      containers:`, 1))
	s.refused("job-claims-", "NodesRuledOut", `persistentvolumeclaim "nowhere" not found`)
	s.noneOnNodes("claims-")
}

// While the sidecar is away no assignment is revoked,
// and pods with assignments are bound without it.
func TestSidecarKilledRightAfterAMatch(t *testing.T) {
	s := tell(t)
	s.nodes("n", 10, "8")
	s.applyText(job("large", 80, "1"))
	if err := s.Process(stack.Scheduler).WaitLog(t.Context(), `group="`+s.ns+"/job-large-"); err != nil {
		t.Fatal(err)
	}
	s.kill(stack.Sidecar)
	s.running("large-", 80)
	s.start(stack.Sidecar)
	s.placed("job-large-")
	s.applyText(job("more", 1, "1"))
	s.refused("job-more-", "NoRoom", "room for 0")
	s.noneRejected()
}

func TestASuspendedJobIsNoLongerCalledPlaced(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText(job("rests", 2, "1"))
	s.running("rests-", 2)
	s.placed("job-rests-")
	s.kubectl("patch", "job", "rests", "-n", s.ns, "-p", `{"spec":{"suspend":true}}`)
	s.refused("job-rests-", "Suspended", "Job/rests is suspended")
	s.kubectl("patch", "job", "rests", "-n", s.ns, "-p", `{"spec":{"suspend":false}}`)
	s.running("rests-", 2)
	s.placed("job-rests-")
}

// State 3: siblings are untouched, and the replacement stays near.
func TestADeletedMemberIsReplacedAlone(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "2")
	s.applyText(job("four", 4, "2"))
	s.running("four-", 4)
	before := s.pods("four-")
	s.kubectl("delete", "pod", before[0].Name, "-n", s.ns, "--force", "--grace-period=0")
	s.running("four-", 4)
	after := map[string]corev1.Pod{}
	for _, p := range s.pods("four-") {
		after[string(p.UID)] = p
	}
	for _, p := range before[1:] {
		if now, ok := after[string(p.UID)]; !ok || now.Spec.NodeName != p.Spec.NodeName {
			t.Errorf("sibling %s was touched", p.Name)
		}
	}
}

// Flow 16: a waiting group does not retry after an event that cannot help it.
func TestWaitingGroupsCostNothingWhileOthersComeAndGo(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.nodes("tainted", 1, "8", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	})
	for i := range 3 {
		s.applyText(job(fmt.Sprintf("never-%d", i), 3, "8"))
		s.refused(fmt.Sprintf("job-never-%d-", i), "NeverFits", "could hold 2", "untolerated taint")
	}
	asked := func() int {
		n, err := s.SchedulerMetric(t.Context(), "fluence_refusals_total")
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	before := asked()
	const others = 12
	for i := range others {
		s.applyText(lonePod(fmt.Sprintf("other-%d", i), "default-scheduler"))
	}
	s.running("other-", others)
	// Late news of the nodes may let each group retry once. The other pods that come must not.
	if n := asked() - before; n >= others {
		t.Errorf("groups that never fit were asked for %d times while %d others came", n, others)
	}
}

// Pods that come before the PodGroup of their owner wait for it.
func TestLabelledPodsWithoutASizeWaitForTheirPodGroup(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	for i := range 2 {
		s.applyText(strings.Replace(lonePod(fmt.Sprintf("m-%d", i), "fluence"), "}\nspec", ", labels: {scheduling.x-k8s.io/pod-group: late}}\nspec", 1))
	}
	s.eventually("an event that names the label", func(context.Context) (bool, string) {
		out := s.kubectl("get", "events", "-n", s.ns)
		return strings.Contains(out, "NoPodGroup") && strings.Contains(out, "fluence.group-size"), out
	})
	s.noneOnNodes("m-")
	s.applyText("apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: late}\nspec: {minMember: 2}\n")
	s.running("m-", 2)
	s.placed("late")
}

// A standby sees the same groups, and must not report on them.
func TestAStandbySchedulerSaysNothing(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	s.applyText(job("waits", 2, "8"))
	s.refused("job-waits-", "NeverFits", "could hold 1")
	config := schedulerConfigWith(t, map[string]any{"endpoint": "unix://" + s.Dir() + "/nobody.sock"})
	bin, err := stack.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.StartProcess(t.Context(), "standby", bin+"/"+stack.Scheduler, "--config="+config, "--secure-port=0", "-v=2")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.WaitLog(ctx, "The matcher does not answer"); err != nil {
		t.Fatal(err)
	}
	s.kubectl("delete", "job", "waits", "-n", s.ns)
	s.applyText(job("again", 2, "8"))
	s.refused("job-again-", "NeverFits", "could hold 1")
	if events := s.kubectl("get", "events", "-n", s.ns); strings.Contains(events, "MatcherUnavailable") {
		t.Errorf("the standby spoke:\n%s", events)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}
