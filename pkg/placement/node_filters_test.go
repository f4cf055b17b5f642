package placement

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// countedFilters is a handle that counts the nodes on which filters were run, and may
// fail the filters.
type countedFilters struct {
	fwk.Handle
	runs  atomic.Int64
	fails bool
}

func (c *countedFilters) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	c.runs.Add(1)
	if c.fails {
		return fwk.NewStatus(fwk.Error, "out of order")
	}
	return c.Handle.RunFilterPlugins(ctx, state, pod, node)
}

// runAndCountFilters returns the filters' verdicts on the nodes for a pod, and on how many nodes they were run.
func (r *profile) runAndCountFilters(c *countedFilters, pod *corev1.Pod, nodes ...fwk.NodeInfo) (filterResult, int64) {
	r.Helper()
	before := c.runs.Load()
	out, refused := r.runFilters(r.ctx, unlimitedBudget(r.ctx), pod, nodes)
	if refused != nil {
		r.Fatalf("refused: %s", refused.Message)
	}
	return out, c.runs.Load() - before
}

func infoOf(node *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	info := schedulerframework.NewNodeInfo(pods...)
	info.SetNode(node)
	return info
}

// kindsOfPods are kinds of pods. Some are alike to the filters that look only at the Node.
var kindsOfPods = map[string]func(*corev1.Pod){
	"plain":           func(*corev1.Pod) {},
	"with a label":    func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} },
	"of another size": objects.CPU("7"),
	"with a selector": func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
	"that tolerates the taint": func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	},
	"that tolerates all":  func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
	"with affinity":       func(p *corev1.Pod) { p.Spec.Affinity = nodeAffinity("disk", corev1.NodeSelectorOpNotIn, "hdd") },
	"with other affinity": func(p *corev1.Pod) { p.Spec.Affinity = nodeAffinity("disk", corev1.NodeSelectorOpIn, "hdd") },
	"for one node":        func(p *corev1.Pod) { p.Spec.Affinity = byName("n2") },
	"for another":         func(p *corev1.Pod) { p.Spec.Affinity = byName("n1", "n3") },
	"with a port": func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	},
}

func nodeAffinity(key string, op corev1.NodeSelectorOperator, value string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: []string{value}}}}},
	}}}
}

func byName(nodes ...string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: nodes}}}},
	}}}
}

// Whatever changes about nodes and pods, the cached verdicts are the filters' verdicts.
func TestCachedStatusesEqualFilterVerdicts(t *testing.T) {
	runs, all := int64(0), int64(0)
	for seed := range trials.Seeds(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			inProfile(t, nil, nil, func(r *profile) {
				c := &countedFilters{Handle: r.Handle}
				r.Handle = c
				kept, without := r.nodeFilterCache, nodeFilterCache{}
				d := rand.New(rand.NewPCG(seed, 1))
				kinds := slices.Sorted(maps.Keys(kindsOfPods))
				var nodes []fwk.NodeInfo
				made := 0
				for range 300 {
					nodes = r.changed(d, nodes, &made)
					pod := objects.Pod("p", kindsOfPods[kinds[d.IntN(len(kinds))]])
					r.nodeFilterCache = kept
					got, some := r.runAndCountFilters(c, pod, nodes...)
					kept, r.nodeFilterCache = r.nodeFilterCache, without
					want, each := r.runAndCountFilters(c, pod, nodes...)
					if diff := cmp.Diff(want, got, cmp.AllowUnexported(filterResult{})); diff != "" {
						r.Fatalf("%s (-without what is kept +with it):\n%s", pod.Spec.String(), diff)
					}
					runs, all = runs+some, all+each
				}
			})
		})
	}
	if runs > all*3/4 {
		t.Errorf("filters were run on %d nodes, and on %d where nothing was kept", runs, all)
	}
}

