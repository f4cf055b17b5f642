package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// allocatable changes a node's allocatable resources, as its kubelet does.
func (s *story) allocatable(node, resource, amount string) {
	s.Helper()
	s.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"capacity":{%[1]q:%[2]q},"allocatable":{%[1]q:%[2]q}}}`, resource, amount))
}

// resize changes the CPU request of the running pod elastic.
func (s *story) resize(cpu string) {
	s.Helper()
	s.kubectl("patch", "pod", "elastic", "-n", s.ns, "--subresource=resize", "-p",
		fmt.Sprintf(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":%q}}}]}}`, cpu))
}

// resized waits until the status of the pod elastic has an amount
// of CPU, and why it has no more: Deferred, Infeasible or nothing.
func (s *story) resized(cpu, pending string) {
	s.Helper()
	s.eventually(fmt.Sprintf("elastic to have cpu %s, %q", cpu, pending), func(context.Context) (bool, string) {
		p := s.pods("elastic")[0]
		why := ""
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodResizePending {
				why = c.Reason
			}
		}
		has := "none"
		if r := p.Status.ContainerStatuses[0].Resources; r != nil {
			has = r.Requests.Cpu().String()
		}
		return has == cpu && why == pending, fmt.Sprintf("cpu %s, %q", has, why)
	})
}

// State 7 of the lessons of earlier systems, for resizes in place: a pod is charged
// what it has been granted or waits for. What it releases lets a waiting group start.
func TestResizedPodsAreChargedWhatTheyHave(t *testing.T) {
	for _, scheduler := range []string{"fluence", "default-scheduler"} {
		t.Run(scheduler, func(t *testing.T) {
			s := tell(t)
			s.nodes("n", 1, "8")
			s.applyText(ofSize(lonePod("elastic", scheduler), "2"))
			s.running("elastic", 1)
			s.resize("5")
			s.resized("5", "")
			s.applyText(job("two", 2, "2"))
			s.refused("job-two-", "NoRoom", "needs 2 pods with cpu 2", "room for 1")
			s.resize("3")
			s.resized("3", "")
			s.running("two-", 2)

			// 7 are in use. A pending resize holds its room, and no pod comes there.
			before := s.pods("")
			s.resize("8")
			s.resized("3", corev1.PodReasonDeferred)
			s.applyText(job("half", 1, "500m"))
			s.refused("job-half-", "NoRoom", "needs 1 pod with cpu 500m", "room for 0")
			s.untouched(before)
			// A resize that the node can never grant holds nothing.
			s.allocatable("n-0", "cpu", "7500m")
			s.resized("3", corev1.PodReasonInfeasible)
			s.running("half-", 1)
			s.untouched(before)
			s.noneRejected()
		})
	}
}

// State 7 of the lessons of earlier systems, for allocatable that shrinks
// below what is held: running pods stay, no pod comes, and growth helps.
func TestAllocatableThatShrinksBelowWhatIsHeld(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	s.applyText(job("runs", 3, "2"))
	s.running("runs-", 3)
	before := s.pods("runs-")
	s.allocatable("n-0", "cpu", "4")
	s.applyText(job("next", 1, "1"))
	s.refused("job-next-", "NoRoom", "needs 1 pod with cpu 1", "room for 0")
	s.applyText(job("large", 1, "6"))
	s.refused("job-large-", "NeverFits", "cpu 6 wanted, largest node has 4")
	s.lose(before[2].Name) // its replacement is a missing member, and waits too
	s.eventually("the replacement", func(context.Context) (bool, string) {
		pods := s.pods("runs-")
		return len(pods) == 3 && slices.ContainsFunc(pods, onNoNode), fmt.Sprintf("%d pods", len(pods))
	})
	s.noneOnNodes("next-")
	s.untouched(before[:2])
	s.allocatable("n-0", "cpu", "7")
	s.running("runs-", 3)
	s.running("next-", 1)
	s.refused("job-large-", "NoRoom", "room for 0")
	s.untouched(before[:2])
	s.noneRejected()
}

