package placement

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/translate"
)

const (
	// usableEvery is how many nodes are looked at before the allowance is.
	usableEvery = 64
	// mostEnds is how many jobs a match may be asked to take for ended: the engine ignores as many
	// of one pod each within 100 ms.
	mostEnds = 1 << 17
	// mostNamed is how many pods a group is told of by name that are in its way.
	mostNamed = 3
)

// A reservable is where a group may have nodes reserved.
type candidateNodes struct {
	// nodes are those on which the fewest pods are that end, first. They are reserved for nobody
	// else.
	nodes []string
	// requests are those of the group when what ends there has ended, and ends are the jobs that
	// hold something on the nodes and end.
	requests []translate.ShapeRequest
	ends     []match.JobID
	// rejected counts the nodes that the filters rule out beside pods that do not end, and filters
	// are their words.
	rejected int
	filters  string
	// reservedCount counts the nodes that are reserved for others. On those that may be had, endless are
	// in the way that do not end, and outlasted those that are taken for such.
	reservedCount      int
	endless, outlasted blockers
	// blockedNodes are the nodes on which something is in the way, or may be.
	blockedNodes gang.NodeBloomFilter
}

// An blockers are pods that are in a group's way, on so many nodes. Those that the reader may know
// of are named or, beyond a few, counted as more; others are of other namespaces.
type blockers struct {
	nodes, more, foreign int
	named                []string
}

// add adds a pod. The first by name are named.
func (w *blockers) add(p *corev1.Pod, tells bool) {
	if !tells {
		w.foreign++
		return
	}
	name := klog.KObj(p).String()
	at, _ := slices.BinarySearch(w.named, name)
	if w.named = slices.Insert(w.named, at, name); len(w.named) > mostNamed {
		w.named = w.named[:mostNamed]
		w.more++
	}
}

// findCandidates looks where a group could stand. The answer is not known where the allowance is
// over.
func (k reservationSearch) findCandidates(l permanentRejections) (r candidateNodes, known bool) {
	r = candidateNodes{requests: k.q.whenEnded(l), filters: l.why.String()}
	taken := sets.New(k.q.cluster.Reserved.Nodes...)
	never, stay := make([]sets.Set[string], len(k.q.never)), make([]sets.Set[string], len(k.q.never))
	for i, names := range k.q.never {
		never[i], stay[i] = sets.New(names...), sets.New(slices.Concat(names, l.nodes[i])...)
	}
	passes := func(out []sets.Set[string], node string) bool {
		return slices.ContainsFunc(out, func(s sets.Set[string]) bool { return !s.Has(node) })
	}
	holders, ends := map[string]int{}, map[match.JobID]bool{}
	for i, info := range k.q.nodes {
		if i%usableEvery == 0 && k.q.budget.isOver() || len(ends) > mostEnds {
			return r, false
		}
		n := info.Node()
		switch {
		case n.Spec.Unschedulable || !nodeutil.IsNodeReady(n) || !passes(never, n.Name):
		case !passes(stay, n.Name):
			r.rejected++
			r.blockedNodes.Add(n.Name)
		case taken.Has(n.Name):
			r.reservedCount++
		default:
			r.nodes = append(r.nodes, n.Name)
			holders[n.Name] = k.addCandidate(info, &r, ends)
		}
	}
	for job, all := range ends {
		if all {
			r.ends = append(r.ends, job)
		}
	}
	slices.Sort(r.ends)
	slices.SortStableFunc(r.nodes, func(a, b string) int { return holders[a] - holders[b] })
	return r, true
}

// addCandidate looks at the pods on a node that may be had. It counts those that end, and adds what they
// are to the matcher: true for what ends everywhere.
func (k reservationSearch) addCandidate(info fwk.NodeInfo, r *candidateNodes, ends map[match.JobID]bool) (holders int) {
	endlessOnes, outlastedOnes := 0, 0
	for pod, job := range k.jobsOn(info) {
		if !k.q.isPermanent(pod) {
			holders++
			if _, mixed := ends[job]; !mixed {
				ends[job] = true
			}
			continue
		}
		ends[job] = false
		if tells := k.MayName(pod.Namespace, k.q.plan.Key.Namespace); IsEndless(pod) {
			endlessOnes = 1
			r.endless.add(pod, tells)
		} else {
			outlastedOnes = 1
			r.outlasted.add(pod, tells)
		}
	}
	r.endless.nodes += endlessOnes
	r.outlasted.nodes += outlastedOnes
	if endlessOnes+outlastedOnes > 0 {
		r.blockedNodes.Add(info.Node().Name)
	}
	return holders
}

// IsEndless says that a pod does not end by itself, or that another takes its place: a Deployment's,
// a StatefulSet's, or one that nothing controls and that is always restarted.
func IsEndless(p *corev1.Pod) bool {
	return p.Spec.RestartPolicy == corev1.RestartPolicyAlways && p.Spec.ActiveDeadlineSeconds == nil && p.DeletionTimestamp == nil
}

// isPermanent says of a pod that it is taken for one that does not end.
func (q *attempt) isPermanent(p *corev1.Pod) bool { return IsEndless(p) || q.outlasted(p) }

// why says why a group has no nodes reserved.
func (r candidateNodes) why() string {
	var parts []string
	if r.reservedCount > 0 {
		parts = append(parts, NodesAre(r.reservedCount)+" reserved for others")
	}
	if w := r.endless; w.nodes > 0 {
		parts = append(parts, "pods that do not end are on "+w.String())
	}
	if w := r.outlasted; w.nodes > 0 {
		parts = append(parts, "pods of its namespace that outlasted a reservation are on "+w.String())
	}
	if r.rejected > 0 {
		parts = append(parts, "beside pods that do not end the filters rule out "+reason.Plural(r.rejected, "node")+r.filters)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

func (w blockers) String() string {
	var who []string
	if len(w.named) > 0 {
		who = append(who, strings.Join(w.named, ", "))
		if w.more > 0 {
			who[0] += fmt.Sprintf(" and %d more", w.more)
		}
	}
	if w.foreign > 0 {
		who = append(who, reason.Plural(w.foreign, "pod")+" of other namespaces")
	}
	return fmt.Sprintf("%s that it could use (%s)", reason.Plural(w.nodes, "node"), strings.Join(who, "; "))
}

// jobsOn lists the pods on a node with the jobs that they are to the matcher.
func (k reservationSearch) jobsOn(info fwk.NodeInfo) iter.Seq2[*corev1.Pod, match.JobID] {
	return func(yield func(*corev1.Pod, match.JobID) bool) {
		var pods []*corev1.Pod
		for _, there := range info.GetPods() {
			if pod := there.GetPod(); !translate.OnEveryNode(pod) && translate.Holds(pod) {
				pods = append(pods, pod)
			}
		}
		if len(pods) == 0 {
			return
		}
		for i, job := range k.JobsOf(pods) {
			if !yield(pods[i], job) {
				return
			}
		}
	}
}

// NodesAre says of how many nodes something is said: 1 node is, 2 nodes are.
func NodesAre(n int) string {
	if n == 1 {
		return "1 node is"
	}
	return reason.Plural(n, "node") + " are"
}
