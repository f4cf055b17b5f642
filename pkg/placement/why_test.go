package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/translate"
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

// What changes with other pods and nodes changes no stable text: the number of pods, nodes and domains, the
// domain that limits a constraint, and whether a constraint is the reason.
func TestMessagesOfOneRefusalHaveOneStableText(t *testing.T) {
	const block = "cloud.google.com/gce-topology-block"
	levels := []translate.Level{{Type: "gce-topology-block", Key: block}}
	apart := func(p *corev1.Pod) {
		objects.AwayFrom("x")(p)
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = block
	}
	lists, texts, found := [][]string{nil}, sets.New[string](), sets.New[string]()
	for kind, edit := range map[string]func(*corev1.Pod){
		"spread": objects.SpreadOver(block, "x", 1), "apart": apart, "node": objects.AwayFrom("x"), "together": objects.NextTo(block, "x"), "port": objects.HostPort(80),
	} {
		for full := range 14 {
			full, name := full/2, []string{"", "b-0"}[full%2]
			nodes := make([]fwk.NodeInfo, 8)
			for i := range nodes {
				info := schedulerframework.NewNodeInfo()
				if i < full {
					info.AddPod(objects.Pod("full", objects.CPU("4")))
				}
				info.SetNode(objects.ReadyNode(fmt.Sprint("n", i), 4, func(n *corev1.Node) { n.Labels[block] = []string{name, "b-1", "b-2", "b-3"}[i/2] }))
				nodes[i] = info
			}
			for _, pods := range []int{2, 3, 5, 9, 20} {
				shape := &interpod.Shape{Required: int64(pods)}
				for i := range pods {
					shape.Pods = append(shape.Pods, objects.Pod(fmt.Sprint("p", i), objects.OfApp("x"), edit))
				}
				s, err := interpod.New([]*interpod.Shape{shape}, true, "", nodes, levels, func(string) labels.Set { return nil }, func() bool { return false })
				if err != nil {
					t.Fatal(err)
				}
				none := []map[string]bool{nil}
				for _, c := range interpod.Causes(s, none, none) {
					if found.Insert(kind); !texts.Has(c.Text) {
						texts.Insert(c.Text)
						lists = append(lists, []string{c.Text})
					}
				}
			}
		}
	}
	if all := strings.Join(texts.UnsortedList(), "\n"); len(found) != 5 || !strings.Contains(all, " gce-topology-blocks") || !strings.Contains(all, ",  has room") {
		t.Errorf("the kinds of causes are %v, want five; the causes are\n%s", found, all)
	}
	numbers := []int64{1, 2, 5}
	for _, code := range []match.Code{match.TooFew, match.NoNode, match.NotFound, match.TooLarge} {
		for _, kind := range []struct{ stay, never bool }{{}, {stay: true}, {never: true}} {
			first := ""
			for _, n := range numbers {
				for _, vertex := range []string{"b-1", "gce-topology-block-7", translate.Unlabelled} {
					for _, causes := range lists {
						r := match.Reason{
							Code: code, Level: "gce-topology-block", Vertex: vertex, Wanted: 30, Found: n - 1, Nodes: n + 20, Excluded: n, Down: n, InUse: n, OtherHolder: n, WaitingHelps: !kind.never,
							Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 1000, MaxOnNode: 100 * n, Nodes: n}},
						}
						if code == match.TooLarge || code == match.NoNode {
							causes = nil // they have none
							r.Nodes, r.Vertex = 6*n, ""
						}
						if kind.stay {
							causes = append([]string{(&siblingDomain{names: []string{"b-1"}, pods: int(n)}).String()}, causes...)
						}
						m := translate.Message(r, translate.Background{Pods: 30, Causes: causes, Never: kind.never})
						if first == "" {
							first = m
						}
						if got, want := report.StableText(m), report.StableText(first); got != want {
							t.Fatalf("the stable texts of\n%s\n%s\ndiffer:\n%s\n%s", m, first, got, want)
						}
					}
				}
			}
		}
	}
}
