package simulate

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// A group that waits starts when what is in its way has ended, after the groups before it. Each case says when group
// big starts, which needs both nodes.
func TestWhen(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lasts := func(duration string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{group.DurationAnnotation: duration}
			p.Spec.TerminationGracePeriodSeconds = new(int64(0))
		}
	}
	ends := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = &seconds, new(int64(0))
		}
	}
	running := func(more ...func(*corev1.Pod)) *corev1.Pod {
		return objects.Pod("running", objects.CPU("4"), objects.CreatedOn("n0"), objects.InPhase(corev1.PodRunning),
			objects.Created(noon.Add(-time.Minute)), objects.All(more...))
	}
	// first has a pod that is before the group big in the queue.
	first := func(cpu string, more ...func(*corev1.Pod)) *corev1.Pod {
		return objects.Pod("first", objects.CPU(cpu), objects.Created(noon.Add(-time.Hour)), objects.All(more...))
	}
	cases := map[string]struct {
		pods []*corev1.Pod
		cpu  string
		// starts is true if it starts now. Otherwise it starts after a time, or why says why none is known.
		starts bool
		after  time.Duration
		why    string
		ahead  int
	}{
		"nothing is in its way":                             {starts: true},
		"a pod runs for 11 minutes more":                    {pods: []*corev1.Pod{running(lasts("12m"))}, after: 11 * time.Minute},
		"a pod has a deadline":                              {pods: []*corev1.Pod{running(ends(120))}, after: time.Minute},
		"a pod has no end":                                  {pods: []*corev1.Pod{running()}, why: reason.NoRoom},
		"a group before it starts now":                      {pods: []*corev1.Pod{first("4", lasts("5m"))}, after: 5 * time.Minute},
		"a group before it waits too":                       {pods: []*corev1.Pod{running(lasts("12m")), objects.Pod("other", objects.CPU("1"), objects.CreatedOn("n1"), lasts("2m"), objects.Created(noon.Add(-time.Minute))), first("4", ends(60))}, after: 11 * time.Minute, ahead: 1},
		"a group before it waits for the same nodes":        {pods: []*corev1.Pod{running(lasts("12m")), objects.Pod("other", objects.CPU("1"), objects.CreatedOn("n1"), lasts("12m"), objects.Created(noon.Add(-time.Minute))), first("4", ends(60))}, after: 12 * time.Minute, ahead: 1},
		"a group before it waits that has no end":           {pods: []*corev1.Pod{running(lasts("12m")), objects.Pod("other", objects.CPU("1"), objects.CreatedOn("n1"), lasts("12m"), objects.Created(noon.Add(-time.Minute))), first("4")}, why: reason.NoRoom, ahead: 1},
		"a group before it waits of which no time is known": {pods: []*corev1.Pod{running(lasts("12m")), first("5")}, after: 11 * time.Minute},
		"it never fits":                                     {cpu: "5", why: reason.NeverFits},
	}
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := Cluster{PodGroups: []scheduling.PodGroup{podGroup("big", 2)}}
			c.PodGroups[0].CreationTimestamp = metav1.NewTime(noon.Add(-30 * time.Second))
			c.Objects = append(c.Objects, objects.ReadyNode("n0", 4), objects.ReadyNode("n1", 4))
			if tc.cpu == "" {
				tc.cpu = "4"
			}
			var asked []*corev1.Pod
			for i := range 2 {
				asked = append(asked, objects.Pod(fmt.Sprintf("big-%d", i), objects.InGroup("big"), objects.CPU(tc.cpu), objects.Created(noon.Add(-30*time.Second))))
			}
			for _, pod := range append(tc.pods, asked...) {
				c.Objects = append(c.Objects, pod)
			}
			starts, err := When(t.Context(), c, shipped, asked, noon)
			if err != nil || len(starts) != 1 {
				t.Fatalf("When() = %+v, %v, want one group", starts, err)
			}
			s := starts[0]
			var after time.Duration
			if !s.From.IsZero() {
				after = s.From.Sub(noon)
			}
			if s.Starts != tc.starts || after != tc.after || s.Ahead != tc.ahead || (len(s.Nodes) == 2) != (after > 0) {
				t.Errorf("it starts now: %v; in %s on %v, after %d others: %s: %s", s.Starts, after, s.Nodes, s.Ahead, s.Reason, s.Message)
			}
			if why := tc.why; why != "" && s.Reason != why {
				t.Errorf("it waits with %s: %s, want %s", s.Reason, s.Message, why)
			}
		})
	}
}

// The answer is by a scheduler that promises all room, and keeps the other arguments as they are.
func TestPromisingAllKeepsTheOtherArguments(t *testing.T) {
	c, err := Parse([]byte(shipped + "  pluginConfig: [{name: Fluence, args: {promises: {depth: 1, horizon: 7m}, topologyLevels: [rack]}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.WithDepth(fluence.MaxPromises)
	if err != nil {
		t.Fatal(err)
	}
	for c, want := range map[*Configuration]int{&c: 1, &all: fluence.MaxPromises} {
		depth, err := c.Depth()
		levels, wrong := c.Levels()
		if err != nil || wrong != nil || depth != want || len(levels) != 1 {
			t.Errorf("depth %d, levels %v (%v, %v), want %d and one level", depth, levels, err, wrong, want)
		}
	}
}