// changed returns the nodes after at most one of them came, went or changed.
func (r *profile) changed(d *rand.Rand, nodes []fwk.NodeInfo, made *int) []fwk.NodeInfo {
	nodes = slices.Clone(nodes)
	if len(nodes) == 0 || len(nodes) < 12 && d.IntN(6) == 0 {
		*made++
		return slices.Insert(nodes, d.IntN(len(nodes)+1), infoOf(objects.ReadyNode(fmt.Sprintf("n%d", *made), 8)))
	}
	at := d.IntN(len(nodes))
	node := nodes[at].Node().DeepCopy()
	switch d.IntN(12) {
	case 0:
		return slices.Delete(nodes, at, at+1)
	case 1:
		node.Spec.Unschedulable = !node.Spec.Unschedulable
	case 2:
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule})
	case 3:
		node.Spec.Taints = nil
	case 4:
		node.Labels["disk"] = []string{"ssd", "hdd"}[d.IntN(2)]
	case 5: // a pod that changes no Node
		port := objects.Pod(fmt.Sprintf("other-%d", d.Int()), kindsOfPods["with a port"])
		nodes[at] = infoOf(nodes[at].Node(), port)
		return nodes
	default:
		return nodes
	}
	nodes[at] = infoOf(node)
	return nodes
}

func TestFiltersAreRunForNodesThatChanged(t *testing.T) {
	inProfile(t, nil, nil, func(r *profile) {
		c := &countedFilters{Handle: r.Handle}
		r.Handle = c
		one, two, three := infoOf(objects.ReadyNode("n1", 8)), infoOf(objects.ReadyNode("n2", 8)), infoOf(objects.ReadyNode("n3", 8))
		cordoned := two.Node().DeepCopy()
		cordoned.Spec.Unschedulable = true
		steps := []struct {
			what  string
			kind  string
			fails bool
			nodes []fwk.NodeInfo
			want  int64
		}{
			{"the first time", "plain", false, []fwk.NodeInfo{one, two, three}, 3},
			{"the second time", "plain", false, []fwk.NodeInfo{one, two, three}, 0},
			{"a pod that these filters take for the same", "of another size", false, []fwk.NodeInfo{one, two, three}, 0},
			{"a pod that other filters look at", "with a port", false, []fwk.NodeInfo{one, two, three}, 3},
			{"and once more", "with a port", false, []fwk.NodeInfo{one, two, three}, 3},
			{"a pod that tolerates something", "that tolerates all", false, []fwk.NodeInfo{one, two, three}, 3},
			{"a node changed", "plain", false, []fwk.NodeInfo{one, infoOf(cordoned), three}, 1},
			{"more pods are on a node", "plain", false, []fwk.NodeInfo{infoOf(one.Node(), objects.Pod("other")), infoOf(cordoned), three}, 0},
			{"a node came", "plain", false, []fwk.NodeInfo{one, two, three, infoOf(objects.ReadyNode("n4", 8))}, 4},
			{"filters fail", "with affinity", true, []fwk.NodeInfo{one, two, three}, 3},
			{"after they failed", "with affinity", false, []fwk.NodeInfo{one, two, three}, 3},
		}
		for _, step := range steps {
			c.fails = step.fails
			if _, got := r.runAndCountFilters(c, objects.Pod("p", kindsOfPods[step.kind]), step.nodes...); got != step.want {
				r.Errorf("%s: filters were run on %d nodes, want %d", step.what, got, step.want)
			}
		}
	})
}

// A plugin that is not kube-scheduler's may look at anything.
func TestThirdPartyFilterDisablesCache(t *testing.T) {
	inProfile(t, nil, nil, func(r *profile) {
		c := &countedFilters{Handle: r.Handle}
		r.Handle = c
		node := infoOf(objects.ReadyNode("n1", 8))
		for range 2 {
			if _, got := r.runAndCountFilters(c, objects.Pod("p"), node); got != 1 {
				r.Errorf("filters were run on %d nodes, want 1", got)
			}
		}
	}, thirdPartyFilter{})
}

// thirdPartyFilter is a filter that is not kube-scheduler's.
type thirdPartyFilter struct{}

func (thirdPartyFilter) Name() string { return "Nobodys" }

func (thirdPartyFilter) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

// alternatingPreFilter is a plugin whose PreFilter leaves another node each time, and that has no Filter.
type alternatingPreFilter struct{ nodes []string }

func (*alternatingPreFilter) Name() string { return "Roving" }

func (f *alternatingPreFilter) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	next := f.nodes[0]
	f.nodes = f.nodes[1:]
	return &fwk.PreFilterResult{NodeNames: sets.New(next)}, nil
}

