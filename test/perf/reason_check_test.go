package perf

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/cluster"
)

// holding is what pods hold on a node, in CPUs.
type holding struct {
	size, all, daemons int64
	// byPod is what each pod holds, without DaemonSets' pods.
	byPod map[types.NamespacedName]int64
}

// holdings reads nodes and pods from the API.
func holdings(b *testing.B, c *cluster.Cluster) map[string]*holding {
	b.Helper()
	nodes, err := c.Client().CoreV1().Nodes().List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	pods, err := c.Client().CoreV1().Pods(metav1.NamespaceAll).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	held := map[string]*holding{}
	for _, n := range nodes.Items {
		held[n.Name] = &holding{size: n.Status.Allocatable.Cpu().Value(), byPod: map[types.NamespacedName]int64{}}
	}
	for _, p := range pods.Items {
		h := held[p.Spec.NodeName]
		if h == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		cpus := p.Spec.Containers[0].Resources.Requests.Cpu().Value()
		h.all += cpus
		if o := metav1.GetControllerOf(&p); o != nil && o.Kind == "DaemonSet" {
			h.daemons += cpus
		} else {
			h.byPod[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = cpus
		}
	}
	return held
}

// checkReasons compares the reasons of groups with the
// objects of the API. It returns the number of wrong reasons.
func checkReasons(b *testing.B, c *cluster.Cluster, said []saying) (wrong int) {
	b.Helper()
	held := holdings(b, c)
	kinds := map[string]int{}
	for _, s := range said {
		reason, messages := expected(held, s.cpus)
		if s.reason != reason || !slices.Contains(messages, s.message) {
			wrong++
			b.Errorf("a group of %d pods of %d CPUs was told %s: %q, want %s: %q", membersTold, s.cpus, s.reason, s.message, reason, messages[0])
		}
		kinds[s.message]++
	}
	for message, n := range kinds {
		b.Logf("%d groups: %s", n, message)
	}
	return wrong
}

// expected returns the reason and the possible messages for a group
// of pods with a number of CPUs each. A message may omit whose end
// would help. If it names a pod, the number for this pod must be right.
func expected(held map[string]*holding, cpus int64) (reason string, messages []string) {
	var room, free, largest, short, ever int64
	for _, h := range held {
		left := max(0, h.size-h.all)
		room, ever = room+left/cpus, ever+max(0, h.size-h.daemons)/cpus
		largest = max(largest, h.size-h.daemons)
		if left < cpus {
			free = max(free, left)
			short++
		}
	}
	if ever < membersTold {
		return "NeverFits", []string{fmt.Sprintf("no node is large enough: cpu %d wanted, largest node has %d", cpus, largest)}
	}
	amount := fmt.Sprintf("at most %d free on each", free)
	switch {
	case short == 1:
		amount = fmt.Sprintf("%d free", free)
	case free == 0:
		amount = "none free"
	}
	lacks := fmt.Sprintf("cpu is short on %d of %d nodes (%s)", short, len(held), amount)
	if free == 0 && short > 1 && int(short) == len(held) {
		lacks = fmt.Sprintf("none of the %d nodes has free cpu", short)
	}
	say := func(end string) string {
		return fmt.Sprintf("needs %d pods with cpu %d; room for %d: %s%s", membersTold, cpus, room, lacks, end)
	}
	messages = []string{say("")}
	for _, h := range held {
		for pod, holds := range h.byPod {
			if more := min(membersTold-room, (h.size-h.all+holds)/cpus-max(0, h.size-h.all)/cpus); more > 0 {
				messages = append(messages, say(fmt.Sprintf("; room for %d more if pod %s ends", more, pod)))
			}
		}
	}
	return "NoRoom", messages
}
