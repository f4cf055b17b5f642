package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A probe is a run of the profile's filters on a pod that is not being
// scheduled. Its cycle state says so, or this plugin would run itself.
type probe struct{}

// Clone returns the same: it never changes.
func (p probe) Clone() fwk.StateData { return p }

const probeKey fwk.StateKey = PluginName + "/probe"

// IsProbe says that the pod of a cycle is not being scheduled: a Placer asks the plugins about it.
func IsProbe(state fwk.CycleState) bool {
	_, err := state.Read(probeKey)
	return err == nil
}

// filterResult is what the profile's own filters say of a pod's nodes.
type filterResult struct {
	// never and now name the nodes ruled out for good, and for the present.
	never, now []string
	// why counts the nodes by the filters' own words.
	why map[string]int
	// filters are the plugins that ruled nodes out.
	filters sets.Set[string]
	// byExtender says that an extender ruled some out for the present, rejectedByExtenders: no event
	// tells when it has changed its mind.
	byExtender          bool
	rejectedByExtenders []string
}

// hasNonNodeFilters says that filters ruled nodes out which look at more than the nodes themselves.
func (r filterResult) hasNonNodeFilters() bool { return r.filters.Difference(nodeFilters).Len() > 0 }

// events lists what may let the filters answer otherwise, beside a change of a
// node.
func (r filterResult) events() []gang.Event {
	var pods, storage bool
	for filter := range r.filters {
		switch {
		case nodeFilters.Has(filter):
		case filter == names.InterPodAffinity, filter == names.PodTopologySpread, filter == names.NodePorts:
			pods = true
		default:
			pods, storage = true, true
		}
	}
	var events []gang.Event
	if pods {
		events = append(events, gang.PodChanged)
	}
	if storage {
		events = append(events, gang.StorageChanged)
	}
	return events
}

func (r *filterResult) add(o filterResult) {
	r.never = append(r.never, o.never...)
	r.now = append(r.now, o.now...)
	if r.why == nil {
		r.why = map[string]int{}
	}
	for why, n := range o.why {
		r.why[why] = max(r.why[why], n)
	}
	r.filters = r.filters.Union(o.filters)
	r.byExtender = r.byExtender || o.byExtender
}

// String lists the filters' words with the numbers of nodes, most first.
func (r filterResult) String() string {
	if len(r.why) == 0 {
		return ""
	}
	whys := slices.SortedFunc(maps.Keys(r.why), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.why[b], r.why[a]), cmp.Compare(a, b))
	})
	const most = 3
	parts := make([]string, 0, most)
	for _, why := range whys[:min(most, len(whys))] {
		parts = append(parts, fmt.Sprintf("%d %s", r.why[why], why))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// attributes turns the nodes ruled out into constraints of a slot request.
func (r filterResult) attributes() jobspec.SlotAttributes {
	var a jobspec.SlotAttributes
	if len(r.never) > 0 {
		a.Constraints = notOn(r.never)
	}
	if len(r.now) > 0 {
		a.ConstraintsNow = notOn(r.now)
	}
	return a
}

func notOn(hosts []string) *jobspec.Constraint {
	return &jobspec.Constraint{Op: jobspec.OpNot, Args: []jobspec.Constraint{{Op: jobspec.OpHostlist, Values: hosts}}}
}

// skippedFilters are filters that runFilters leaves out: the plugin that asks, and the one of the room on a
// node.
var skippedFilters = sets.New(PluginName, names.NodeResourcesFit)

// runFilters says which nodes the profile's filters rule out for a pod. It runs them on each
// node of which nodeFilterCache does not know the answer. The filter of the room on a node is
// left out: how much room there is, the matcher says, with numbers. It may only be called
// inside a scheduling cycle. The refusal, if there is one, holds for all nodes.
func (p *Placer) runFilters(ctx context.Context, budget *Budget, pod *corev1.Pod, nodes []fwk.NodeInfo) (filterResult, *gang.Refusal) {
	state := schedulerframework.NewCycleState()
	state.Write(probeKey, probe{})
	result, status := p.preFilter(ctx, budget, state, pod)
	if !status.IsSuccess() {
		return filterResult{}, preFilterRefusal(pod, status)
	}
	// RunPreFilterPlugins sets the whole set when it returns, so it is added to
	// only now.
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(skippedFilters))

	known, stale := unknown(nodes)
	if result.AllNodes() {
		known, stale = p.nodeFilterCache.lookup(pod, nodes, state.GetSkipFilterPlugins())
	}
	passes := fwk.NewStatus(fwk.Success)
	leftOut := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy a plugin's PreFilter")
	answers := make([]*fwk.Status, len(stale)) // nil: not asked
	p.Handle.Parallelizer().Until(ctx, len(stale), func(k int) {
		answers[k] = leftOut
		if info := nodes[stale[k]]; result.AllNodes() || result.NodeNames.Has(info.Node().Name) {
			answers[k] = cmp.Or(p.Handle.RunFilterPlugins(ctx, state, pod, info), passes)
		}
	}, PluginName)
	p.nodeFilterCache.set(known, stale, answers)
	out := filterResult{why: map[string]int{}, filters: sets.New[string]()}
	for i, status := range known.byNode {
		if status.IsSuccess() {
			continue
		}
		name := nodes[i].Node().Name
		if status.Code() == fwk.UnschedulableAndUnresolvable {
			out.never = append(out.never, name)
		} else {
			out.now = append(out.now, name)
		}
		out.why[status.Message()]++
		out.filters.Insert(status.Plugin())
	}
	// The order of the nodes must not make another request of it.
	slices.Sort(out.never)
	slices.Sort(out.now)
	return out, nil
}

// preFilterRefusal is what is told where no node could do.
func preFilterRefusal(pod *corev1.Pod, status *fwk.Status) *gang.Refusal {
	return &gang.Refusal{
		Reason:  reason.NodesRuledOut,
		Message: fmt.Sprintf("pod %s: %s", pod.Name, status.Message()),
		RetryOn: gang.ClusterEvents(),
		Backoff: true,
	}
}