func (*alternatingPreFilter) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func TestPreFilterVerdictsAreNotCached(t *testing.T) {
	inProfile(t, nil, nil, func(r *profile) {
		c := &countedFilters{Handle: r.Handle}
		r.Handle = c
		one, two := infoOf(objects.ReadyNode("n1", 8)), infoOf(objects.ReadyNode("n2", 8))
		for _, want := range []string{"n2", "n1"} {
			if out, _ := r.runAndCountFilters(c, objects.Pod("p"), one, two); !slices.Equal(out.unresolvable, []string{want}) {
				r.Errorf("%q are ruled out, want %s", out.unresolvable, want)
			}
		}
	}, &alternatingPreFilter{nodes: []string{"n1", "n2"}})
}

// Kubelets replace their Nodes every few minutes.
func TestNodesThatAreGoneAreNotKeptForOldKindsOfPods(t *testing.T) {
	inProfile(t, nil, nil, func(r *profile) {
		gone := func() weak.Pointer[corev1.Node] {
			old := objects.ReadyNode("n1", 8)
			for _, kind := range []string{"plain", "with a selector"} {
				r.runAndCountFilters(&countedFilters{}, objects.Pod("p", kindsOfPods[kind]), infoOf(old))
			}
			return weak.Make(old)
		}()
		r.runAndCountFilters(&countedFilters{}, objects.Pod("p", kindsOfPods["plain"]), infoOf(objects.ReadyNode("n1", 8)))
		runtime.GC()
		if gone.Value() != nil {
			r.Error("a Node that is gone is kept for a kind of pods that nobody asks for")
		}
	})
}

func TestEqualStatusesAreInterned(t *testing.T) {
	inProfile(t, nil, nil, func(r *profile) {
		nodes := make([]fwk.NodeInfo, 100)
		for i := range nodes {
			nodes[i] = infoOf(objects.ReadyNode(fmt.Sprintf("n%d", i), 8))
		}
		r.runAndCountFilters(&countedFilters{}, objects.Pod("p", kindsOfPods["with a selector"]), nodes...)
		for _, s := range r.nodeFilterCache.byKey {
			if distinct := sets.New(s.byNode...); distinct.Len() != 1 {
				r.Errorf("%d statuses are kept for %d nodes, want 1", distinct.Len(), len(nodes))
			}
		}
	})
}

func TestCachedFilterKeysAreBounded(t *testing.T) {
	inProfile(t, nil, nil, func(r *profile) {
		node := infoOf(objects.ReadyNode("n1", 8))
		for n := range 10 * maxFilterKeys {
			pod := objects.Pod("p", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": fmt.Sprint(n)} })
			if out, _ := r.runFilters(r.ctx, unlimitedBudget(r.ctx), pod, []fwk.NodeInfo{node}); len(out.unresolvable) != 1 {
				r.Fatalf("a node without the label is not ruled out: %+v", out)
			}
		}
		if got := len(r.nodeFilterCache.byKey); got == 0 || got > maxFilterKeys {
			r.Errorf("statuses are kept for %d kinds, want at most %d", got, maxFilterKeys)
		}
	})
}

// A canceled cycle runs the filters on no further node. The verdicts on the remaining
// nodes stay unknown.
func TestUnfilteredNodesStayStale(t *testing.T) {
	inProfile(t, nil, nil, func(r *profile) {
		c := &countedFilters{Handle: r.Handle}
		r.Handle = c
		node := objects.ReadyNode("n1", 8)
		node.Spec.Unschedulable = true
		off, cancel := context.WithCancel(r.ctx)
		cancel()
		_, _ = r.runFilters(off, unlimitedBudget(r.ctx), objects.Pod("p"), []fwk.NodeInfo{infoOf(node)})
		if n := c.runs.Load(); n != 0 {
			r.Fatalf("filters were run on %d nodes though the cycle was called off", n)
		}
		if out, _ := r.runAndCountFilters(c, objects.Pod("p"), infoOf(node)); len(out.unresolvable) != 1 {
			r.Errorf("a cordoned node is not ruled out: %+v", out)
		}
	})
}

// unlimitedBudget returns a budget that no test uses up.
func unlimitedBudget(ctx context.Context) *Budget {
	return &Budget{ctx: ctx, now: time.Now, began: time.Now(), max: time.Hour}
}
