package placement

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// lasting is what the filters rule out for the present and go on ruling out when all has ended
// that ends.
type lasting struct {
	// nodes are by shape.
	nodes [][]string
	// why counts the nodes by the filters' own words.
	why ruledOut
}

// makesRoom says that a pod makes room one day: it ends by itself, and does not stand on every node.
func (q *enquiry) makesRoom(p *corev1.Pod) bool { return !translate.OnEveryNode(p) && !q.stays(p) }

// endedEvery is how many pods are taken away before the allowance is looked at again.
const endedEvery = 256

// A look is for nodes to reserve for the group of an enquiry.
type look struct {
	*Placer
	q *enquiry
}

// lastingFor runs the profile's filters on the nodes that they rule out for the present, without
// the pods there that end. What an extender rules out stays so: nobody knows why it does. The
// answer is not known where the allowance is over. It may only be called inside a scheduling cycle.
func (k look) lastingFor(ctx context.Context) (l lasting, known bool) {
	l.nodes = make([][]string, len(k.q.shapes))
	for i := range k.q.shapes {
		out, known := k.lastingOf(ctx, i)
		if !known {
			return lasting{}, false
		}
		l.nodes[i] = slices.Concat(out.now, k.q.extended[i])
		l.why.add(out)
	}
	return l, true
}

// lastingOf is that of one shape.
func (k look) lastingOf(ctx context.Context, shape int) (out ruledOut, known bool) {
	out = ruledOut{why: map[string]int{}, filters: sets.New[string]()}
	barred := sets.New(k.q.filtered[shape]...)
	if len(barred) == 0 {
		return out, true
	}
	pod := k.q.shapes[shape].Pods[0]
	if k.q.siblings != nil {
		pod = k.q.siblings.Lenient[shape]
	}
	state := schedulerframework.NewCycleState()
	state.Write(probeKey, probe{})
	result, status := k.preFilter(ctx, k.q.may, state, pod)
	if !status.IsSuccess() {
		return out, false
	}
	if !k.withoutEnding(ctx, state, pod) {
		return out, false
	}
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(notAsked))
	logger := klog.FromContext(ctx)
	for _, info := range k.q.nodes {
		name := info.Node().Name
		if !barred.Has(name) {
			continue
		}
		if k.q.may.over() {
			return out, false
		}
		if !result.AllNodes() && !result.NodeNames.Has(name) {
			out.now = append(out.now, name)
			continue
		}
		later := info.Snapshot()
		for _, there := range info.GetPods() {
			if k.q.makesRoom(there.GetPod()) && later.RemovePod(logger, there.GetPod()) != nil {
				return out, false
			}
		}
		if status := k.Handle.RunFilterPlugins(ctx, state, pod, later); !status.IsSuccess() {
			out.now = append(out.now, name)
			out.why[status.Message()]++
			out.filters.Insert(status.Plugin())
		}
	}
	return out, true
}

// withoutEnding takes the pods that end out of what the filters counted for a pod. It says
// whether it got through all of them. The filters read the terms of each of them again, and what
// that takes for those of other namespaces the group does not pay for.
func (k look) withoutEnding(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) bool {
	n, own := 0, interpod.OwnToRead(pod)
	for _, info := range k.q.nodes {
		for _, there := range info.GetPods() {
			if !k.q.makesRoom(there.GetPod()) {
				continue
			}
			if n++; n%endedEvery == 0 && k.q.may.over() {
				return false
			}
			theirs := 0
			if there.GetPod().Namespace != pod.Namespace && len(there.GetRequiredAntiAffinityTerms()) > 0 {
				theirs = k.antiAffinity.ToRead(there, pod.Namespace)
			}
			began := k.Now()
			if !k.Handle.RunPreFilterExtensionRemovePod(ctx, state, pod, there, info).IsSuccess() {
				return false
			}
			if theirs > 0 {
				k.q.may.excuse(part(k.Now().Sub(began), float64(theirs)/float64(theirs+own)))
			}
		}
	}
	return true
}

// whenEnded returns the requests of an enquiry as they are when all has ended that ends.
func (q *enquiry) whenEnded(l lasting) []translate.ShapeRequest {
	later := *q
	later.requests = slices.Clone(q.requests)
	for i := range later.requests {
		a := &later.requests[i].Attributes
		if a.ConstraintsNow = nil; len(l.nodes[i]) > 0 {
			a.ConstraintsNow = not(l.nodes[i])
		}
	}
	if q.first == nil {
		return later.requests
	}
	return later.requestsFor(*q.first, q.excluded)
}
