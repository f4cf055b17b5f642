package placement

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// newSearchAttempt returns an attempt of a group of one pod that searches nodes to reserve,
// each with pods that do not end.
func newSearchAttempt(nodes, pods int, budget *Budget) *attempt {
	q := &attempt{plan: gang.Plan{Key: types.NamespacedName{Namespace: objects.Namespace, Name: "g"}}, verdicts: verdicts{unresolvable: [][]string{nil}}, budget: budget, outlasted: func(*corev1.Pod) bool { return false }}
	for n := range nodes {
		name := fmt.Sprintf("n%d", n)
		info := schedulerframework.NewNodeInfo()
		for i := range pods {
			info.AddPod(objects.Pod(fmt.Sprintf("p%d-%d", n, i), objects.Always, objects.OnNode(name), objects.CPU("1m")))
		}
		info.SetNode(objects.ReadyNode(name, 4))
		q.nodes = append(q.nodes, info)
	}
	return q
}

// placerHidingForeignNames returns a placer for which each pod is one job, and which names nothing of
// other namespaces.
func placerHidingForeignNames() *Placer {
	return NewPlacer(Config{
		MayName: func(namespace, reader string) bool { return namespace == reader },
		JobsOf: func(pods []*corev1.Pod) (jobs []match.JobID) {
			for _, p := range pods {
				jobs = append(jobs, match.NewJobID("pod", string(p.UID)))
			}
			return jobs
		},
	})
}

// The search for candidates ends when its budget is used up.
func TestFindCandidatesEndsWithItsBudget(t *testing.T) {
	const nodes = 10 * checkBudgetEveryNodes
	for name, tc := range map[string]struct {
		most  time.Duration
		known bool
	}{
		"over at once":      {0, false},
		"over in between":   {5 * time.Millisecond, false},
		"longer than it is": {time.Second, true},
	} {
		looked := 0
		now := time.Now()
		may := &Budget{ctx: context.Background(), began: now, max: tc.most, now: func() time.Time {
			looked++
			return now.Add(time.Duration(looked) * time.Millisecond)
		}}
		where, known := reservationSearch{placerHidingForeignNames(), newSearchAttempt(nodes, 1, may)}.findCandidates(permanentRejections{nodes: [][]string{nil}})
		if known != tc.known {
			t.Errorf("an allowance that is %s: known %t", name, known)
		}
		if want := int(tc.most / time.Millisecond * checkBudgetEveryNodes); !known && len(where.nodes) != want {
			t.Errorf("an allowance that is %s: %d nodes were looked at, want %d", name, len(where.nodes), want)
		}
	}
}

// A few blockers are named, and the others are counted.
func TestOnlyMaxNamedBlockersAreNamed(t *testing.T) {
	q := newSearchAttempt(2, 5, &Budget{ctx: context.Background(), now: time.Now, began: time.Now(), max: time.Hour})
	q.nodes[1].(*schedulerframework.NodeInfo).AddPod(objects.Pod("theirs", objects.Always, objects.Elsewhere, objects.OnNode("n1")))
	where, known := reservationSearch{placerHidingForeignNames(), q}.findCandidates(permanentRejections{nodes: [][]string{nil}})
	const want = ": pods that do not end are on 2 nodes that it could use (ns/p0-0, ns/p0-1, ns/p0-2 and 7 more; 1 pod of other namespaces)"
	if got := where.why(); !known || got != want {
		t.Errorf("known %t: %q, want %q", known, got, want)
	}
	if n := cap(where.endless.named); n > 2*maxNamed {
		t.Errorf("there is room for %d names", n)
	}
}
