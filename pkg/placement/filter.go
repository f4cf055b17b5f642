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

// A probe marks the cycle state of a run of the filters on a pod that is not being
// scheduled. Without the mark, the Fluence plugin would run itself.
type probe struct{}

// Clone returns the probe itself, because it never changes.
func (p probe) Clone() fwk.StateData { return p }

const probeKey fwk.StateKey = PluginName + "/probe"

// IsProbe reports whether the pod of a cycle is not being scheduled: a Placer only
// runs the plugins on it.
func IsProbe(state fwk.CycleState) bool {
	_, err := state.Read(probeKey)
	return err == nil
}

// filterResult is what the profile's filters and extenders say of the nodes for a pod.
type filterResult struct {
	// unresolvable names the nodes that are ruled out for good. unschedulable
	// names the nodes that are ruled out for the present.
	unresolvable, unschedulable []string
	// nodesByMessage counts the nodes by the filters' messages.
	nodesByMessage map[string]int
	// filters are the plugins and extenders that ruled nodes out.
	filters sets.Set[string]
	// byExtender says that an extender ruled nodes out for the present. No event
	// tells when an extender would decide otherwise.
	byExtender bool
	// rejectedByExtenders names these nodes.
	rejectedByExtenders []string
}

// hasNonNodeFilters reports whether nodes were ruled out by filters that look at more
// than the Node.
func (r filterResult) hasNonNodeFilters() bool { return r.filters.Difference(nodeFilters).Len() > 0 }

// events lists the events, besides a change of a node, after which these filters may
// decide otherwise.
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

// add merges the result for another shape, without its rejectedByExtenders.
func (r *filterResult) add(o filterResult) {
	r.unresolvable = append(r.unresolvable, o.unresolvable...)
	r.unschedulable = append(r.unschedulable, o.unschedulable...)
	if r.nodesByMessage == nil {
		r.nodesByMessage = map[string]int{}
	}
	for why, n := range o.nodesByMessage {
		r.nodesByMessage[why] = max(r.nodesByMessage[why], n)
	}
	r.filters = r.filters.Union(o.filters)
	r.byExtender = r.byExtender || o.byExtender
}

// bracketedReasons lists the three most frequent messages, each with its number of nodes.
func (r filterResult) bracketedReasons() string {
	if len(r.nodesByMessage) == 0 {
		return ""
	}
	whys := slices.SortedFunc(maps.Keys(r.nodesByMessage), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.nodesByMessage[b], r.nodesByMessage[a]), cmp.Compare(a, b))
	})
	const most = 3
	parts := make([]string, 0, most)
	for _, why := range whys[:min(most, len(whys))] {
		parts = append(parts, fmt.Sprintf("%d %s", r.nodesByMessage[why], why))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// attributes returns the nodes that are ruled out as constraints of a slot request.
func (r filterResult) attributes() jobspec.SlotAttributes {
	var a jobspec.SlotAttributes
	if len(r.unresolvable) > 0 {
		a.Constraints = notOn(r.unresolvable)
	}
	if len(r.unschedulable) > 0 {
		a.ConstraintsNow = notOn(r.unschedulable)
	}
	return a
}

func notOn(hosts []string) *jobspec.Constraint {
	return &jobspec.Constraint{Op: jobspec.OpNot, Args: []jobspec.Constraint{{Op: jobspec.OpHostlist, Values: hosts}}}
}

// skippedFilters are the Filter plugins that are not run on probes: Fluence itself,
// and NodeResourcesFit.
var skippedFilters = sets.New(PluginName, names.NodeResourcesFit)

// runFilters returns which nodes the profile's filters rule out for a pod. It runs them
// on each node without a cached verdict. It leaves out NodeResourcesFit, because the
// matcher answers how much room there is, with numbers. It may only be called inside a
// scheduling cycle. It returns a refusal if PreFilter rejects the pod on all nodes.
func (p *Placer) runFilters(ctx context.Context, budget *Budget, pod *corev1.Pod, nodes []fwk.NodeInfo) (filterResult, *gang.Refusal) {
	state := schedulerframework.NewCycleState()
	state.Write(probeKey, probe{})
	result, status, plugins := p.preFilter(ctx, budget, state, pod)
	if !status.IsSuccess() {
		return filterResult{}, preFilterRefusal(pod, status)
	}
	// RunPreFilterPlugins overwrites the set when it returns, so the set is extended only now.
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(skippedFilters))

	known, stale := uncachedStatuses(nodes)
	if result.AllNodes() {
		known, stale = p.nodeFilterCache.lookup(pod, nodes, state.GetSkipFilterPlugins())
	}
	passes := fwk.NewStatus(fwk.Success)
	leftOut := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, whyLeftOut(plugins))
	answers := make([]*fwk.Status, len(stale)) // nil: the filters did not run
	p.Handle.Parallelizer().Until(ctx, len(stale), func(k int) {
		answers[k] = leftOut
		if info := nodes[stale[k]]; result.AllNodes() || result.NodeNames.Has(info.Node().Name) {
			answers[k] = cmp.Or(p.Handle.RunFilterPlugins(ctx, state, pod, info), passes)
		}
	}, PluginName)
	p.nodeFilterCache.set(known, stale, answers)
	out := filterResult{nodesByMessage: map[string]int{}, filters: sets.New[string]()}
	for i, status := range known.byNode {
		if status.IsSuccess() {
			continue
		}
		name := nodes[i].Node().Name
		if status.Code() == fwk.UnschedulableAndUnresolvable {
			out.unresolvable = append(out.unresolvable, name)
		} else {
			out.unschedulable = append(out.unschedulable, name)
		}
		out.nodesByMessage[status.Message()]++
		out.filters.Insert(status.Plugin())
	}
	// The names are sorted, so that the requests do not depend on the order of the nodes.
	slices.Sort(out.unresolvable)
	slices.Sort(out.unschedulable)
	return out, nil
}

// preFilterRefusal returns the refusal of a group with a pod that PreFilter rejects on all nodes.
func preFilterRefusal(pod *corev1.Pod, status *fwk.Status) *gang.Refusal {
	return &gang.Refusal{
		Reason:  reason.NodesRuledOut,
		Message: fmt.Sprintf("pod %s: %s", pod.Name, status.Message()),
		RetryOn: gang.ClusterEvents(),
		Backoff: true,
	}
}
