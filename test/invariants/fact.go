package invariants

import (
	"maps"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// seen is how a change came to the checker.
type seen struct {
	// version is the resource version of the change. Those of one etcd are in one
	// order, whatever the kind of object.
	version uint64
	// at is when it was delivered.
	at time.Time
	// gone says that the object was deleted.
	gone bool
	// listed says that it was found by a list, so that one does not know when it
	// changed, or what happened to it before.
	listed bool
}

// amounts are in milli-units for cpu and in units for all else.
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

// least is the smaller amount of each resource, and most the larger.
func least(a, b amounts) amounts {
	out := amounts{}
	for name, n := range a {
		out[name] = min(n, b[name])
	}
	return out
}

func most(a, b amounts) amounts {
	out := maps.Clone(a)
	for name, n := range b {
		out[name] = max(n, out[name])
	}
	return out
}

// A podFact is what the rules ask of a pod.
type podFact struct {
	key        types.NamespacedName
	uid        types.UID
	created    time.Time
	scheduler  string
	label      string // of the group
	controller types.UID
	node       string
	phase      corev1.PodPhase
	// deleting: it has a deletion timestamp. gated: it has scheduling gates.
	deleting, gated bool
	// told: its condition PodScheduled is false, with reason and message.
	told bool
	// text is the message of that condition.
	text            string
	timeout, policy string
	asks            amounts
	tolerations     []corev1.Toleration
	labels          labels.Set
	said            said
	stand           stand
}

func (p *podFact) ended() bool {
	return p.phase == corev1.PodSucceeded || p.phase == corev1.PodFailed
}

// serving: it holds its node and is there to stay.
func (p *podFact) serving() bool { return p.node != "" && !p.ended() && !p.deleting }

// pending: it could be placed.
func (p *podFact) pending() bool { return p.node == "" && !p.ended() && !p.deleting && !p.gated }

// A nodeFact is what the rules ask of a node.
type nodeFact struct {
	name        string
	allocatable amounts
	closed      bool
	taints      []corev1.Taint
	labels      map[string]string
}

// A groupFact is what the rules ask of a PodGroup.
type groupFact struct {
	key        types.NamespacedName
	uid        types.UID
	minMember  int
	owners     []types.UID
	made       bool // by the controller, as its label says
	timeout    string
	policy     string
	said       said
	conditions []conditionFact
}

type conditionFact struct {
	kind, status, reason, message string
	// since is when its status changed last.
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

// unseenWhole is what the controller says of a group that it has not seen whole.
const unseenWhole = "not evicted: the controller has not seen the group complete since it started"

// unseen reports whether the group is incomplete, and the controller has not seen it whole.
func (g *groupFact) unseen() bool {
	for _, c := range g.condition(conditionIncomplete) {
		if c.status == "True" {
			return strings.Contains(c.message, unseenWhole)
		}
	}
	return false
}

// An ownerFact is what the rules ask of an object that controls pods, or others
// that do.
type ownerFact struct {
	uid, controller types.UID
	job             *jobFact
}

// A jobFact is how far a Job is.
type jobFact struct {
	// completions is 0 where the Job does not say how many it wants; served is how
	// many it has, failed indexes included.
	completions, served int
	// idle: suspended. over: complete or failed.
	idle, over bool
}

// An eventFact is one telling of an event.
type eventFact struct {
	uid        types.UID
	controller string
	instance   string // of the controller, as far as it says
	kind       string // of what it is about
	about      types.NamespacedName
	aboutUID   types.UID
	reason     string
	note       string
	// told is when the teller says that it was told last, at when it was delivered.
	told, at time.Time
	// count is how often it was told: 1, and more where it has a series; more is how
	// much of that is new.
	count, more int
}

// An auditFact is a request that bound, evicted or deleted a pod, or tried to.
type auditFact struct {
	user        string
	verb        string
	subresource string
	pod         types.NamespacedName
	code        int
	received    time.Time
}

func (a auditFact) done() bool { return a.code >= 200 && a.code < 300 }

// perhaps: who asked went away, or gave up, before the answer. It may have been done.
func (a auditFact) perhaps() bool { return a.code == http.StatusGatewayTimeout }
