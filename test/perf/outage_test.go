package perf

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// others is the number of pods of another profile in one measurement.
	others = 500
	// outagePatience bounds each wait.
	outagePatience = 2 * time.Minute
)

// BenchmarkOutage stops the sidecar, with its connections open. It measures how many pods
// another profile of the same scheduler binds in a second before that (pods/s-before) and
// meanwhile, while groups wait (pods/s-stopped). It also measures the seconds from the
// sidecar's return to the first bind of a group that waited for it (s/return).
//
// Flow 18 of the lessons of earlier systems.
func BenchmarkOutage(b *testing.B) {
	ctx := b.Context()
	c, err := cluster.Start(ctx, cluster.Config{Nodes: cluster.Nodes{Count: 64}, Log: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	s, err := stack.Start(ctx, c, stack.Config{Profile: withSecondProfile})
	if err != nil {
		b.Fatal(err)
	}
	rate(b, s) // everything is compiled, cached and opened once

	var before, stopped float64
	var back time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		before += rate(b, s)
		signal(b, s, syscall.SIGSTOP)
		makeGroup(b, s)
		waitReason(b, s, "MatcherUnavailable")
		stopped += rate(b, s)
		start := time.Now()
		signal(b, s, syscall.SIGCONT)
		back += firstBind(b, s).Sub(start)
		endGroup(b, s)
	}
	n := float64(rounds)
	b.ReportMetric(before/n, "pods/s-before")
	b.ReportMetric(stopped/n, "pods/s-stopped")
	b.ReportMetric(back.Seconds()/n, "s/return")
	b.ReportMetric(0, "ns/op")
}

// withSecondProfile adds a profile that has nothing of
// Fluence except the queue's order, which all profiles share.
func withSecondProfile(config map[string]any) {
	sort := func() map[string]any {
		return map[string]any{
			"enabled":  []any{map[string]any{"name": "FluenceSort"}},
			"disabled": []any{map[string]any{"name": "*"}},
		}
	}
	profiles := config["profiles"].([]any)
	profiles[0].(map[string]any)["plugins"].(map[string]any)["queueSort"] = sort()
	config["profiles"] = append(profiles, map[string]any{
		"schedulerName": "other",
		"plugins":       map[string]any{"queueSort": sort()},
	})
}

func signal(b *testing.B, s *stack.Stack, sig os.Signal) {
	b.Helper()
	if err := s.Process(stack.Sidecar).Signal(sig); err != nil {
		b.Fatal(err)
	}
}

// rate creates small pods of the other profile. It returns the binds
// in a second, from the first bind to the last. It removes the pods.
func rate(b *testing.B, s *stack.Stack) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), outagePatience)
	defer cancel()
	pods := s.Client().CoreV1().Pods(corev1.NamespaceDefault)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	start := time.Now()
	for i := range others {
		g.Go(func() error {
			p := pod(fmt.Sprintf("other-%03d", i), "other")
			p.Spec.Containers[0].Resources.Requests = nil
			_, err := pods.Create(gctx, p, metav1.CreateOptions{})
			return err
		})
	}
	on := map[string]bool{}
	g.Go(func() error {
		return cluster.Until(gctx, pods, "spec.schedulerName=other", func(e watch.EventType, p *corev1.Pod) bool {
			if e != watch.Deleted && p.Spec.NodeName != "" {
				on[p.Name] = true
			}
			return len(on) == others
		})
	})
	if err := g.Wait(); err != nil {
		b.Fatalf("%d of %d pods were bound: %v", len(on), others, err)
	}
	took := time.Since(start)
	which := metav1.ListOptions{FieldSelector: "spec.schedulerName=other"}
	if err := pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), which); err != nil {
		b.Fatal(err)
	}
	return others / took.Seconds()
}

// makeGroup creates a Job for Fluence.
func makeGroup(b *testing.B, s *stack.Stack) {
	b.Helper()
	if _, err := s.Client().BatchV1().Jobs(corev1.NamespaceDefault).Create(b.Context(), job("group", gang), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// waitReason waits until the only group has a reason.
func waitReason(b *testing.B, s *stack.Stack, reason string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), outagePatience)
	defer cancel()
	eventually.TrueEvery(ctx, b, 100*time.Millisecond, "the group says "+reason, func(ctx context.Context) (bool, string) {
		groups, err := s.PodGroups(ctx, corev1.NamespaceDefault)
		if err != nil {
			b.Fatal(err)
		}
		if len(groups) != 1 {
			return false, fmt.Sprintf("%d groups", len(groups))
		}
		c := meta.FindStatusCondition(groups[0].Status.Conditions, "Scheduled")
		return c != nil && c.Reason == reason, fmt.Sprint(c)
	})
}

// firstBind returns when the first pod of the group has a node.
func firstBind(b *testing.B, s *stack.Stack) time.Time {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), outagePatience)
	defer cancel()
	err := cluster.Until(ctx, s.Client().CoreV1().Pods(corev1.NamespaceDefault), "spec.schedulerName=fluence", func(_ watch.EventType, p *corev1.Pod) bool {
		return p.Spec.NodeName != ""
	})
	if err != nil {
		b.Fatalf("wait for the first bind: %v", err)
	}
	return time.Now()
}

// endGroup deletes the group and waits until its pods are gone.
func endGroup(b *testing.B, s *stack.Stack) {
	b.Helper()
	if _, _, err := s.Kubectl(b.Context(), "delete", "jobs", "--all", "--cascade=foreground", "--timeout=60s"); err != nil {
		b.Fatal(err)
	}
}
