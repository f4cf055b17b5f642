package fluence

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// One pod of a high priority does not let the rest of
// its gang overtake pods of a priority in between.
func TestOneHighPriorityPodDoesNotRaiseItsGroup(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		priority := func(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }
		for i := range 3 {
			r.node(fmt.Sprintf("n%d", i), 4)
			r.pod(fmt.Sprintf("old-%d", i), objects.CPU("3"), objects.Never, objects.OnNode(fmt.Sprintf("n%d", i)), objects.Elsewhere)
		}
		r.pass(settleTime)
		r.schedule()
		r.pod("victim", objects.CPU("4"), objects.Elsewhere, priority(500))
		r.pass(time.Second)
		r.podGroupAPI.put(aPodGroup(g.Name, 3, "pg"))
		r.pod("g-0", objects.InGroup(g.Name), objects.CPU("4"), objects.Never, priority(1000))
		r.pass(time.Second)
		for i := 1; i < 3; i++ {
			r.pod(fmt.Sprintf("g-%d", i), objects.InGroup(g.Name), objects.CPU("4"), objects.Never, priority(0))
		}
		r.pass(11 * time.Minute)
		r.removeFrom("elsewhere", "old-0")
		r.pass(time.Minute)
		if !r.runs("victim") {
			t.Errorf("it waits for a gang two of three pods of which have a lower priority: %s", r.message())
		}
	})
}

// A group that was refused and is recreated with smaller pods starts.
func TestAGroupOfSmallerPodsStarts(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.filled(2, 2)
		for i := range 2 {
			r.remove(fmt.Sprintf("g-%d", i))
		}
		r.pass(time.Second)
		for i := range 2 {
			r.pod(fmt.Sprintf("g-%d", 5+i), objects.InGroup(g.Name), objects.CPU("500m"))
		}
		r.pass(5 * time.Second)
		if !r.runs("g-5") {
			t.Errorf("it does not start: %s", r.message())
		}
	})
}