// State 7 of the lessons of earlier systems, for a device plugin that starts late.
func TestADevicePluginThatArrivesLate(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	gpus := strings.Replace(job("gpus", 2, "1"), `{cpu: "1"}`, `{cpu: "1", nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}`, 1)
	s.applyText(gpus)
	s.refused("job-gpus-", "NeverFits", "no node has nvidia.com/gpu")
	s.allocatable("n-1", "nvidia.com/gpu", "2")
	s.refused("job-gpus-", "NeverFits", "needs 2 pods", "could hold 1")
	s.noneOnNodes("gpus-")
	s.allocatable("n-1", "nvidia.com/gpu", "4")
	s.running("gpus-", 2)
	for pod, node := range s.onNodes("gpus-") {
		if node != "n-1" {
			t.Errorf("pod %s is on %s, want n-1", pod, node)
		}
	}
}

// A mishap is what happens to a node while groups wait and run.
type mishap struct {
	befall, mend func(s *story, node string)
	// reason and words are the reason and the message for a group that needs the node.
	reason string
	words  []string
}

// State 7 of the lessons of earlier systems: a node is cordoned, tainted or
// not ready. Running pods stay, and no pod comes there meanwhile. A group
// that needs the node is given the reason, and starts when it is over.
func TestANodeIsOutForAWhile(t *testing.T) {
	cases := map[string]mishap{
		"cordoned": {
			befall: func(s *story, node string) { s.kubectl("cordon", node) },
			mend:   func(s *story, node string) { s.kubectl("uncordon", node) },
			reason: "NeverFits", words: []string{"could hold 1", "1 is excluded", "unschedulable"},
		},
		"tainted": {
			befall: func(s *story, node string) { s.kubectl("taint", "node", node, "for=others:NoSchedule") },
			mend:   func(s *story, node string) { s.kubectl("taint", "node", node, "for-") },
			reason: "NeverFits", words: []string{"could hold 1", "1 is excluded", "untolerated taint"},
		},
		"not-ready": {
			befall: func(s *story, node string) {
				// KWOK would report at once that the node is ready.
				s.signal(cluster.Kwok, syscall.SIGSTOP)
				s.Cleanup(func() { s.signal(cluster.Kwok, syscall.SIGCONT) })
				s.kubectl("patch", "node", node, "--subresource=status", "-p", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Test"}]}}`)
				s.eventually("the taint of a node that is not ready", func(context.Context) (bool, string) {
					taints := s.kubectl("get", "node", node, "-o", "jsonpath={.spec.taints}")
					return strings.Contains(taints, corev1.TaintNodeNotReady), taints
				})
			},
			mend:   func(s *story, _ string) { s.signal(cluster.Kwok, syscall.SIGCONT) },
			reason: "NeverFits", words: []string{"could hold 1"},
		},
	}
	for name, m := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t)
			s.nodes("n", 2, "8")
			s.applyText(job("runs", 2, "6"))
			s.running("runs-", 2)
			before := s.pods("runs-")
			s.applyText(job("waits", 2, "7"))
			s.refused("job-waits-", "NoRoom", "needs 2 pods with cpu 7", "room for 0")
			m.befall(s, "n-1")
			s.refused("job-waits-", m.reason, append([]string{"needs 2 pods with cpu 7"}, m.words...)...)
			s.untouched(before)
			// It would also fit on the node that is out.
			s.applyText(job("small", 2, "1"))
			s.bound("small-", 2)
			for pod, node := range s.onNodes("small-") {
				if node != "n-0" {
					t.Errorf("pod %s is on %s, which is out", pod, node)
				}
			}
			m.mend(s, "n-1")
			s.refused("job-waits-", "NoRoom", "needs 2 pods with cpu 7", "room for 0")
			s.untouched(before)
			s.kubectl("delete", "job", "runs", "small", "-n", s.ns)
			s.running("waits-", 2)
			s.noneRejected()
		})
	}
}

// bound waits until n pods with a name prefix have nodes.
func (s *story) bound(prefix string, n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d pods %s* on nodes", n, prefix), func(context.Context) (bool, string) {
		on := s.onNodes(prefix)
		return len(on) == n, fmt.Sprint(on)
	})
}

