package fluence

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

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

// lastingFor runs the profile's filters on the nodes that they rule out for the present, without
// the pods there that end. What an extender rules out stays so: nobody knows why it does. The
// answer is not known where the allowance is over. It may only be called inside a scheduling cycle.
func (pl *Fluence) lastingFor(ctx context.Context, q *enquiry) (l lasting, known bool) {
	l.nodes = make([][]string, len(q.shapes))
	for i := range q.shapes {
		out, known := pl.lastingOf(ctx, q, i)
		if !known {
			return lasting{}, false
		}
		l.nodes[i] = slices.Concat(out.now, q.extended[i])
		l.why.add(out)
	}
	return l, true
}

// lastingOf is that of one shape.
func (pl *Fluence) lastingOf(ctx context.Context, q *enquiry, shape int) (out ruledOut, known bool) {
	out = ruledOut{why: map[string]int{}, filters: sets.New[string]()}
	barred := sets.New(q.filtered[shape]...)
	if len(barred) == 0 {
		return out, true
	}
	pod := q.shapes[shape].pods[0]
	if q.siblings != nil {
		pod = q.siblings.lenient[shape]
	}
	state := schedulerframework.NewCycleState()
	state.Write(probeKey, probe{})
	result, status := pl.preFilter(ctx, q.may, state, pod)
	if !status.IsSuccess() {
		return out, false
	}
	if !pl.withoutEnding(ctx, q, state, pod) {
		return out, false
	}
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(notAsked))
	logger := klog.FromContext(ctx)
	for _, info := range q.nodes {
		name := info.Node().Name
		if !barred.Has(name) {
			continue
		}
		if q.may.over() {
			return out, false
		}
		if !result.AllNodes() && !result.NodeNames.Has(name) {
			out.now = append(out.now, name)
			continue
		}
		later := info.Snapshot()
		for _, p := range info.GetPods() {
			if q.makesRoom(p.GetPod()) && later.RemovePod(logger, p.GetPod()) != nil {
				return out, false
			}
		}
		if status := pl.handle.RunFilterPlugins(ctx, state, pod, later); !status.IsSuccess() {
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
func (pl *Fluence) withoutEnding(ctx context.Context, q *enquiry, state fwk.CycleState, pod *corev1.Pod) bool {
	n, own := 0, ownToRead(pod)
	for _, info := range q.nodes {
		for _, p := range info.GetPods() {
			if !q.makesRoom(p.GetPod()) {
				continue
			}
			if n++; n%endedEvery == 0 && q.may.over() {
				return false
			}
			theirs := 0
			if p.GetPod().Namespace != pod.Namespace && len(p.GetRequiredAntiAffinityTerms()) > 0 {
				theirs = pl.shuns.of(p).toRead(pod.Namespace)
			}
			began := pl.now()
			if !pl.handle.RunPreFilterExtensionRemovePod(ctx, state, pod, p, info).IsSuccess() {
				return false
			}
			if theirs > 0 {
				q.may.excuse(part(pl.now().Sub(began), float64(theirs)/float64(theirs+own)))
			}
		}
	}
	return true
}

// ownToRead is how much there is to read in what a pod asks of others, each time that it is compared
// with one.
func ownToRead(pod *corev1.Pod) int {
	n := 0
	add := func(selector *metav1.LabelSelector) {
		n++
		if s, err := metav1.LabelSelectorAsSelector(selector); err == nil {
			n += weigh(s)
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		add(c.LabelSelector)
	}
	if a := pod.Spec.Affinity; a != nil {
		for _, t := range affinityTerms(a) {
			add(t.LabelSelector)
		}
	}
	return n
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
