package fluence

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// base is the state that all parts of the plugin share.
type base struct {
	args *Args
	// profile is the scheduler name of the pods that Fluence places.
	profile string
	handle  fwk.Handle
	// log is for decisions about groups. The contextual logger of a
	// scheduling cycle is not used for them, because it adds keys that vary.
	log klog.Logger
	now func() time.Time
	// apply is Fluence.apply, for the parts of the plugin.
	apply     func(context.Context, gang.Output)
	groups    *gang.Groups
	placer    *placement.Placer
	activator *activator
	counters  *counters
	queues    queues

	readiness
	cluster
	victims
}

// cluster is what the plugin knows of nodes, namespaces and pods on nodes.
type cluster struct {
	nodes      corelisters.NodeLister
	namespaces corelisters.NamespaceLister
	quotas     *quotas
	occupants  occupants
	restarts   restarts
	ending     endingPods
	claims     claims
	promises   promises
	freed      freedRoom
	walltimes  walltimes
	pods       corelisters.PodLister
	// bindChecks checks whether a node still takes a pod.
	bindChecks bindChecks
}

// readiness holds the conditions for placing any group: the matcher
// answers, its graph is loaded, and all objects were listed once.
type readiness struct {
	breaker   *breaker
	inventory *inventory.Inventory
	// synced reports whether the event handlers have received all pods, nodes and namespaces of
	// the first list. Before that a group may seem to have nothing on nodes although it runs.
	synced      func() bool
	initialSync initialSync
}

// whyNotReady returns why no group can be placed at present. It returns "" if groups can be placed.
func (r *readiness) whyNotReady() string {
	if open, why := r.breaker.state(); open {
		return why
	}
	if !r.synced() || r.inventory.Epoch() == 0 {
		if why := r.inventory.WhyNotLoaded(); why != "" {
			return translate.Shorten(placement.WhyLoading + ": " + why)
		}
		return placement.WhyLoading
	}
	if !r.initialSync.isDone() {
		return whyListing
	}
	return ""
}

// observeEvent records an event and activates the groups that it may help.
func (b *base) observeEvent(ev gang.Event) {
	b.placer.ObserveEvent(ev)
	b.groups.ObserveEvent(ev)
	if ev == gang.MatcherBack {
		// PreEnqueue also held groups that were not refused, so activate all groups.
		b.activator.activateAll()
	} else {
		b.activator.activateDue()
	}
}

// roomFreed records that room has become free that no pod on a node held, so that no pod's end tells the queues of it.
func roomFreed(b *base, ev gang.Event) {
	b.queues.RoomFreed()
	b.observeEvent(ev)
}

// groupKey returns the key of a pod's group. It returns
// the zero key if the plugin does not know the pod.
func (b *base) groupKey(pod *corev1.Pod) types.NamespacedName {
	key, _ := b.groups.KeyOf(pod.UID)
	return key
}
