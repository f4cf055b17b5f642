package simulate

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// At a later time pods have ended that have an end, a group that would start now runs until its end, and the first group
// that waits has the room that it is promised.
func TestAt(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ends := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = &seconds, new(int64(0))
		}
	}
	c := Cluster{}
	for _, name := range []string{"n0", "n1"} {
		c.Objects = append(c.Objects, objects.ReadyNode(name, 4))
	}
	c.Objects = append(c.Objects,
		objects.Pod("running", objects.CPU("4"), objects.CreatedOn("n0"), objects.InPhase(corev1.PodRunning), objects.Created(noon.Add(-time.Minute)), ends(660)),
		objects.Pod("endless", objects.CPU("2"), objects.CreatedOn("n1"), objects.InPhase(corev1.PodRunning), objects.Created(noon.Add(-time.Minute))),
		objects.Pod("large", objects.CPU("4"), objects.Created(noon.Add(-time.Minute)), ends(1200)),
		objects.Pod("second", objects.CPU("4"), objects.Created(noon.Add(-time.Second)), ends(1200)),
		objects.Pod("small", objects.CPU("2"), objects.Created(noon), ends(300)),
	)
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := shipped.WithDepth(1)
	if err != nil {
		t.Fatal(err)
	}
	for minutes, want := range map[time.Duration][]string{
		0:  {"endless on n1", "running on n0", "small on n1"},
		5:  {"endless on n1", "running on n0"},
		9:  {"endless on n1", "running on n0"},
		10: {"endless on n1", "large on n0"},
		29: {"endless on n1", "large on n0"},
		30: {"endless on n1"},
	} {
		f, err := At(t.Context(), c, configuration, noon, noon.Add(minutes*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pod := range f.Pods {
			if pod.Spec.NodeName != "" {
				got = append(got, pod.Name+" on "+pod.Spec.NodeName)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("after %d minutes: %v, want %v", minutes, got, want)
		}
	}
}
