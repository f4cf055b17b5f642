package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/invariants"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// besideRate is how many pods another scheduler binds in a second, but at least a
	// quarter of it when the API server is slow. besideStay is how long these pods run.
	besideRate = 100
	besideStay = 5 * time.Second
	// besideNodes is the number of nodes for these pods.
	besideNodes = 100
	// besideCordons is the number of nodes that are cordoned, one after another.
	besideCordons = 10
	// besideExcused is the share of the time that the
	// API server may be slow, which excuses everything.
	besideExcused = 0.85
)

// Another scheduler binds pods during many binds, to the first nodes that
// seem to have room. Some nodes are cordoned. Fluence binds no pod to a
// node that had been full or closed for longer than its watches take.
func TestNoBindIsToANodeThatOthersFilled(t *testing.T) {
	s := tell(t)
	l := s.load(*loadJobs, besideNodes)
	l.backlog(stack.Scheduler)
	checker, err := invariants.Watch(t.Context(), invariants.Config{REST: s.RESTConfig(), Audit: s.AuditLog()})
	if err != nil {
		t.Fatal(err)
	}
	l.begin(stack.Scheduler)
	ctx, done := context.WithCancel(t.Context())
	l.seen(l.size(), 1)
	begin, others := time.Now(), l.beside(ctx)
	l.seen(l.size(), l.size()/4)
	for i := range besideCordons { // kubectl takes longer than the binds
		_, err := s.Client().CoreV1().Nodes().Patch(ctx, fmt.Sprintf("n-%d", l.jobs/2+i), types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	cordoned := time.Now()
	l.seen(l.size(), l.size())
	done()
	took := time.Since(begin)
	n, err := others()
	if err != nil {
		t.Fatal(err)
	}
	l.allPlaced()
	var stats invariants.Stats
	s.eventually("all binds looked at", func(context.Context) (bool, string) {
		stats = checker.Stats()
		return stats.Binds+stats.BindsExcused+stats.BindsUnknown >= l.size(), fmt.Sprint(stats)
	})
	late := l.boundAfter(cordoned)
	t.Logf("%d pods of others came in %.1fs; %d pods were bound after the cordons; %v", n, took.Seconds(), late, stats)
	if want := int(besideRate / 4 * took.Seconds()); n < want {
		t.Errorf("%d pods of others came, want at least %d", n, want)
	}
	if late == 0 {
		t.Error("all pods were bound before the nodes were cordoned")
	}
	if most := besideExcused * stats.Watched.Seconds(); stats.Excused.Seconds() > most {
		t.Errorf("%.1fs were excused, want at most %.1fs", stats.Excused.Seconds(), most)
	}
	for _, v := range checker.Violations() {
		// Pods that wait before a scheduler runs need no reason.
		if v.Rule != invariants.RuleNoReason {
			t.Errorf("%v", v)
		}
	}
	if stats.Binds == 0 {
		t.Error("no bind was judged: the API server broke off each watch")
	}
}

// beside creates pods of another scheduler until ctx ends. It returns
// a function that waits for the last one and returns their number.
func (l *load) beside(ctx context.Context) (wait func() (int, error)) {
	var all, writers errgroup.Group
	writers.SetLimit(loadWriters)
	n := 0
	all.Go(func() error {
		limit := rate.NewLimiter(besideRate, 1)
		for ; limit.Wait(ctx) == nil; n++ {
			name, node := fmt.Sprintf("other-%d", n), l.roomy()
			writers.Go(func() error { return l.bindOther(name, node) })
		}
		return writers.Wait()
	})
	return func() (int, error) {
		err := all.Wait()
		return n, err
	}
}

// roomy returns the first node with free room, by what was seen so far.
func (l *load) roomy() string {
	used := map[string]int{}
	for _, obj := range l.all.List() {
		if p := obj.(*corev1.Pod); p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			used[p.Spec.NodeName]++
		}
	}
	i := 0
	for used[fmt.Sprintf("n-%d", i)] >= loadSize {
		i++
	}
	return fmt.Sprintf("n-%d", i%(l.jobs+besideNodes))
}

// bindOther creates a pod that has its node from the beginning.
func (l *load) bindOther(name, node string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.Context()), patience)
	defer cancel()
	_, err := l.Client().CoreV1().Pods(l.ns).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{kubelet.RunFor: besideStay.String()}},
		Spec:       corev1.PodSpec{NodeName: node, SchedulerName: "elsewhere", RestartPolicy: corev1.RestartPolicyNever, Containers: oneCPU()},
	}, metav1.CreateOptions{})
	if apierrors.IsTooManyRequests(err) {
		return nil
	}
	return err
}
