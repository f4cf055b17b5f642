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

// Requests 14 of the lessons of earlier systems: a Job whose completions exceed
// its parallelism ends with fewer pods than it began with.
func TestJobWithMoreCompletionsThanParallelismRunsToItsEnd(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	long := job("waves", 4, "8", `annotations: {kwok.fluence.flux-framework.org/run-for: 1s}`)
	s.applyText(strings.Replace(long, "completions: 4", "completions: 6", 1))
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

// Seats are given back to nobody while the sidecar is away, and taken up without
// it.
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
	s.refused("job-rests-", "Gathering", "has 0 of minMember 2")
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

// Flow 16: a group that waits is not asked again for what cannot help it.
func TestWaitingGroupsCostNothingWhileOthersComeAndGo(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.nodes("tainted", 1, "8", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	})
	for i := range 3 {
		s.applyText(job(fmt.Sprintf("never-%d", i), 3, "8"))
		s.refused(fmt.Sprintf("job-never-%d-", i), "NeverFits", "room for 2", "untolerated taint")
	}
	asked := func() int { return strings.Count(s.schedulerLog(), `"Group not placed"`) }
	before := asked()
	for i := range 12 {
		s.applyText(lonePod(fmt.Sprintf("other-%d", i), "default-scheduler"))
	}
	s.running("other-", 12)
	if n := asked() - before; n > 0 {
		t.Errorf("groups that never fit were asked for %d times while others came, want none", n)
	}
}
