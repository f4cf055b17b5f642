package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

// inOrder adds nodes of 8 CPUs one after another, so that their ids are in the same order.
func (s *story) inOrder(prefix string, n int, edit ...func(*corev1.Node)) {
	s.Helper()
	for i := range n {
		s.nodes(fmt.Sprintf("%s-%d", prefix, i), 1, "8", edit...)
	}
}

// zone puts a node into a zone, which is a level of the graph.
func zone(name string) func(*corev1.Node) { return label(corev1.LabelTopologyZone, name) }

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

// restart ends one of Fluence's processes as a shutdown
// does, and starts it again with another configuration.
func (s *story) restart(name string, change func(*stack.Config)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
	defer cancel()
	select {
	case <-s.Process(name).Done():
		// Some stories kill the process. In all others this log shows why it ended.
		s.Logf("%s had ended:\n%s", name, s.Process(name).Tail(20))
	default:
	}
	if err := s.Process(name).Stop(ctx); err != nil {
		s.Fatalf("stop %s: %v", name, err)
	}
	s.Reconfigure(change)
	s.start(name)
}

// untouched fails if one of these pods has gone, or is on another node.
func (s *story) untouched(before []corev1.Pod) {
	s.Helper()
	now := map[string]corev1.Pod{}
	for _, p := range s.pods("") {
		now[string(p.UID)] = p
	}
	for _, p := range before {
		if q, ok := now[string(p.UID)]; !ok || q.DeletionTimestamp != nil || q.Status.Phase != p.Status.Phase || q.Spec.NodeName != p.Spec.NodeName {
			s.Errorf("pod %s was touched: it ran on %s, and is now %s on %q", p.Name, p.Spec.NodeName, q.Status.Phase, q.Spec.NodeName)
		}
	}
}

// lose deletes a pod at once, as when its node is lost.
func (s *story) lose(pod string) {
	s.Helper()
	s.kubectl("delete", "pod", pod, "-n", s.ns, "--force", "--grace-period=0")
}

// none waits until no pod with a name prefix is left.
func (s *story) none(prefix string) {
	s.Helper()
	s.eventually("no pods "+prefix+"*", func(context.Context) (bool, string) {
		pods := s.pods(prefix)
		return len(pods) == 0, fmt.Sprintf("%d pods", len(pods))
	})
}

// minimum waits until a PodGroup has a minMember.
func (s *story) minimum(prefix string, n int32) {
	s.Helper()
	s.eventually(fmt.Sprintf("PodGroup %s* with minMember %d", prefix, n), func(ctx context.Context) (bool, string) {
		g := s.group(ctx, prefix)
		if g == nil {
			return false, "no PodGroup"
		}
		return g.Spec.MinMember == n, fmt.Sprintf("minMember %d", g.Spec.MinMember)
	})
}

// edit changes the spec of a PodGroup, as a user does.
func (s *story) edit(prefix, spec string) {
	s.Helper()
	s.kubectl("patch", "podgroups.scheduling.x-k8s.io", s.group(s.Context(), prefix).Name, "-n", s.ns, "--type=merge", "-p", `{"spec":{`+spec+`}}`)
}

// without waits until no PodGroup with a name prefix exists.
func (s *story) without(prefix string) {
	s.Helper()
	s.eventually("no PodGroup "+prefix+"*", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, prefix)
		return g == nil, fmt.Sprintf("%+v", g)
	})
}

// matches returns how many pods were given nodes by each match for the group with a name prefix.
func (s *story) matches(prefix string) []int {
	s.Helper()
	line := regexp.MustCompile(`"Group matched".* group="` + regexp.QuoteMeta(s.ns+"/"+prefix) + `[^"]*".* pods=(\d+)`)
	var pods []int
	for _, m := range line.FindAllStringSubmatch(s.schedulerLog(), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			s.Fatal(err)
		}
		pods = append(pods, n)
	}
	return pods
}

// onNoNode reports whether a pod has no node.
func onNoNode(p corev1.Pod) bool { return p.Spec.NodeName == "" }

// event waits for an event of the namespace with a reason, and with words in its message.
func (s *story) event(reason, words string) {
	s.Helper()
	s.eventually(fmt.Sprintf("an event %s with %q", reason, words), func(ctx context.Context) (bool, string) {
		list, err := s.Client().EventsV1().Events(s.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Note, words) {
				return true, ""
			}
		}
		return false, fmt.Sprintf("none among %d", len(list.Items))
	})
}
