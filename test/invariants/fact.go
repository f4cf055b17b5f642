package invariants

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// seen is how and when a change was delivered to the checker.
type seen struct {
	// version is the resource version of the change. The versions
	// of one etcd are in one order, whatever the kind of object.
	version uint64
	// at is the time of delivery.
	at time.Time
	// gone reports whether the object was deleted.
	gone bool
	// listed reports whether a list showed the change. Then neither
	// the time of the change nor what happened before it is known.
	listed bool
}

// amounts are quantities of resources: of cpu in thousandths, of all others in units.
type amounts map[corev1.ResourceName]int64

func amountsOf(list corev1.ResourceList) amounts {
	a := make(amounts, len(list))
	for name, q := range list {
		if name == corev1.ResourceCPU {
			a[name] = q.MilliValue()
		} else {
			a[name] = q.Value()
		}
	}
	return a
}

func (a amounts) add(b amounts) {
	for name, n := range b {
		a[name] += n
	}
}

// least returns the smaller amount of each resource.
func least(a, b amounts) amounts {
	out := amounts{}
	for name, n := range a {
		out[name] = min(n, b[name])
	}
	return out
}

// most returns the larger amount of each resource.
func most(a, b amounts) amounts {
	out := maps.Clone(a)
	for name, n := range b {
		out[name] = max(n, out[name])
	}
	return out
}

// A podFact is what the rules need to know of a pod.
type podFact struct {
	key        types.NamespacedName
	uid        types.UID
	created    time.Time
	scheduler  string
	label      string // of the group, or the key of its native PodGroup
	controller types.UID
	node       string
	phase      corev1.PodPhase
	// deleting reports whether the pod has a deletion
	// timestamp. gated reports whether it has scheduling gates.
	deleting, gated bool
	// told reports whether the pod's condition PodScheduled is False, with a reason and a message.
	told bool
	// text is the message of the condition PodScheduled.
	text            string
	timeout, policy string
	priority        int32
	// evictedFor is the UID of the group or pod for which the pod is marked to be evicted. It is empty without a mark.
	evictedFor  types.UID
	asks        amounts
	annotations map[string]string
	// boundAt is when the pod was bound, in whole seconds. It is zero if nobody has written it.
	boundAt     time.Time
	tolerations []corev1.Toleration
	labels      labels.Set
	said        said
	stand       stand
}

func (p *podFact) ended() bool {
	return p.phase == corev1.PodSucceeded || p.phase == corev1.PodFailed
}

// serving reports whether the pod holds its node and is not about to end.
func (p *podFact) serving() bool { return p.node != "" && !p.ended() && !p.deleting }

// pending reports whether the pod could be placed.
func (p *podFact) pending() bool { return p.node == "" && !p.ended() && !p.deleting && !p.gated }

// String says how a pod stands, for the report of a violation.
func (p *podFact) String() string {
	said := []string{fmt.Sprintf("%s %s", p.key.Name, p.phase)}
	if p.node != "" {
		said[0] += " on " + p.node
	}
	for _, is := range []struct {
		so   bool
		said string
	}{{p.deleting, "being deleted"}, {p.gated, "gated"}, {p.evictedFor != "", "marked to be evicted"}} {
		if is.so {
			said = append(said, is.said)
		}
	}
	return strings.Join(said, ", ")
}

// A nodeFact is what the rules need to know of a node.
type nodeFact struct {
	name        string
	allocatable amounts
	closed      bool
	taints      []corev1.Taint
	labels      map[string]string
}

// A groupFact is what the rules need to know of a PodGroup.
type groupFact struct {
	key       types.NamespacedName
	uid       types.UID
	minMember int
	// native reports whether it is of the API group scheduling.k8s.io. The controller
	// does not report on such a group that it lacks members.
	native      bool
	owners      []types.UID
	made        bool // whether the controller made it, by its label
	timeout     string
	policy      string
	said        said
	conditions  []conditionFact
	annotations map[string]string
}

type conditionFact struct {
	kind, status, reason, message string
	// since is the time when the status changed last.
	since string
}

// condition returns the conditions of one type.
func (g *groupFact) condition(kind string) (found []conditionFact) {
	for _, c := range g.conditions {
		if c.kind == kind {
			found = append(found, c)
		}
	}
	return found
}

func (g *groupFact) incomplete() bool {
	for _, c := range g.condition(conditionIncomplete) {
		if c.status == "True" {
			return true
		}
	}
	return false
}

// unseenWhole is in the controller's message about a group that it has not seen complete.
const unseenWhole = "not evicted: the controller has not seen the group complete since the controller was started"

// unseen reports whether the group is incomplete and the controller has not seen it complete.
func (g *groupFact) unseen() bool {
	for _, c := range g.condition(conditionIncomplete) {
		if c.status == "True" {
			return strings.Contains(c.message, unseenWhole)
		}
	}
	return false
}

// An ownerFact is what the rules need to know of an object
// that controls pods, or controls other such objects.
type ownerFact struct {
	uid, controller types.UID
	job             *jobFact
}

// A jobFact is the progress of a Job.
type jobFact struct {
	// completions is the number of completions that the Job wants, 0 if it names none.
	// served is the number of its indexes or pods that have succeeded or failed for good.
	completions, served int
	// idle reports whether the Job is suspended. over
	// reports whether the Job is complete or failed.
	idle, over bool
	key        types.NamespacedName
	// evicted reports whether the Job is suspended to make room for another group.
	evicted bool
	// queue is the queue that its labels name. queued reports whether it has the annotation of Fluence that it waits.
	queue  string
	queued bool
	// stopped is when the Job was last seen to be suspended.
	stopped time.Time
}

// An eventFact is one delivery of an event.
type eventFact struct {
	uid        types.UID
	controller string
	instance   string // of the controller, if it is known
	kind       string // of the object that the event is about
	about      types.NamespacedName
	aboutUID   types.UID
	reason     string
	note       string
	// told is the time of the last occurrence, by the
	// reporting process. at is the time of delivery.
	told, at time.Time
	// count is the number of occurrences: 1, or more for
	// a series. more is the number of new ones in it.
	count, more int
}

// An auditFact is a request to bind, evict or delete a pod, whether it succeeded or not.
type auditFact struct {
	user        string
	verb        string
	subresource string
	pod         types.NamespacedName
	code        int
	received    time.Time
}

func (a auditFact) done() bool { return a.code >= 200 && a.code < 300 }

// perhaps reports whether the request may have been carried out
// although nobody read the answer: the client went away, or gave up.
func (a auditFact) perhaps() bool { return a.code == http.StatusGatewayTimeout }
