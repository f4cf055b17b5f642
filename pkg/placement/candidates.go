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
	// checkBudgetEveryNodes is after how many nodes the budget is checked.
	checkBudgetEveryNodes = 64
	// maxIgnoredJobs is how many jobs a match may ignore. The engine ignores this many jobs
	// of one pod each within 100 ms.
	maxIgnoredJobs = 1 << 17
	// maxNamed is how many blockers a message names.
	maxNamed = 3
)

// candidateNodes are the nodes that could be reserved for a group.
type candidateNodes struct {
	// nodes names the candidates, the nodes with the fewest ending pods first. None
	// is reserved for another group.
	nodes []string
	// requests are the group's requests for the time when all pods that will end have ended.
	requests []translate.ShapeRequest
	// endingJobs are the jobs whose pods on the candidates will all end.
	endingJobs []match.JobID
	// rejected counts the nodes that the filters rule out even without the pods that will end.
	rejected int
	// filters are the filters' messages about these nodes.
	filters string
	// reservedCount counts the nodes that are reserved for other groups.
	reservedCount int
	// endless are the pods on candidates that do not end. outlasted are the pods on
	// candidates that count as endless because they outlasted a reservation.
	endless, outlasted endlessPods
	// blockedNodes is a Bloom filter of the nodes where a pod or a filter blocks the group.
	blockedNodes gang.NodeBloomFilter
}

// endlessPods are pods that block a group.
type endlessPods struct {
	// nodes counts the nodes that the pods are on. more counts the pods that a message
	// could name, and does not. foreign counts the pods that it must not name.
	nodes, more, foreign int
	// named are the pods that a message names.
	named []string
}

// add adds a pod. mayName says that the message may name the
// pod. Only the first maxNamed pods by name are named.
func (w *endlessPods) add(p *corev1.Pod, mayName bool) {
	if !mayName {
		w.foreign++
		return
	}
	name := klog.KObj(p).String()
	at, _ := slices.BinarySearch(w.named, name)
	if w.named = slices.Insert(w.named, at, name); len(w.named) > maxNamed {
		w.named = w.named[:maxNamed]
		w.more++
	}
}

// findCandidates finds the nodes that could be reserved for the group. known is false
// if the budget is used up, or if there are too many jobs to ignore.
func (k reservationSearch) findCandidates(l permanentRejections) (r candidateNodes, known bool) {
	r = candidateNodes{requests: k.q.requestsAfterPodsEnd(l), filters: l.why.bracketedReasons()}
	taken := sets.New(k.q.cluster.Reserved.Nodes...)
	unresolvable, ruledOutAfter := make([]sets.Set[string], len(k.q.unresolvable)), make([]sets.Set[string], len(k.q.unresolvable))
	for i, names := range k.q.unresolvable {
		unresolvable[i], ruledOutAfter[i] = sets.New(names...), sets.New(slices.Concat(names, l.nodes[i])...)
	}
	passes := func(out []sets.Set[string], node string) bool {
		return slices.ContainsFunc(out, func(s sets.Set[string]) bool { return !s.Has(node) })
	}
	endingPods, onlyEnding := map[string]int{}, map[match.JobID]bool{}
	for i, info := range k.q.nodes {
		if i%checkBudgetEveryNodes == 0 && k.q.budget.isOver() || len(onlyEnding) > maxIgnoredJobs {
			return r, false
		}
		n := info.Node()
		switch {
		case n.Spec.Unschedulable || !nodeutil.IsNodeReady(n) || !passes(unresolvable, n.Name):
		case !passes(ruledOutAfter, n.Name):
			r.rejected++
			r.blockedNodes.Add(n.Name)
		case taken.Has(n.Name):
			r.reservedCount++
		default:
			r.nodes = append(r.nodes, n.Name)
			endingPods[n.Name] = k.addCandidate(info, &r, onlyEnding)
		}
	}
	for job, all := range onlyEnding {
		if all {
			r.endingJobs = append(r.endingJobs, job)
		}
	}
	slices.Sort(r.endingJobs)
	slices.SortStableFunc(r.nodes, func(a, b string) int { return endingPods[a] - endingPods[b] })
	return r, true
}

// addCandidate adds the pods on a candidate. It returns how many of them will end. It sets the
// job of each pod in ends: true means that all its pods on the candidates so far will end.
func (k reservationSearch) addCandidate(info fwk.NodeInfo, r *candidateNodes, onlyEnding map[match.JobID]bool) (endingPods int) {
	endlessOnes, outlastedOnes := 0, 0
	for pod, job := range k.jobsOn(info) {
		if !k.q.countsAsEndless(pod) {
			endingPods++
			if _, mixed := onlyEnding[job]; !mixed {
				onlyEnding[job] = true
			}
			continue
		}
		onlyEnding[job] = false
		if mayName := k.MayName(pod.Namespace, k.q.plan.Key.Namespace); IsEndless(pod) {
			endlessOnes = 1
			r.endless.add(pod, mayName)
		} else {
			outlastedOnes = 1
			r.outlasted.add(pod, mayName)
		}
	}
	r.endless.nodes += endlessOnes
	r.outlasted.nodes += outlastedOnes
	if endlessOnes+outlastedOnes > 0 {
		r.blockedNodes.Add(info.Node().Name)
	}
	return endingPods
}

// IsEndless reports whether a pod runs until it is deleted: it is always restarted,
// it has no deadline, and it is not being deleted.
func IsEndless(p *corev1.Pod) bool {
	return p.Spec.RestartPolicy == corev1.RestartPolicyAlways && p.Spec.ActiveDeadlineSeconds == nil && p.DeletionTimestamp == nil
}

// countsAsEndless reports whether a pod counts as one that does not end: it is endless,
// or has outlasted a reservation.
func (q *attempt) countsAsEndless(p *corev1.Pod) bool { return IsEndless(p) || q.outlasted(p) }

// why returns why no nodes are reserved for the group, as the end of a message. It is
// empty if there is no reason to name.
func (r candidateNodes) why() string {
	var parts []string
	if r.reservedCount > 0 {
		parts = append(parts, NodesAre(r.reservedCount)+" reserved for other groups")
	}
	if w := r.endless; w.nodes > 0 {
		parts = append(parts, "pods that do not end are on "+w.String())
	}
	if w := r.outlasted; w.nodes > 0 {
		parts = append(parts, "pods of its namespace that outlasted a reservation are on "+w.String())
	}
	if r.rejected > 0 {
		parts = append(parts, "the filters reject "+reason.Plural(r.rejected, "node")+" even if the pods that end are gone"+r.filters)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

func (w endlessPods) String() string {
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

// jobsOn yields the pods that hold resources on a node, each with its job. It leaves
// out pods that run on every node.
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

// NodesAre returns the beginning of a sentence about n nodes, such as "1 node is" or "2 nodes are".
func NodesAre(n int) string {
	if n == 1 {
		return "1 node is"
	}
	return reason.Plural(n, "node") + " are"
}
