package fluence

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/test/objects"
)

// A pod that is created on a node, which need not exist, does not let the rest of
// its group overtake groups of a higher priority or use nodes reserved for others.
func TestPreplacedPodGivesItsGroupNoPrecedence(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }
		for i := range 3 {
			r.node(fmt.Sprintf("n%d", i), 4)
			r.pod(fmt.Sprintf("old-%d", i), objects.CPU("4"), objects.Never, objects.OnNode(fmt.Sprintf("n%d", i)), priority(2000))
		}
		r.pass(settleTime)
		r.schedule()
		r.gang(3, 3, objects.CPU("4"), objects.Never, priority(1000))
		r.pass(15 * time.Minute)
		pg := aPodGroup("m", 4, "pgm")
		pg.Namespace = "elsewhere"
		r.podGroupAPI.put(pg)
		r.pod("m-0", objects.CPU("4"), objects.Never, objects.InGroup("m"), objects.Elsewhere, priority(0), objects.CreatedOn("nope"))
		for i := 1; i < 4; i++ {
			r.pod(fmt.Sprintf("m-%d", i), objects.CPU("4"), objects.Never, objects.InGroup("m"), objects.Elsewhere, priority(0))
		}
		r.pass(time.Minute)
		for i := range 3 {
			r.remove(fmt.Sprintf("old-%d", i))
			r.pass(time.Second)
			if r.runs("m-1") || r.runs("m-2") || r.runs("m-3") {
				t.Fatalf("with %d nodes free one of the others runs, before the gang of a higher priority: %s", i+1, r.message())
			}
		}
		r.pass(time.Minute)
		if !r.runs("g-0") {
			t.Errorf("the gang of the highest priority does not run: %s", r.message())
		}
	})
}

// A minimum that is raised after a start is not missing after a restart. The
// next scheduler knows from the group's status how many pods were placed.
func TestMinimumRaisedBeforeRestartMakesNoMissingMembers(t *testing.T) {
	for message, want := range map[string]int{
		"3 pods on 2 nodes (n0: 2, n1: 1)": 2, "1 pod on 1 node (n0: 1)": 0, "pods are on nodes": 49, "": 49,
	} {
		inRig(t, realEngine(t), func(r *rig) {
			r.node("n0", 4)
			r.pass(settleTime)
			pg := aPodGroup(g.Name, 50, "pg")
			pg.Status.Conditions = []metav1.Condition{{Type: report.ConditionScheduled, Status: metav1.ConditionTrue, Reason: reason.Placed, Message: message}}
			r.podGroupAPI.put(pg)
			r.pod("g-0", objects.InGroup(g.Name), objects.CPU("3"), objects.OnNode("n0"))
			r.pass(time.Second)
			late := r.pod("g-1", objects.InGroup(g.Name), objects.CPU("3"))
			if m, _ := r.pl.groups.GroupOf(late.UID); !m.Started || m.Missing != want {
				t.Errorf("by %q %d members are lacking, want %d", message, m.Missing, want)
			}
		})
	}
}