// State 7 of the lessons of earlier systems, for a node that goes away: a
// group that waits gets the reason that it never fits. A group that lost a
// member there continues with the rest, and gets another when a node comes.
func TestANodeGoesAway(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText(job("runs", 2, "5"))
	s.running("runs-", 2)
	stays := slices.DeleteFunc(s.pods("runs-"), func(p corev1.Pod) bool { return p.Spec.NodeName != "n-0" })
	s.applyText(job("waits", 2, "3"))
	s.running("waits-", 2)
	s.applyText(job("large", 2, "8"))
	s.refused("job-large-", "NoRoom", "needs 2 pods with cpu 8", "room for 0")
	stays = append(stays, slices.DeleteFunc(s.pods("waits-"), func(p corev1.Pod) bool { return p.Spec.NodeName != "n-0" })...)
	if len(stays) != 2 {
		t.Fatalf("%d pods on n-0, want one of each group", len(stays))
	}
	if err := s.RemoveNodes(t.Context(), "n-1"); err != nil {
		t.Fatal(err)
	}
	s.refused("job-large-", "NeverFits", "needs 2 pods with cpu 8", "could hold 1")
	// The garbage collector would do so within a minute or two.
	for _, p := range s.pods("") {
		if p.Spec.NodeName == "n-1" {
			s.lose(p.Name)
		}
	}
	s.eventually("the lost members replaced by others", func(context.Context) (bool, string) {
		waiting := 0
		for _, p := range s.pods("") {
			if !strings.HasPrefix(p.Name, "large-") && onNoNode(p) {
				waiting++
			}
		}
		return waiting == 2, fmt.Sprintf("%d wait", waiting)
	})
	s.untouched(stays)
	s.nodes("new", 1, "8")
	s.running("runs-", 2)
	s.running("waits-", 2)
	s.untouched(stays)
	s.refused("job-large-", "NoRoom", "room for 0")
}

// daemonSet returns a DaemonSet of kube-scheduler's, with an amount of CPU on each node.
func daemonSet(name, cpu string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %s}
spec:
  selector: {matchLabels: {e2e: %[1]s}}
  template:
    metadata: {labels: {e2e: %[1]s}}
    spec:
      containers:
      - {name: main, image: busybox, resources: {requests: {cpu: "%s"}}}
`, name, cpu)
}

// State 8 of the lessons of earlier systems: pods of kube-scheduler
// and of DaemonSets are charged, whether they came before or after the
// start of the scheduler and the sidecar, or while these were away.
func TestPodsOfOthersAreChargedAcrossRestarts(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText(daemonSet("daemon", "1"))
	s.applyText(ofSize(lonePod("early", "default-scheduler"), "4"))
	s.running("", 3)
	early := s.onNodes("early")["early"]
	s.applyText(job("waits", 2, "7"))
	s.refused("job-waits-", "NoRoom", "needs 2 pods with cpu 7", "room for 1")
	for _, down := range [][]string{{stack.Sidecar}, {stack.Scheduler}, {stack.Scheduler, stack.Sidecar}} {
		name := fmt.Sprintf("late-%d", len(s.pods("late-")))
		for _, p := range down {
			s.kill(p)
		}
		if slices.Contains(down, stack.Scheduler) {
			s.dropLease()
		}
		s.applyText(ofSize(lonePod(name, "default-scheduler"), "2"))
		s.running(name, 1)
		for _, p := range slices.Backward(down) {
			s.start(p)
		}
		// free is what is free on each node by now, of the 7 CPUs besides the DaemonSet's.
		free := map[string]int{"n-0": 7, "n-1": 7}
		free[early] -= 4
		for _, node := range s.onNodes("late-") {
			free[node] -= 2
		}
		most := slices.Max(slices.Collect(maps.Values(free)))
		s.applyText(job("asks-"+name, 1, fmt.Sprint(most+1)))
		s.refused("job-asks-"+name+"-", "NoRoom", fmt.Sprintf("needs 1 pod with cpu %d", most+1), "room for 0", fmt.Sprintf("at most %d free on each", most))
		s.kubectl("delete", "job", "asks-"+name, "-n", s.ns)
		s.applyText(job("fits-"+name, 1, fmt.Sprint(most)))
		s.running("fits-"+name, 1)
		s.kubectl("delete", "job", "fits-"+name, "-n", s.ns)
	}
	s.noneOnNodes("waits-")
	s.kubectl("delete", "pod", "early", "late-0", "late-1", "late-2", "-n", s.ns, "--force", "--grace-period=0")
	s.running("waits-", 2)
	s.noneRejected()
}
