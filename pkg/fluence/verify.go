package fluence

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// maxRuns bounds the runs of the filters in one verification.
const maxRuns = 1 << 14

// An objection is that a filter refused a member its node, earlier members placed.
type objection struct {
	shape  int
	pod    string
	node   string
	status *fwk.Status
}

// String says which pod on which node was refused by what.
func (o objection) String() string {
	by := ""
	if p := o.status.Plugin(); p != "" {
		by = " by " + p
	}
	return fmt.Sprintf("pod %s on node %s was refused%s: %s", o.pod, o.node, by, o.status.Message())
}

// verified is what came of a verification: the slots that passed, in an order in which
// each passes after those before it, and what was objected to the others.
type verified struct {
	order      []int
	objections []objection
}

// stage is the cluster as it is with the members that were placed so far.
type stage struct {
	pl     *Fluence
	s      *siblings
	states []fwk.CycleState
	only   []sets.Set[string] // the nodes that PreFilter leaves to a shape; nil is all
	infos  map[string]fwk.NodeInfo
	clones map[string]fwk.NodeInfo
	skews  []skew
	placed []placedPod
	taken  []int // by shape, how many of its pods are placed
	runs   int
}

type placedPod struct {
	shape int
	info  fwk.PodInfo
	node  fwk.NodeInfo
}

// verify puts members on the nodes of their slots one by one, each after the
// profile's own filters passed it with those before it, and finds an order in which
// that goes. Each slot is a shape and a node. It may only be called inside a scheduling
// cycle. The refusal, if there is one, is of no node in particular.
func (pl *Fluence) verify(ctx context.Context, s *siblings, slots []target) (verified, *gang.Refusal) {
	st := &stage{pl: pl, s: s, infos: make(map[string]fwk.NodeInfo, len(s.nodes)), clones: map[string]fwk.NodeInfo{}, taken: make([]int, len(s.shapes))}
	for _, n := range s.nodes {
		st.infos[n.Node().Name] = n
	}
	for _, sp := range s.spreads {
		st.skews = append(st.skews, skew{spread: sp, counts: sp.counts(), domain: sp.domainOf()})
	}
	if refused := st.prepare(ctx); refused != nil {
		return verified{}, refused
	}
	var v verified
	pending := s.sequence(slots)
	for len(pending) > 0 {
		v.objections = v.objections[:0]
		left := st.pass(ctx, slots, pending, &v)
		if s.over() {
			return verified{}, s.hard()
		}
		if len(left) == len(pending) || !s.inOrder() {
			break
		}
		pending = left
	}
	return v, nil
}

// target is where a slot was given: the index of its shape, and its node.
type target struct {
	shape int
	node  string
}

// prepare runs the PreFilter plugins for each shape.
func (st *stage) prepare(ctx context.Context) *gang.Refusal {
	for _, shape := range st.s.shapes {
		if st.s.over() {
			return st.s.hard()
		}
		state := schedulerframework.NewCycleState()
		state.Write(probeKey, probe{})
		result, status := st.pl.preFilter(ctx, st.s.may, state, shape.pods[0])
		if !status.IsSuccess() {
			return refusedBeforeFilter(shape.pods[0], status)
		}
		state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(notAsked))
		st.states = append(st.states, state)
		var only sets.Set[string]
		if !result.AllNodes() {
			only = result.NodeNames
		}
		st.only = append(st.only, only)
	}
	return nil
}

// pass tries each pending slot once, and returns those that did not pass.
func (st *stage) pass(ctx context.Context, slots []target, pending []int, v *verified) (left []int) {
	refused := map[target]*fwk.Status{}
	for _, i := range pending {
		if st.s.over() {
			return left
		}
		t := slots[i]
		status := refused[t]
		if status == nil {
			if status = st.try(ctx, t); status.IsSuccess() {
				v.order = append(v.order, i)
				// What was refused may pass now.
				if st.s.inOrder() {
					clear(refused)
				}
				continue
			}
			refused[t] = status
			v.objections = append(v.objections, objection{shape: t.shape, pod: st.next(t.shape), node: t.node, status: status})
		}
		left = append(left, i)
	}
	return left
}

// next names the pod of a shape that is placed next.
func (st *stage) next(shape int) string {
	pods := st.s.shapes[shape].pods
	return pods[min(st.taken[shape], len(pods)-1)].Name
}

// try places the next pod of a shape on a node if the filters pass it.
func (st *stage) try(ctx context.Context, t target) *fwk.Status {
	if st.runs++; st.runs > maxRuns {
		return fwk.NewStatus(fwk.Unschedulable, "no order of the pods was found")
	}
	clone := st.clones[t.node]
	if clone == nil {
		info := st.infos[t.node]
		if info == nil {
			return fwk.NewStatus(fwk.Unschedulable, "the scheduler does not know the node yet")
		}
		clone = info.Snapshot()
		st.clones[t.node] = clone
	}
	shape := st.s.shapes[t.shape]
	if only := st.only[t.shape]; only != nil && !only.Has(t.node) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy a plugin's PreFilter")
	}
	pod := shape.pods[min(st.taken[t.shape], len(shape.pods)-1)]
	if status := st.pl.handle.RunFilterPlugins(ctx, st.states[t.shape], pod, clone); !status.IsSuccess() {
		return status
	}
	if status := st.shunned(t.shape, clone); status != nil {
		return status
	}
	for _, sk := range st.skews {
		if !sk.allows(t) {
			return fwk.NewStatus(fwk.Unschedulable, podtopologyspread.ErrReasonConstraintsNotMatch).WithPlugin(names.PodTopologySpread)
		}
	}
	info, err := schedulerframework.NewPodInfo(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	clone.AddPodInfo(info)
	for i, state := range st.states {
		if status := st.pl.handle.RunPreFilterExtensionAddPod(ctx, state, st.s.shapes[i].pods[0], info, clone); !status.IsSuccess() {
			return status
		}
	}
	for _, sk := range st.skews {
		sk.add(t)
	}
	st.placed = append(st.placed, placedPod{shape: t.shape, info: info, node: clone})
	st.taken[t.shape]++
	return nil
}

// shunned finds an earlier member whose anti-affinity keeps a shape away from a node.
// InterPodAffinity does not look where it was not needed before any member was placed.
func (st *stage) shunned(shape int, node fwk.NodeInfo) *fwk.Status {
	if !st.states[shape].GetSkipFilterPlugins().Has(names.InterPodAffinity) {
		return nil
	}
	for _, p := range st.placed {
		for _, term := range p.info.GetRequiredAntiAffinityTerms() {
			there, ok := p.node.Node().Labels[term.TopologyKey]
			here, also := node.Node().Labels[term.TopologyKey]
			if ok && also && here == there && st.s.selects(&term, shape) {
				return fwk.NewStatus(fwk.Unschedulable, "node(s) didn't satisfy the anti-affinity rules of pod "+p.info.GetPod().Name).WithPlugin(names.InterPodAffinity)
			}
		}
	}
	return nil
}

// enough says whether of each shape as many slots passed as have to.
func (v verified) enough(s *siblings, slots []target) bool {
	passed := make([]int64, len(s.shapes))
	for _, i := range v.order {
		passed[slots[i].shape]++
	}
	for i, shape := range s.shapes {
		if passed[i] < shape.required {
			return false
		}
	}
	return true
}
