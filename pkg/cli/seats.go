package cli

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// expecting returns the message of the scheduler that it holds seats for a group. It returns "" if it
// holds none.
func expecting(pg *scheduling.PodGroup) string {
	if c := meta.FindStatusCondition(pg.Status.Conditions, report.ConditionScheduled); c != nil && c.Reason == reason.Expecting {
		return c.Message
	}
	return ""
}

// seatsOfTemplate are the seats that no pod of a template has taken.
type seatsOfTemplate struct {
	template string
	// pod is an example of the pods that the seats are for.
	pod *corev1.Pod
	// nodes counts the seats by node, and n all of them.
	nodes map[string]int
	n     int32
}

// expectedPods returns how many pods of each template are expected and do not exist. pods are the pods of the
// group. Those of later stages do not count.
func expectedPods(pg *scheduling.PodGroup, pods []*corev1.Pod) map[string]int32 {
	there, stage, expected := map[string]int32{}, int32(math.MaxInt32), map[string]int32{}
	for _, pod := range pods {
		if whyEnded(pod) == "" {
			there[group.TemplateOf(pod)]++
		}
	}
	for _, t := range pg.Spec.Templates {
		if there[t.Name] > 0 {
			stage = min(stage, t.Stage)
		}
	}
	for _, t := range pg.Spec.Templates {
		if n := min(t.Expected, podsOf(t)-there[t.Name]); t.Stage == stage && n > 0 {
			expected[t.Name] = n
		}
	}
	return expected
}

// podsOf returns how many pods a template has. A user may have written more than a group can have.
func podsOf(t scheduling.PodsOfTemplate) int32 {
	return min(t.Coming, group.MaxSize) + min(t.Expected, group.MaxSize)
}

// freeSeats returns the free seats of a group. The argument pods has the pods of the group. The status
// counts their seats too, so freeSeats subtracts the pods that have nodes.
func freeSeats(pg *scheduling.PodGroup, pods []*corev1.Pod) []seatsOfTemplate {
	if expecting(pg) == "" {
		return nil
	}
	var all []seatsOfTemplate
	for _, t := range pg.Spec.Templates {
		free := seatsOfTemplate{template: t.Name, pod: &corev1.Pod{}, nodes: map[string]int{}}
		if t.Pod != nil && json.Unmarshal(t.Pod.Raw, free.pod) != nil {
			continue // written by another program, and not read by the scheduler either
		}
		left, taken := podsOf(t), map[string]int32{}
		for _, pod := range pods {
			if group.TemplateOf(pod) == t.Name && whyEnded(pod) == "" {
				left--
				taken[pod.Spec.NodeName]++
				free.pod = pod
			}
		}
		for _, node := range slices.Sorted(maps.Keys(pg.Status.Seats[t.Name])) {
			if n := min(left, pg.Status.Seats[t.Name][node]-taken[node]); n > 0 {
				free.nodes[node] = int(n)
				free.n += n
				left -= n
			}
		}
		if free.n > 0 {
			all = append(all, free)
		}
	}
	return all
}

// addExpected adds the expected pods and their seats to a summary.
func (g *groupSummary) addExpected(pg *scheduling.PodGroup, pods []*corev1.Pod) {
	g.Expecting = expecting(pg)
	expected := expectedPods(pg, pods)
	for _, free := range freeSeats(pg, pods) {
		// Pods of later stages may have seats too.
		expected[free.template] = max(expected[free.template], free.n)
		for node, n := range free.nodes {
			if g.Seats == nil {
				g.Seats = map[string]int{}
			}
			g.Seats[node] += n
		}
	}
	for _, n := range expected {
		g.Size += n
	}
}
