package perf

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// waitingGroups is the number of groups that wait.
	// membersWaiting is the number of pods of each.
	waitingGroups, membersWaiting = 500, 4
	// restWindow is the time over which the processes are measured.
	restWindow = 30 * time.Second
	// calm is how long nothing may have been written before the measurement begins.
	calm = 5 * time.Second
	// restPatience bounds the wait for calm.
	restPatience = 5 * time.Minute
)

// BenchmarkRest measures Fluence for 30 seconds while 500 groups wait for room
// and nothing happens: the share of one CPU that each process uses (cpu-%), the
// requests that change something, events included (writes), and the matches.
func BenchmarkRest(b *testing.B) {
	ctx := b.Context()
	c, err := cluster.Start(ctx, cluster.Config{Nodes: cluster.Nodes{Count: 4}, Log: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	s, err := stack.Start(ctx, c, stack.Config{SidecarMetrics: freeAddress(b)})
	if err != nil {
		b.Fatal(err)
	}
	makeWaiting(b, s)
	waitRefused(b, s)

	for b.Loop() {
		waitCalm(b, s)
		from, before, asked := time.Now(), cpuOf(s), matches(b, s)
		<-time.After(restWindow)
		took, after := time.Since(from), cpuOf(s)
		for _, name := range processes {
			b.ReportMetric(100*(after[name]-before[name]).Seconds()/took.Seconds(), name+"-cpu-%")
		}
		b.ReportMetric(float64(len(writesSince(b, s, from))), "writes")
		b.ReportMetric(matches(b, s)-asked, "matches")
	}
	b.ReportMetric(0, "ns/op")
}

var processes = []string{stack.Scheduler, stack.Sidecar, stack.Controller}

// makeWaiting creates Jobs that need four nodes each, of
// which there are four. One runs, and the others wait.
func makeWaiting(b *testing.B, s *stack.Stack) {
	b.Helper()
	g, gctx := errgroup.WithContext(b.Context())
	g.SetLimit(writers)
	for i := range waitingGroups + 1 {
		g.Go(func() error {
			job := job(fmt.Sprintf("waits-%03d", i), membersWaiting)
			job.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}
			_, err := s.Client().BatchV1().Jobs(corev1.NamespaceDefault).Create(gctx, job, metav1.CreateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// job returns a Job for Fluence whose pods request one CPU each.
func job(name string, size int) *batchv1.Job {
	p := pod("", "fluence")
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(size)), Completions: new(int32(size)),
			Template: corev1.PodTemplateSpec{Spec: p.Spec},
		},
	}
}

// waitRefused waits until all groups except one have a reason.
func waitRefused(b *testing.B, s *stack.Stack) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), restPatience)
	defer cancel()
	eventually.TrueEvery(ctx, b, time.Second, "the groups say that there is no room", func(ctx context.Context) (bool, string) {
		groups, err := s.PodGroups(ctx, corev1.NamespaceDefault)
		if err != nil {
			b.Fatal(err)
		}
		refused := 0
		for _, g := range groups {
			if c := meta.FindStatusCondition(g.Status.Conditions, "Scheduled"); c != nil && c.Reason == "NoRoom" {
				refused++
			}
		}
		return refused == waitingGroups, fmt.Sprintf("%d of %d", refused, waitingGroups)
	})
}

// waitCalm waits until Fluence has written nothing for a while.
func waitCalm(b *testing.B, s *stack.Stack) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), restPatience)
	defer cancel()
	eventually.TrueEvery(ctx, b, time.Second, "Fluence writes nothing", func(context.Context) (bool, string) {
		writes := writesSince(b, s, time.Now().Add(-calm))
		return len(writes) == 0, fmt.Sprintf("%q", writes)
	})
}

// writesSince returns what Fluence has written since a time, by the audit log, without leases.
func writesSince(b *testing.B, s *stack.Stack, from time.Time) (writes []string) {
	b.Helper()
	for ev, err := range s.AuditEvents() {
		if err != nil {
			b.Fatal(err)
		}
		if ev.Received.Before(from) || !strings.HasPrefix(ev.User.Username, "system:serviceaccount:"+stack.Namespace+":") || ev.ObjectRef == nil || ev.ObjectRef.Resource == "leases" {
			continue
		}
		switch ev.Verb {
		case "get", "list", "watch":
		default:
			writes = append(writes, fmt.Sprintf("%s %s %s/%s", ev.Verb, ev.ObjectRef.Resource, ev.ObjectRef.Namespace, ev.ObjectRef.Name))
		}
	}
	return writes
}

// cpuOf returns the CPU time that each process has used.
func cpuOf(s *stack.Stack) map[string]time.Duration {
	used := map[string]time.Duration{}
	for _, name := range processes {
		used[name] = s.Process(name).CPU()
	}
	return used
}

// matches returns how many matches the sidecar has answered.
func matches(b *testing.B, s *stack.Stack) float64 {
	b.Helper()
	n, err := s.SidecarMetric(b.Context(), "fluence_sidecar_match_duration_seconds_count")
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func freeAddress(b *testing.B) string {
	b.Helper()
	ports, err := cluster.FreePorts(1)
	if err != nil {
		b.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}
