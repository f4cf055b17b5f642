package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/stack"
)

// Three victims use their grace period. Each is deleted once, and gangs that come meanwhile do not get
// the room, not even where a victim has gone already.
func (s *scene) slowEnds() {
	s.add(part{name: "a", nodes: 3, cpu: "2"})
	s.plant(crowd{name: "slow", pods: 3, cpu: "2", priority: 10, metadata: "annotations: {" + kubelet.Lingers + `: "yes"}`})
	victims := s.pods(s.name("slow-"))
	s.applyText(s.text(crowd{name: "high", pods: 3, cpu: "2", priority: 1000}))
	s.refused(s.name("high"), reason.Preempting, "waits for group "+s.ns+"/"+s.name("slow")+" (3 pods, priority 10) to end", "3 of 3 pods are still ending")
	s.eventually("a pod of the gang is Preempting, and none Unschedulable", func(context.Context) (bool, string) {
		var reasons []string
		for _, p := range s.pods(s.name("high-")) {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled {
					reasons = append(reasons, c.Reason)
				}
			}
		}
		return slices.Contains(reasons, reason.Preempting) && !slices.Contains(reasons, corev1.PodReasonUnschedulable), fmt.Sprint(reasons)
	})
	s.applyText(s.text(crowd{name: "early", pods: 2, cpu: "1", priority: 100}))
	s.refused(s.name("early"), reason.NoRoom, "room for 0")
	s.letLeave(victims[:2])
	s.applyText(s.text(crowd{name: "late", pods: 2, cpu: "1", priority: 100}))
	s.refused(s.name("late"), reason.NoRoom, "room for 0", "room is kept for "+s.ns+"/"+s.name("high"))
	s.noneOnNodes(s.name("high-"))
	s.letLeave(victims[2:])
	s.running(s.name("high-"), 3)
	s.noneOnNodes(s.name("early-"))
	s.noneOnNodes(s.name("late-"))
	s.deletedOnce("slow-0", "slow-1", "slow-2")
	s.drop("early")
	s.drop("late")
}

// letLeave ends the grace period of pods that linger, and waits until they have gone.
func (s *scene) letLeave(pods []corev1.Pod) {
	s.Helper()
	args := []string{"annotate", "pods"}
	for _, p := range pods {
		args = append(args, p.Name)
	}
	s.kubectl(append(args, "-n", s.ns, kubelet.Lingers+"-")...)
	s.eventually("the pods have gone", func(context.Context) (bool, string) {
		n := 0
		for _, now := range s.pods(s.pool + "-") {
			if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == now.UID }) {
				n++
			}
		}
		return n == 0, fmt.Sprintf("%d are left", n)
	})
}

// A gang waits for its victims. Other pods go that it could not evict, and it starts in their room. The victims
// are still there, nobody else is evicted, and their room is for others.
func (s *scene) otherRoom() {
	s.add(part{name: "a", nodes: 2, cpu: "2"}, part{name: "b", nodes: 2, cpu: "2"}, part{name: "c", nodes: 2, cpu: "2"})
	s.plant(
		crowd{name: "slow", pods: 2, cpu: "2", priority: 10, part: "a", metadata: "annotations: {" + kubelet.Lingers + `: "yes"}`},
		crowd{name: "equal", pods: 2, cpu: "2", priority: 1000, part: "b"},
		crowd{name: "other", pods: 2, cpu: "2", priority: 20, part: "c"},
	)
	victims := s.pods(s.name("slow-"))
	s.applyText(s.text(crowd{name: "high", pods: 2, cpu: "2", priority: 1000}))
	s.refused(s.name("high"), reason.Preempting, "2 of 2 pods are still ending")
	s.drop("equal")
	s.running(s.name("high-"), 2)
	for pod, node := range s.onNodes(s.name("high-")) {
		if !strings.HasPrefix(node, s.name("b-")) {
			s.Errorf("pod %s is on %s, where nothing was free", pod, node)
		}
	}
	s.letLeave(victims)
	s.applyText(s.text(crowd{name: "low", pods: 2, cpu: "2", priority: 10}))
	s.running(s.name("low-"), 2)
	s.running(s.name("other-"), 2)
	s.deletedOnce("slow-0", "slow-1")
}

