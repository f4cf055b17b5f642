package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/test/stack"
)

// untilFluxJob waits until the FluxJob of a Job or pod is as ok takes it, and returns it.
func (s *story) untilFluxJob(prefix, what string, ok func(*v1alpha1.FluxJob) bool) (j *v1alpha1.FluxJob) {
	s.Helper()
	s.eventually("the FluxJob "+prefix+"* "+what, func(ctx context.Context) (bool, string) {
		if j = s.fluxJob(ctx, prefix); j == nil {
			return false, "no FluxJob"
		}
		return ok(j), fmt.Sprintf("%+v", j.Status)
	})
	return j
}

// Of 128 pods each is bound to the node that its FluxJob says, slot for slot, while pods of another scheduler come to the same nodes.
// Before that the job has lost two of its nodes, to a taint and to such a pod: it has other ones instead, and once only.
func TestManyPodsAreBoundSlotForSlot(t *testing.T) {
	const nodes, each = 16, 8
	s := tell(t)
	s.queue("exact", "policy: easy, started: false")
	s.nodes("n", nodes+2, "8500m")
	s.applyText(ofPods(queued("exact", "wide", nodes*each, "1h"), "1"))
	s.waitsInQueue("wide", v1alpha1.ReasonQueueStopped)
	s.kill(stack.Controller) // nobody lets the job go
	s.merge(queues+"/exact", `{"spec":{"started":true}}`)
	first := s.untilFluxJob("job-wide-", "has nodes", func(j *v1alpha1.FluxJob) bool { return j.Status.Allocation != nil })
	before, err := allocated(first)
	if err != nil || len(before) != nodes {
		t.Fatalf("the allocation is on %d nodes, %v; want %d", len(before), err, nodes)
	}
	lost := slices.Sorted(maps.Keys(before))[:2]
	s.kubectl("taint", "node", lost[0], "example.com/broken=:NoSchedule")
	s.applyText(strings.Replace(podOn("thief", lost[1], "", ""), "cpu: 100m", "cpu: 1", 1))
	s.start(stack.Controller)
	var others strings.Builder
	for i := range nodes {
		if i%2 == 0 {
			others.WriteString(ofSize(lonePod(fmt.Sprintf("other-%d", i), corev1.DefaultSchedulerName), "100m") + "---\n")
		} else {
			others.WriteString(podOn(fmt.Sprintf("other-%d", i), fmt.Sprintf("n-%d", i), "", ""))
		}
	}
	s.applyText(others.String())
	s.within(2*patience, "all pods have nodes", time.Second, func(context.Context) (bool, string) {
		n := len(s.onNodes("wide-"))
		return n == nodes*each, fmt.Sprintf("%d have", n)
	})
	j := s.fluxJob(t.Context(), "job-wide-")
	want, err := allocated(j)
	if got := s.podsByNode("wide-"); err != nil || !maps.Equal(got, want) {
		t.Errorf("the pods are on %v, the allocation is %v, %v", got, want, err)
	}
	if want[lost[0]] > 0 || want[lost[1]] >= each || j.Status.Requeues != 1 || j.Status.Allocation.Attempt != 2 {
		t.Errorf("requeues %d, attempt %d, on %v; want the second allocation, without the room that it has lost on %v", j.Status.Requeues, j.Status.Allocation.Attempt, want, lost)
	}
	s.running("other-", nodes)
	s.noneRejected()
}

// ofPods makes the pods of a Job that take a node each request an amount of CPU instead.
func ofPods(manifest, cpu string) string {
	return strings.Replace(manifest, `cpu: "8"`, `cpu: "`+cpu+`"`, 1)
}

// Jobs of one second start in the order of their creation, which their FluxJobs know to the microsecond. One that no node can hold
// says so with numbers, and keeps no other one waiting. It runs when a node joins that can. A queue for which there are no nodes says so.
func TestJobsStartInTheOrderOfTheirCreation(t *testing.T) {
	s := tell(t)
	s.queue("order", "policy: fcfs")
	s.queue("nowhere", "requires: {matchLabels: {pool: none}}")
	s.nodes("n", 5, "8")
	s.applyText(ofPods(queued("order", "huge", 2, "1h"), "16"))
	s.waitsInQueue("huge", v1alpha1.ReasonNeverFits, "cpu 16", "has 8")
	var all strings.Builder
	for i := range 8 {
		all.WriteString(queued("order", fmt.Sprintf("j-%d", i), 1, "1h") + "---\n")
	}
	s.applyText(all.String())
	for i := range 5 {
		s.running(fmt.Sprintf("j-%d-", i), 1)
	}
	var last time.Time
	for i := range 8 {
		j := s.untilFluxJob(fmt.Sprintf("job-j-%d-", i), "is there", func(j *v1alpha1.FluxJob) bool { return j.Status.CreationTime != nil })
		if !last.Before(j.Status.CreationTime.Time) {
			t.Errorf("the FluxJob of j-%d is of %s, the one before of %s", i, j.Status.CreationTime, last)
		}
		last = j.Status.CreationTime.Time
	}
	for i := 5; i < 8; i++ {
		s.kubectl("delete", "job", fmt.Sprintf("j-%d", i-5), "-n", s.ns)
		s.running(fmt.Sprintf("j-%d-", i), 1)
		for later := i + 1; later < 8; later++ {
			s.noneOnNodes(fmt.Sprintf("j-%d-", later))
		}
	}
	s.waitsInQueue("huge", v1alpha1.ReasonNeverFits)
	s.nodes("joined", 1, "32")
	s.running("huge-", 2)
	s.eventually("the other queue says why it is not ready", func(ctx context.Context) (bool, string) {
		out, _, err := s.Kubectl(ctx, "get", queues, "nowhere", "-o", "jsonpath={.status.conditions[0].reason} {.status.conditions[0].message}")
		return err == nil && out == "NoNodes spec.requires: no node has the labels pool=none", fmt.Sprint(out, err)
	})
}
