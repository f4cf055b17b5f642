package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A slotID identifies a slot in an engine.
type slotID struct {
	Job match.JobID
	Key string
}

// A booking is what a slot holds.
type booking struct {
	Node    string
	Amounts map[string]int64
	Holder  string
	End     time.Time
}

// difference returns in words how an engine differs from the cluster: in what it
// holds, slot by slot, or in the room that it sees, by plain arithmetic. jobs
// has the pods that were matched, holders those whose node is held whole, and ends those that have an end.
func difference(ctx context.Context, epoch match.Epoch, e match.Engine, nodes []*corev1.Node, pods []*corev1.Pod, jobs map[types.UID]match.JobID, holders map[types.UID]string, ends map[types.UID]time.Time) (string, error) {
	want := map[slotID]booking{}
	used, owned := map[string]translate.Amounts{}, map[string]bool{}
	for _, p := range pods {
		if !translate.Holds(p) {
			continue
		}
		job := jobs[p.UID]
		if job == 0 {
			job = match.NewJobID("pod", string(p.UID))
		}
		want[slotID{job, string(p.UID)}] = booking{p.Spec.NodeName, translate.Requests(p), holders[p.UID], ends[p.UID]}
		owned[p.Spec.NodeName] = owned[p.Spec.NodeName] || holders[p.UID] != ""
		if used[p.Spec.NodeName] == nil {
			used[p.Spec.NodeName] = translate.Amounts{}
		}
		used[p.Spec.NodeName].Add(translate.Requests(p))
	}
	all, err := e.Jobs(ctx, epoch)
	if err != nil {
		return "", fmt.Errorf("list jobs: %w", err)
	}
	got := map[slotID]booking{}
	for _, j := range all {
		for _, s := range j.Slots {
			got[slotID{j.ID, s.Key}] = booking{s.Node, matchtest.Amounts(s.R, "rack"), s.Holder, s.R.Expiration}
		}
	}
	// The inventory leaves an end as it is that changes by two seconds at most.
	if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(2*time.Second)); diff != "" {
		return "held (-cluster +engine):\n" + diff, nil
	}
	seen, err := seenRoom(ctx, epoch, e)
	if err != nil {
		return "", err
	}
	if room := room(nodes, used, owned); room != seen {
		return fmt.Sprintf("room for %d pods of one core is seen, and there is room for %d", seen, room), nil
	}
	return "", nil
}

// room counts the pods of one core that fit on the nodes that are ready and not held whole.
func room(nodes []*corev1.Node, used map[string]translate.Amounts, owned map[string]bool) int64 {
	var sum int64
	for _, n := range nodes {
		if owned[n.Name] {
			continue
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				cores := n.Status.Allocatable.Cpu().MilliValue() - used[n.Name][translate.TypeCore]
				pods := n.Status.Allocatable.Pods().Value() - used[n.Name][translate.TypePods]
				sum += max(0, min(cores/1000, pods))
			}
		}
	}
	return sum
}

func seenRoom(ctx context.Context, epoch match.Epoch, e match.Engine) (int64, error) {
	a, err := e.Match(ctx, match.Request{
		Epoch:   epoch,
		Op:      match.WithoutAllocating,
		ID:      match.NewJobID("room"),
		Jobspec: matchtest.Jobspec(matchtest.Slot("a", jobspec.Between(1, 1000), matchtest.Cores(1), matchtest.Pods(1))),
	})
	var refusal *match.Refusal
	switch {
	case errors.As(err, &refusal):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("ask for room: %w", err)
	default:
		return int64(len(a.Slots)), nil
	}
}
