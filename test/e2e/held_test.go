package e2e

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/flux-k8s/fluence/test/apiproxy"
	"github.com/flux-k8s/fluence/test/stack"
)

// heldSize is the number of pods in the groups whose binds are held up.
const heldSize = 8

// held creates a group and refuses the binds of some of its pods: of
// the given numbers, or of all pods without a number. It returns when
// one of these binds has been tried and the other pods are on nodes.
func (s *story) held(proxy *apiproxy.Proxy, group string, numbers ...int) {
	s.Helper()
	var those []string
	for _, i := range numbers {
		those = append(those, names(group, heldSize)[i])
	}
	refused := proxy.Refused()
	proxy.Refuse(func(r *request.RequestInfo) bool {
		return binds(r) && r.Namespace == s.ns && (len(those) == 0 || slices.Contains(those, r.Name))
	})
	s.applyText(crew(group, heldSize))
	if len(those) > 0 {
		s.bound(group+"-", heldSize-len(those))
	}
	s.tried(proxy, refused+1)
}

// tried waits until n requests have been refused.
func (s *story) tried(proxy *apiproxy.Proxy, n int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := proxy.WaitRefused(ctx, n); err != nil {
		s.Fatal(err)
	}
}

// cordon cordons a node, and waits long enough for the scheduler to hear of it.
func (s *story) cordon(node string) {
	s.Helper()
	s.kubectl("cordon", node)
	s.renewals(3)
}

// A group reports that it waits for its binds, and is placed after them.
func TestAGroupSaysThatItWaitsForItsBinds(t *testing.T) {
	s := tell(t)
	proxy := s.proxied()
	s.nodes("n", 1, "8")
	s.held(proxy, "whole")
	s.refused("whole", "Binding")
	proxy.Refuse(nil)
	s.running("whole-", heldSize)
	s.placed("whole")
	s.boundOnce()
}

// A node is cordoned while pods of a group wait to be bound to it, and no
// pod of the group is bound yet. The group starts elsewhere, as a whole.
func TestANodeIsCordonedBeforeTheFirstBindOfAGroup(t *testing.T) {
	s := tell(t)
	proxy := s.proxied()
	s.nodes("n", 1, "8")
	s.held(proxy, "whole")
	s.nodes("late", 1, "8")
	s.cordon("n-0")
	proxy.Refuse(nil)
	s.running("whole-", heldSize)
	for pod, node := range s.onNodes("whole-") {
		if node != "late-0" {
			t.Errorf("pod %s is on %s, which was cordoned before its bind", pod, node)
		}
	}
	s.placed("whole")
	s.noneRejected()
	s.boundOnce()
	s.allBooked()
}

// A node is cordoned while one pod waits to be bound to it, of a group
// with other binds. Only this pod gets another node, and the others stay.
func TestANodeIsCordonedBetweenTheBindsOfAGroup(t *testing.T) {
	s := tell(t)
	proxy := s.proxied()
	s.nodes("n", heldSize, "1")
	s.held(proxy, "most", 6, 7)
	stay := slices.DeleteFunc(s.pods("most-"), onNoNode)
	taken := s.onNodes("most-")
	var free []string
	for i := range heldSize {
		name := fmt.Sprintf("n-%d", i)
		if !slices.ContainsFunc(stay, func(p corev1.Pod) bool { return p.Spec.NodeName == name }) {
			free = append(free, name)
		}
	}
	if len(free) != 2 {
		t.Fatalf("nodes without a pod: %v, want two; pods on nodes: %v", free, taken)
	}
	s.nodes("late", 1, "1")
	s.cordon(free[0])
	proxy.Refuse(nil)
	s.running("most-", heldSize)
	for pod, node := range s.onNodes("most-") {
		if node == free[0] {
			t.Errorf("pod %s is on %s, which was cordoned before its bind", pod, node)
		}
	}
	s.stayed(stay)
	s.placed("most")
	s.noneRejected()
	s.boundOnce()
	s.allBooked()
}

// A pod is deleted while it waits to be bound. A group without binds then lacks a member
// and does not start. A group with binds continues, and gets the next pod as a late member.
func TestAPodIsDeletedThatWaitsToBeBound(t *testing.T) {
	t.Run("none is bound", func(t *testing.T) {
		s := tell(t)
		proxy := s.proxied()
		s.nodes("n", 1, "8")
		s.held(proxy, "whole")
		s.lose("whole-7")
		s.refused("whole", "Gathering", "waits for 1 more pod")
		proxy.Refuse(nil)
		s.renewals(4)
		s.noneOnNodes("whole-")
		s.applyText(member("whole-8", "whole", "1", sized(heldSize)))
		s.running("whole-", heldSize)
		s.placed("whole")
		s.noneRejected()
		s.allBooked()
	})
	t.Run("most are bound", func(t *testing.T) {
		s := tell(t)
		proxy := s.proxied()
		s.nodes("n", 1, "8")
		s.held(proxy, "most", 6, 7)
		stay := slices.DeleteFunc(s.pods("most-"), onNoNode)
		s.lose("most-7")
		s.applyText(member("most-8", "most", "1", sized(heldSize)))
		proxy.Refuse(nil)
		s.running("most-", heldSize)
		s.stayed(stay)
		s.placed("most")
		s.noneRejected()
		s.allBooked()
	})
}

// endsWithin is how long a scheduler may take to end after SIGTERM.
const endsWithin = 10 * time.Second

// The scheduler gets SIGTERM while pods of many groups wait
// to be bound. It ends, and its successor starts all of them.
func TestTheSchedulerEndsWithPodsThatWaitToBeBound(t *testing.T) {
	s := tell(t)
	proxy := s.proxied()
	l := s.load(refusedJobs, 0)
	proxy.Refuse(binds)
	l.submit(0, l.jobs)
	l.seen(l.size(), 0)
	s.tried(proxy, 1)
	s.eventually("the gate full, so that groups wait to ask for nodes", func(ctx context.Context) (bool, string) {
		groups, err1 := s.SchedulerMetric(ctx, "fluence_groups_awaiting_admission")
		pods, err2 := s.SchedulerMetric(ctx, "fluence_bind_queue_pods")
		text := fmt.Sprintf("%v groups wait, and %v pods at the gate; errors %v, %v", groups, pods, err1, err2)
		if groups == 0 || pods == 0 {
			return false, text
		}
		t.Log(text)
		return true, ""
	})
	ended := s.Process(stack.Scheduler)
	if err := ended.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), endsWithin)
	defer cancel()
	if err := ended.Wait(ctx); err != nil {
		t.Fatalf("it was asked to end: %v", err)
	}
	if code := ended.State().ExitCode(); code != 0 {
		t.Errorf("it ended with code %d, want 0:\n%s", code, ended.Tail(3))
	}
	s.start(stack.Scheduler)
	proxy.Refuse(nil)
	l.allPlaced()
	l.neverInHalves(loadWorst, loadWorst, span{})
	l.nothingDoubled()
}
