package fluence

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// varying matches the parts of a log line that differ from run to run.
var varying = regexp.MustCompile(` (job|took|waited)="[^"]+"`)

// groupLogLines returns the log lines about groups, without the varying parts.
func (r *rig) groupLogLines() []string {
	r.Helper()
	var lines []string
	for line := range strings.Lines(r.logged(2)) {
		if strings.HasPrefix(line, `"Group `) {
			lines = append(lines, varying.ReplaceAllString(strings.TrimSuffix(line, "\n"), " $1"))
		}
	}
	return lines
}

func (r *rig) wantGroupLogLines(want ...string) {
	r.Helper()
	if got := r.groupLogLines(); !slices.Equal(got, want) {
		r.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEachDecisionOnAGroupIsOneLine(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.schedule()
		r.gang(2, 1, objects.CPU("3"))
		r.pass(10 * time.Second)
		want := []string{`"Group refused" group="ns/g" reason="Gathering" message="waits for 1 more pod: has 1 of minMember 2"`}
		r.wantGroupLogLines(want...)
		waits := counted("fluence_group_wait_seconds")
		refusals := counted("fluence_refusals_total")
		r.pod("g-1", objects.InGroup(g.Name), objects.CPU("3"))
		r.pass(10 * time.Second)
		// The group retries whenever an event may help,
		// and the message is the same except for numbers.
		for _, name := range []string{"small-1", "small-2"} {
			r.node(name, 1)
			r.pass(10 * time.Second)
		}
		got := r.groupLogLines()
		if len(got) != 2 || !strings.HasPrefix(got[1], `"Group refused" group="ns/g" reason="NeverFits" message="needs 2 pods`) {
			t.Errorf("the log has\n%s\nwant one refusal more", strings.Join(got, "\n"))
		}
		want = got[:2]
		if n := counted("fluence_refusals_total") - refusals; n < 2 {
			t.Errorf("%v refusals are counted, want each", n)
		}
		r.node("n2", 4)
		r.pass(time.Minute)
		want = append(want,
			`"Group matched" group="ns/g" job pods="2" nodes="2" took`,
			`"Group started" group="ns/g" job pods="2" waited`,
			`"Group placed" group="ns/g" pods="2" nodes="2"`)
		r.wantGroupLogLines(want...)
		if n := counted("fluence_group_wait_seconds") - waits; n != 1 {
			t.Errorf("the wait of %v groups was measured, want 1", n)
		}
		for _, name := range []string{"g-0", "g-1"} {
			r.end(name)
		}
		r.wantGroupLogLines(append(want, `"Group ended" group="ns/g"`)...)
	})
}

// The matcher may know a node before the scheduling cycle that uses
// it: the cycle sees the cluster as it was when the cycle began.
func TestANodeThatComesDuringTheCycleIsTaken(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 4)
		asked := 0
		r.matcherFake.OnMatch(func(req match.Request) (*match.Allocation, error) {
			asked++
			node := objects.ReadyNode("n2", 4)
			if _, err := r.client.CoreV1().Nodes().Create(r.ctx, node, metav1.CreateOptions{}); err != nil {
				return nil, err
			}
			// All other parts learn of the node.
			time.Sleep(time.Millisecond)
			return &match.Allocation{ID: req.ID, Slots: []match.Slot{{Key: req.Keys[0], Node: "n2"}, {Key: req.Keys[1], Node: "n1"}}}, nil
		})
		r.schedule()
		r.gang(2, 2)
		r.pass(time.Second)
		r.wantAssigned(map[string]string{"g-0": "n2", "g-1": "n1"})
		if asked != 1 {
			t.Errorf("the matcher was asked %d times, want once", asked)
		}
		r.wantGroupLogLines(
			`"Group matched" group="ns/g" job pods="2" nodes="2" took`,
			`"Group started" group="ns/g" job pods="2" waited`,
			`"Group placed" group="ns/g" pods="2" nodes="2"`)
	})
}

// The scheduler itself may see the node last of all.
func TestAnAssignmentOnANewNodeWaitsForTheSchedulerToSeeIt(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.node("n1", 4)
		node := objects.ReadyNode("n1", 4)
		log := klog.FromContext(r.ctx)
		r.must(r.sched.Cache.RemoveNode(log, node))
		r.give("n1", "n1")
		pods := r.gang(2, 2)
		for range 2 {
			for _, pod := range pods {
				_, _, status := r.preFilter(pod)
				r.wantStatus(status, fwk.Unschedulable, "node n1 was added during this scheduling cycle; the pod is tried again in the next one")
			}
		}
		if got := r.pl.groups.Unclaimed(); len(got) != 2 {
			t.Errorf("%d pods with seats wait for their cycle, want both", len(got))
		}
		r.sched.Cache.AddNode(log, node)
		for _, pod := range pods {
			if node := r.nodeOf(pod); node != "n1" {
				t.Errorf("pod %s goes to %s, want n1", pod.Name, node)
			}
		}
		r.wantGroupLogLines(`"Group matched" group="ns/g" job pods="2" nodes="1" took`)
	})
}

func TestRevokedGroupLogsReason(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.node("n2", 4)
		pods := r.gang(2, 2, objects.CPU("3"))
		gaveBack := counted("fluence_assignments_revoked_total")
		if _, _, status := r.preFilter(pods[0]); !status.IsSuccess() {
			t.Fatal(status)
		}
		r.remove("g-1")
		r.wantGroupLogLines(
			`"Group matched" group="ns/g" job pods="2" nodes="2" took`,
			`"Group lost its nodes" group="ns/g" job pods="2" reason="pod g-1 was deleted"`)
		if n := counted("fluence_assignments_revoked_total") - gaveBack; n != 1 {
			t.Errorf("it was counted %v times", n)
		}
	})
}

// end lets a pod succeed.
func (r *rig) end(name string) {
	r.Helper()
	r.update(name, objects.InPhase(corev1.PodSucceeded))
}
