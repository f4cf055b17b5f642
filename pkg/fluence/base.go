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
)

// base is what all parts of the plugin have in common.
type base struct {
	args *Args
	// profile is the name of the scheduler that the pods to be placed ask for.
	profile string
	handle  fwk.Handle
	// log takes what is decided on groups. The log of a scheduling cycle adds keys that vary.
	log klog.Logger
	now func() time.Time
	// apply does what a change of a group's state asks for.
	apply     func(context.Context, gang.Output)
	groups    *gang.Groups
	placer    *placement.Placer
	activator *activator
	counters  *counters

	readiness
	cluster
}

// A cluster is what the scheduler's cache shows.
type cluster struct {
	nodes      corelisters.NodeLister
	namespaces corelisters.NamespaceLister
	occupants  occupants
	// guard says whether a node still takes a pod.
	guard guard
}

// A readiness is what has to be there before any group is placed.
type readiness struct {
	breaker   *breaker
	inventory *inventory.Inventory
	// synced reports whether all pods that existed at the start were seen. Before
	// that a group may seem to hold nothing.
	synced      func() bool
	initialSync initialSync
}

// whyNotReady says why no group can be placed at all, or nothing.
func (r *readiness) whyNotReady() string {
	if open, why := r.breaker.state(); open {
		return why
	}
	if !r.synced() || r.inventory.Epoch() == 0 {
		return placement.WhyLoading
	}
	if !r.initialSync.isDone() {
		return whyListing
	}
	return ""
}

// observeEvent takes note of an event that may help waiting groups.
func (b *base) observeEvent(ev gang.Event) {
	b.placer.ObserveEvent(ev)
	b.groups.ObserveEvent(ev)
	if ev == gang.MatcherBack {
		// Also those go on that were not refused but held.
		b.activator.activateAll()
	} else {
		b.activator.activateDue()
	}
}

// groupKey returns the key of a pod's group. It is empty if the pod was not seen.
func (b *base) groupKey(pod *corev1.Pod) types.NamespacedName {
	key, _ := b.groups.KeyOf(pod.UID)
	return key
}