// A Job with the default backoffLimit, a StatefulSet and bare pods have the same priority. The Job and the StatefulSet
// are evicted first, and run again afterwards. Bare pods are evicted only if that is not enough, and have gone for
// good. The Job is evicted twice, and runs to its end.
func (s *scene) comeBack() {
	s.add(part{name: "job", nodes: 4, cpu: "2"}, part{name: "set", nodes: 1, cpu: "2"}, part{name: "bare", nodes: 1, cpu: "2"})
	in := func(part string) string {
		return "priorityClassName: " + s.class(10) + "\n      nodeSelector: {case: " + s.pool + ", part: " + part + "}"
	}
	name := s.name("job")
	s.applyText(strings.Replace(jobOn(name, s.pool, 8, asking(`cpu: "1"`)), "nodeSelector: {case: "+s.pool+"}", in("job"), 1) +
		strings.Replace(statefulSet(s.name("set"), 2, "1"), "schedulerName: fluence", "schedulerName: fluence\n      "+in("set"), 1) +
		s.text(crowd{name: "bare", pods: 2, cpu: "1", priority: 10, alone: true, part: "bare"}))
	run := func(bare int) {
		s.Helper()
		s.running(s.name("job-"), 8)
		s.running(s.name("set-"), 2)
		s.running(s.name("bare-"), bare)
	}
	run(2)
	bare := s.pods(s.name("bare-"))
	for nodes := 5; nodes <= 6; nodes++ {
		high := fmt.Sprintf("high-%d", nodes)
		s.applyText(s.text(crowd{name: high, pods: nodes, cpu: "2", priority: 1000}))
		s.running(s.name(high+"-"), nodes)
		s.refused("job-"+name+"-", reason.NoRoom, "needs 8 pods")
		if nodes == 5 {
			s.untouched(bare)
		}
		s.drop(high)
		run((6 - nodes) * 2)
	}
	s.kubectl("annotate", "pods", "-n", s.ns, "-l", "job-name="+name, kubelet.RunFor+"=0s")
	s.eventually("the Job has ended", func(ctx context.Context) (bool, string) {
		j, err := s.Client().BatchV1().Jobs(s.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if j.Status.Failed > 0 {
			s.Fatalf("pods of the Job failed: %+v", j.Status)
		}
		return j.Status.CompletionTime != nil && j.Status.Succeeded == 8, fmt.Sprintf("%+v", j.Status)
	})
}

// A gang has its minimum and wants one more pod: nobody is evicted for it. It loses a pod, another one takes the room,
// and this one is evicted for the pod that the gang lacks.
func (s *scene) lackingMembers() {
	s.add(part{name: "a", nodes: 2, cpu: "2"}, part{name: "b", nodes: 1, cpu: "2"})
	s.plant(crowd{name: "beside", pods: 1, cpu: "2", priority: 20, alone: true, part: "b"})
	high := s.text(crowd{name: "high", pods: 3, cpu: "2", priority: 1000, minimum: 2})
	rest := func() {
		s.Helper()
		s.running(s.name("high-"), 2)
		s.condition(s.name("high"), "Scheduled", metav1.ConditionTrue, "Placed", "1 more pod is without a node: NoRoom")
	}
	s.applyText(high)
	rest()
	s.deletedOnce()
	pods := s.pods(s.name("high-"))
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	for _, p := range pods[:2] { // the one that waits, and one of those that run
		s.lose(p.Name)
	}
	s.plant(crowd{name: "low", pods: 1, cpu: "2", priority: 10, alone: true, part: "a"})
	s.applyText(high)
	rest()
	s.event(reason.Preempted, "evicted for pod "+s.ns+"/"+s.name("high-"))
	s.running(s.name("beside-"), 1)
	s.deletedOnce("low-0")
	s.drop("high")
}

// A gang waits for its victims, and a gang of a higher priority comes. It takes the room that the first one waits for, and
// evicts nobody. The first one evicts others, and each victim is evicted once.
func (s *scene) higherComes() {
	lingers := "annotations: {" + kubelet.Lingers + `: "yes"}`
	s.add(part{name: "a", nodes: 2, cpu: "2"}, part{name: "b", nodes: 2, cpu: "2"})
	s.plant(
		crowd{name: "slow", pods: 2, cpu: "2", priority: 10, part: "a", metadata: lingers},
		crowd{name: "other", pods: 2, cpu: "2", priority: 20, part: "b", metadata: lingers},
	)
	slow, other := s.pods(s.name("slow-")), s.pods(s.name("other-"))
	s.applyText(s.text(crowd{name: "first", pods: 2, cpu: "2", priority: 100}))
	s.refused(s.name("first"), reason.Preempting, "waits for group "+s.ns+"/"+s.name("slow")+" (2 pods, priority 10) to end", "2 of 2 pods are still ending")
	s.applyText(s.text(crowd{name: "second", pods: 2, cpu: "2", priority: 1000}))
	s.refused(s.name("second"), reason.NoRoom, "it fits when pods that are ending have gone, and room is kept for it")
	s.refused(s.name("first"), reason.Preempting, "waits for group "+s.ns+"/"+s.name("other")+" (2 pods, priority 20) to end", "2 of 2 pods are still ending")
	s.letLeave(slow)
	s.running(s.name("second-"), 2)
	s.noneOnNodes(s.name("first-"))
	s.letLeave(other)
	s.running(s.name("first-"), 2)
	for name, part := range map[string]string{"first-": "b-", "second-": "a-"} {
		for pod, node := range s.onNodes(s.name(name)) {
			if !strings.HasPrefix(node, s.name(part)) {
				s.Errorf("pod %s is on %s, want a node %s*", pod, node, s.name(part))
			}
		}
	}
	s.deletedOnce("other-0", "other-1", "slow-0", "slow-1")
}

// The scheduler's arguments say who may be evicted.
func TestArgumentsSayWhoIsEvicted(t *testing.T) {
	s := tell(t)
	on := s.scenes()
	s.Cleanup(func() { s.restart(stack.Scheduler, func(c *stack.Config) { delete(c.Args, "preemption") }) })
	for name, tc := range map[string]struct {
		args map[string]any
		play func(*scene)
	}{
		"nobody":                         {map[string]any{"mode": "Never"}, (*scene).evictsNobody},
		"pods that have run long enough": {map[string]any{"minRuntime": "30m"}, (*scene).longEnough},
		"pods of another scheduler that nobody makes again": {map[string]any{"foreign": "Bare"}, (*scene).foreignBare},
	} {
		t.Run(name, func(t *testing.T) {
			here := on(t)
			here.restart(stack.Scheduler, func(c *stack.Config) {
				c.Args = maps.Clone(c.Args)
				c.Args["preemption"] = tc.args
			})
			tc.play(here)
		})
	}
}

// Nobody is evicted, and the message of a gang that finds no room does not speak of it.
func (s *scene) evictsNobody() {
	s.add(part{name: "a", nodes: 2, cpu: "2"})
	s.plant(crowd{name: "low", pods: 2, cpu: "2", priority: 10})
	s.applyText(s.text(crowd{name: "high", pods: 2, cpu: "2", priority: 1000}))
	s.refused(s.name("high"), reason.NoRoom, "room for 0")
	for _, c := range s.group(s.Context(), s.name("high")).Status.Conditions {
		text := strings.ToLower(strings.ReplaceAll(c.Message, s.ns, ""))
		if strings.Contains(text, "evict") || strings.Contains(text, "preempt") || strings.Contains(text, "lower priority") {
			s.Errorf("the condition %s says %q, want nothing of evictions", c.Type, c.Message)
		}
	}
	s.running(s.name("low-"), 2)
	s.deletedOnce()
	s.drop("high")
}

// A gang that started long ago goes, and one that started a moment ago stays, although that one would be evicted
// otherwise. If there are no others, nobody goes.
func (s *scene) longEnough() {
	s.add(part{name: "a", nodes: 2, cpu: "2"}, part{name: "b", nodes: 2, cpu: "2"})
	s.plant(
		crowd{name: "old", pods: 2, cpu: "2", priority: 10, part: "a"},
		crowd{name: "young", pods: 2, cpu: "2", priority: 10, part: "b", later: true},
	)
	for _, p := range s.pods(s.name("old-")) {
		s.kubectl("patch", "pod", p.Name, "-n", s.ns, "--subresource=status", "-p",
			fmt.Sprintf(`{"status":{"conditions":[{"type":"PodScheduled","lastTransitionTime":%q}]}}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
	}
	s.applyText(s.text(crowd{name: "high", pods: 2, cpu: "2", priority: 1000}))
	s.running(s.name("high-"), 2)
	s.deletedOnce("old-0", "old-1")
	s.applyText(s.text(crowd{name: "next", pods: 2, cpu: "2", priority: 1000}))
	s.refused(s.name("next"), reason.NoRoom, "room for 0")
	s.running(s.name("young-"), 2)
	s.deletedOnce("old-0", "old-1")
	s.drop("next")
}

// Pods of kube-scheduler go that nobody makes again, and those of a Job stay, although their priority is lower.
func (s *scene) foreignBare() {
	s.add(part{name: "job", nodes: 2, cpu: "2"}, part{name: "bare", nodes: 2, cpu: "2"})
	name := s.name("job")
	s.applyText(strings.NewReplacer("schedulerName: fluence", "schedulerName: "+corev1.DefaultSchedulerName,
		"nodeSelector: {case: "+s.pool+"}", "priorityClassName: "+s.class(10)+"\n      nodeSelector: {case: "+s.pool+", part: job}").Replace(jobOn(name, s.pool, 2, asking(`cpu: "2"`))))
	s.running(name+"-", 2)
	s.plant(crowd{name: "bare", pods: 2, cpu: "2", priority: 20, alone: true, part: "bare", foreign: true})
	s.applyText(s.text(crowd{name: "high", pods: 2, cpu: "2", priority: 1000}))
	s.running(s.name("high-"), 2)
	s.running(name+"-", 2)
	s.deletedOnce("bare-0", "bare-1")
}
