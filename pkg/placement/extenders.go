package placement

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// extenders asks a scheduler's extenders which nodes a pod may go to. As in a scheduling
// cycle, each extender gets the nodes that the filters and the extenders before it leave.
//
// The extenders are asked once for each shape, before any member is placed, until the
// time for one match is used up. In each pod's scheduling cycle they are asked again,
// for the one node that the pod was assigned.
type extenders struct {
	all      []fwk.Extender
	now      func() time.Time
	deadline time.Time
}

// extendersFor returns the extenders with a filter that are interested in a pod of a plan.
func (p *Placer) extendersFor(plan gang.Plan) extenders {
	e := extenders{now: p.Now}
	for _, x := range p.Handle.Extenders() {
		if x.IsFilter() && slices.ContainsFunc(slices.Concat(plan.Required, plan.Optional), x.IsInterested) {
			e.all = append(e.all, x)
		}
	}
	if len(e.all) > 0 {
		e.deadline = p.Now().Add(p.MatchTimeout)
	}
	return e
}

// addExtender adds the nodes that an extender rejected, with its messages.
func (r *filterResult) addExtender(name string, asked, passed []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap) {
	through := sets.New[string]()
	for _, n := range passed {
		through.Insert(n.Node().Name)
	}
	for _, n := range asked {
		node := n.Node().Name
		if through.Has(node) {
			continue
		}
		why, forGood := unresolvable[node]
		if forGood {
			r.unresolvable = append(r.unresolvable, node)
		} else {
			why = failed[node]
			r.unschedulable, r.byExtender, r.rejectedByExtenders = append(r.unschedulable, node), true, append(r.rejectedByExtenders, node)
		}
		r.nodesByMessage["extender "+name+": "+cmp.Or(why, "refused")]++
		r.filters.Insert(name)
	}
}

// filter adds to out the nodes that extenders rule out. It returns a
// refusal if an extender fails, except if the extender is ignorable.
func (e extenders) filter(pod *corev1.Pod, nodes []fwk.NodeInfo, out *filterResult) *gang.Refusal {
	if len(e.all) == 0 {
		return nil
	}
	barred := sets.New(out.unresolvable...).Insert(out.unschedulable...)
	left := slices.DeleteFunc(slices.Clone(nodes), func(n fwk.NodeInfo) bool { return barred.Has(n.Node().Name) })
	for _, x := range e.all {
		if len(left) == 0 || e.now().After(e.deadline) {
			break
		}
		if !x.IsInterested(pod) {
			continue
		}
		passed, failed, unresolvable, err := x.Filter(pod, left)
		switch {
		case err != nil && x.IsIgnorable():
			continue
		case err != nil:
			return &gang.Refusal{
				Reason:  reason.NodesRuledOut,
				Message: fmt.Sprintf("pod %s: extender %s: %v", pod.Name, x.Name(), err),
				RetryOn: gang.ClusterEvents(),
				Backoff: true,
			}
		}
		out.addExtender(x.Name(), left, passed, failed, unresolvable)
		left = passed
	}
	slices.Sort(out.unresolvable)
	slices.Sort(out.unschedulable)
	return nil
}
