package placement

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// maxDomainsNamed is how many domains a message names.
const maxDomainsNamed = 3

// A siblingDomain is the domain, or the domains, in which pods must stay because pods of their group run
// there.
type siblingDomain struct {
	// names are the names of the domains, sorted.
	names []string
	// nodes are the names of their nodes.
	nodes sets.Set[string]
	// pods is the number of pods of the group there.
	pods int
}

// stayIn records that the pods must stay on the nodes for which domain returns true, and the name of their
// domain. It returns the names of these nodes.
func (q *attempt) stayIn(domain func(fwk.NodeInfo) (name string, inside bool)) []string {
	d, names := &siblingDomain{nodes: sets.New[string]()}, sets.New[string]()
	var hosts []string
	for _, n := range q.nodes {
		if name, inside := domain(n); inside {
			hosts = append(hosts, n.Node().Name)
			names.Insert(name)
		}
	}
	d.nodes.Insert(hosts...)
	for _, name := range q.plan.Near {
		if d.nodes.Has(name) {
			d.pods++
		}
	}
	d.names = sets.List(names)
	q.stay = d
	return hosts
}

// String says where the pods must stay.
func (d *siblingDomain) String() string {
	names := strings.Join(d.names[:min(maxDomainsNamed, len(d.names))], ", ")
	if more := len(d.names) - maxDomainsNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	if d.pods == 1 {
		return fmt.Sprintf("must stay in %s, where its other pod runs", names)
	}
	return fmt.Sprintf("must stay in %s, where its %d other pods run", names, d.pods)
}

// within leaves out of a reason the nodes outside of the domain, because the domain explains them. The nodes
// of the attempt may be of another moment than the reason. If they do not agree, within changes nothing.
func (d *siblingDomain) within(r match.Reason, nodes []fwk.NodeInfo) match.Reason {
	var up, down int64
	for _, n := range nodes {
		switch node := n.Node(); {
		case d.nodes.Has(node.Name):
		case node.DeletionTimestamp == nil && nodeutil.IsNodeReady(node):
			up++
		default:
			down++
		}
	}
	if r.Excluded >= up && r.Down >= down {
		r.Nodes, r.Excluded, r.Down = r.Nodes-up-down, r.Excluded-up, r.Down-down
	}
	return r
}

// whyNoRoom returns the message for a refusal of the matcher: its numbers, and the constraints because of
// which there is not enough room.
func (p *Placer) whyNoRoom(q *attempt, no *match.Refusal) string {
	r := no.Reason
	bg := translate.Background{
		Pods: q.required(), Blocker: p.BlockerOf(r, q.plan.Key), Never: errors.Is(no, match.ErrUnsatisfiable),
		Without: q.counterWithout(r.Slot),
	}
	if r.Promised != nil && p.PromisedTo != nil {
		bg.Promised = p.PromisedTo(*r.Promised, q.plan.Key)
	}
	if q.stay != nil {
		r, bg.Causes = q.stay.within(r, q.nodes), append(bg.Causes, q.stay.String())
	}
	if q.constraints != nil && r.Code == match.TooFew {
		unresolvable := make([]map[string]bool, len(q.shapes))
		for i, names := range q.unresolvable {
			unresolvable[i] = asMap(sets.New(names...))
		}
		for _, c := range interpod.Causes(q.constraints, q.ruledOutByShape, unresolvable) {
			if bg.Never && !c.Lasting {
				continue // the numbers of the message are those of an empty cluster
			}
			bg.Causes = append(bg.Causes, c.Text)
			if len(q.shapes) == 1 && !bg.Never {
				// The matcher's number may be that of an empty cluster (see asTemporary).
				r.Found = min(r.Found, int64(c.Room))
			}
		}
	}
	return translate.Message(r, bg)
}

// counterWithout returns a function like countWithout that counts each resource once. It returns 0 for a
// resource that was not counted before the budget was over.
func (q *attempt) counterWithout(slot string) func(kind string) int64 {
	counts := map[string]int64{}
	return func(kind string) int64 {
		if _, known := counts[kind]; !known && !q.budget.isOver() {
			counts[kind] = q.countWithout(kind, slot)
		}
		return counts[kind]
	}
}

// countWithout returns how many of the usable nodes have none of an extended resource. slot is the label of
// the request that failed.
func (q *attempt) countWithout(kind, slot string) int64 {
	i, err := strconv.Atoi(strings.TrimPrefix(slot, "shape"))
	if err != nil || i < 0 || i >= len(q.shapes) {
		return 0
	}
	n, reserved := int64(0), sets.New(q.cluster.Reserved.Nodes...)
	for _, info := range q.nodes {
		node := info.Node()
		usable := node.DeletionTimestamp == nil && nodeutil.IsNodeReady(node) && !q.ruledOutByShape[i][node.Name] &&
			(q.stay == nil || q.stay.nodes.Has(node.Name)) && !reserved.Has(node.Name)
		if usable && info.GetAllocatable().GetScalarResources()[corev1.ResourceName(kind)] == 0 {
			n++
		}
	}
	return n
}
