package fluence

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// A reservable is where a group may have nodes reserved.
type reservable struct {
	// nodes are those on which the fewest pods are that end, first. They are reserved for nobody
	// else.
	nodes []string
	// requests are those of the group when what ends there has ended, and ends are the jobs that
	// hold something on the nodes and end.
	requests []translate.ShapeRequest
	ends     []match.JobID
	// barred counts the nodes that the filters rule out beside pods that do not end, and filters
	// are their words.
	barred  int
	filters string
	// taken counts the nodes that are reserved for others, and on those that may be had stays
	// counts the nodes with pods that do not end: named are those that the reader may know of, and
	// others counts the others.
	taken, stays, others int
	named                []string
}

// reservableFor looks where a group could stand.
func (pl *Fluence) reservableFor(q *enquiry, l lasting) reservable {
	r := reservable{requests: q.whenEnded(l), filters: l.why.String()}
	taken := sets.New(q.reserved.nodes...)
	never, stay := make([]sets.Set[string], len(q.never)), make([]sets.Set[string], len(q.never))
	for i, names := range q.never {
		never[i], stay[i] = sets.New(names...), sets.New(slices.Concat(names, l.nodes[i])...)
	}
	passes := func(out []sets.Set[string], node string) bool {
		return slices.ContainsFunc(out, func(s sets.Set[string]) bool { return !s.Has(node) })
	}
	holders, ends := map[string]int{}, map[match.JobID]bool{}
	for _, info := range q.nodes {
		n := info.Node()
		if n.Spec.Unschedulable || !ready(n) || !passes(never, n.Name) {
			continue
		}
		if !passes(stay, n.Name) {
			r.barred++
			continue
		}
		if taken.Has(n.Name) {
			r.taken++
			continue
		}
		stays := false
		for p, job := range pl.jobsOn(info) {
			if !endless(p) {
				holders[n.Name]++
				if _, mixed := ends[job]; !mixed {
					ends[job] = true
				}
				continue
			}
			stays, ends[job] = true, false
			if pl.tells(p.Namespace, q.plan.Key.Namespace) {
				r.named = append(r.named, podName(p))
			} else {
				r.others++
			}
		}
		if stays {
			r.stays++
		}
		r.nodes = append(r.nodes, n.Name)
	}
	for job, all := range ends {
		if all {
			r.ends = append(r.ends, job)
		}
	}
	slices.Sort(r.ends)
	slices.SortStableFunc(r.nodes, func(a, b string) int { return holders[a] - holders[b] })
	return r
}

// endless says that a pod does not end by itself, or that another takes its place: a Deployment's,
// a StatefulSet's, or one that nothing controls and that is always restarted.
func endless(p *corev1.Pod) bool {
	return p.Spec.RestartPolicy == corev1.RestartPolicyAlways && p.Spec.ActiveDeadlineSeconds == nil && p.DeletionTimestamp == nil
}

// why says why a group has no nodes reserved.
func (r reservable) why() string {
	const most = 3
	var parts []string
	if r.taken > 0 {
		parts = append(parts, nodesAre(r.taken)+" reserved for others")
	}
	if r.stays > 0 {
		var who []string
		if n := len(r.named); n > 0 {
			slices.Sort(r.named)
			who = append(who, strings.Join(r.named[:min(n, most)], ", "))
			if n > most {
				who[0] += fmt.Sprintf(" and %d more", n-most)
			}
		}
		if r.others > 0 {
			who = append(who, plural(r.others, "pod")+" of other namespaces")
		}
		parts = append(parts, fmt.Sprintf("pods that do not end are on %s that it could use (%s)", plural(r.stays, "node"), strings.Join(who, "; ")))
	}
	if r.barred > 0 {
		parts = append(parts, "beside pods that do not end the filters rule out "+plural(r.barred, "node")+r.filters)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// jobsOn lists the pods on a node with the jobs that they are to the matcher.
func (pl *Fluence) jobsOn(info fwk.NodeInfo) iter.Seq2[*corev1.Pod, match.JobID] {
	return func(yield func(*corev1.Pod, match.JobID) bool) {
		var pods []*corev1.Pod
		for _, p := range info.GetPods() {
			if pod := p.GetPod(); !translate.OnEveryNode(pod) && translate.Holds(pod) {
				pods = append(pods, pod)
			}
		}
		if len(pods) == 0 {
			return
		}
		for i, job := range pl.groups.JobsOf(pods, pl.running.jobOf) {
			if !yield(pods[i], job) {
				return
			}
		}
	}
}
