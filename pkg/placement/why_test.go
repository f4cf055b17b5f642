package placement

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/test/objects"
)

// The nodes without a resource are counted once for a refusal, and not after the budget is over.
func TestNodesWithoutAResourceAreCountedOnce(t *testing.T) {
	q := &attempt{shapes: []*interpod.Shape{{}}, verdicts: verdicts{ruledOutByShape: []map[string]bool{nil}}, budget: unlimitedBudget(t.Context())}
	for _, gpus := range []string{"0", "0", "1"} {
		info := schedulerframework.NewNodeInfo()
		info.SetNode(objects.ReadyNode("n", 4, objects.Having("cpu", "4", "pods", "110", "example.com/gpu", gpus)))
		q.nodes = append(q.nodes, info)
	}
	count := q.counterWithout("shape0")
	if n := count("example.com/gpu"); n != 2 {
		t.Errorf("%d nodes are without the resource, want 2", n)
	}
	q.nodes = append([]fwk.NodeInfo{q.nodes[0]}, q.nodes...)
	if n := count("example.com/gpu"); n != 2 {
		t.Errorf("the nodes are counted again: %d", n)
	}
	q.budget.max = -time.Second
	if n := count("example.com/other"); n != 0 {
		t.Errorf("%d nodes are counted after the budget is over", n)
	}
	if n := count("example.com/gpu"); n != 2 {
		t.Errorf("the number is %d after the budget is over, want 2", n)
	}
}

// A refusal for good has the numbers of an empty cluster. Five pods that keep apart are to be in one rack of
// four nodes. Three of all nodes have room.
func TestARefusalForGoodLeavesOutTheNumbersOfThePresent(t *testing.T) {
	shape := &interpod.Shape{Required: 5}
	for i := range 5 {
		shape.Pods = append(shape.Pods, objects.Pod(fmt.Sprint("p", i), objects.OfApp("x"), objects.AwayFrom("x"), objects.CPU("1")))
	}
	q := &attempt{shapes: []*interpod.Shape{shape}, verdicts: verdicts{ruledOutByShape: []map[string]bool{nil}, unresolvable: [][]string{nil}}, budget: unlimitedBudget(t.Context())}
	for i := range 16 {
		name := fmt.Sprint("n", i)
		info := schedulerframework.NewNodeInfo()
		if i >= 3 {
			info.AddPod(objects.Pod("on-"+name, objects.CPU("8"), objects.OnNode(name)))
		}
		info.SetNode(objects.ReadyNode(name, 8, func(n *corev1.Node) { n.Labels["rack"] = fmt.Sprint("rack", i/4) }))
		q.nodes = append(q.nodes, info)
	}
	var err error
	q.constraints, err = interpod.New(q.shapes, true, "", q.nodes, nil, func(string) labels.Set { return nil }, q.budget.isOver)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlacer(Config{BlockerOf: func(match.Reason, types.NamespacedName) string { return "" }})
	no := match.Reason{Code: match.TooFew, Slot: "shape0", Level: "rack", Vertex: "rack0", Wanted: 5, Found: 4, Nodes: 16}
	const never = "needs 5 pods in one rack; rack0 could hold 4 if it were empty"
	if got := p.whyNoRoom(q, &match.Refusal{Err: match.ErrUnsatisfiable, Reason: no}); got != never {
		t.Errorf("for good:\n%s\nwant\n%s", got, never)
	}
	no.WaitingHelps = true
	const now = "needs 5 pods in one rack; room in rack0 for 3: at most one to a node (podAntiAffinity on kubernetes.io/hostname), room on 3 of 16 nodes"
	if got := p.whyNoRoom(q, &match.Refusal{Err: match.ErrBusy, Reason: no}); got != now {
		t.Errorf("for the present:\n%s\nwant\n%s", got, now)
	}
}
