package placement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
)

// A Placer finds nodes for groups, one after the other. Of what others see it changes nothing but the
// matcher's graph. SetFilters is called before the scheduler runs, Place and Reservable inside a
// scheduling cycle, and all other methods at any time.
type Placer struct {
	Config
	exclusions exclusions
	// nodeFilterCache are what filters said of nodes before.
	nodeFilterCache nodeFilterCache
	// antiAffinity is that of pods that are there.
	antiAffinity interpod.AntiAffinities
	// foreignCosts is what filters take for the sake of pods of other namespaces.
	foreignCosts foreignCosts
}

// NewPlacer returns a placer that knows of no filters until SetFilters.
func NewPlacer(c Config) *Placer { return &Placer{Config: c} }

// SetFilters names the Filter plugins of the profile. What those say of a Node that look at nothing
// else is kept from one group to the next.
func (p *Placer) SetFilters(names []string) { p.nodeFilterCache = newNodeFilterCache(names) }

// UpdatePod takes note of a pod as it is now.
func (p *Placer) UpdatePod(pod *corev1.Pod) { p.antiAffinity.Put(pod) }

// RemovePod takes note that a pod is gone.
func (p *Placer) RemovePod(uid types.UID) { p.antiAffinity.Drop(uid) }

// ObserveEvent takes note of an event that may change the filters' mind.
func (p *Placer) ObserveEvent(ev gang.Event) { p.exclusions.observe(ev) }

// ObserveRejection takes note that the filters refused a member of a group the node that it was given, where
// others of the group had passed.
func (p *Placer) ObserveRejection(k types.NamespacedName, member types.UID, node string, passed []types.UID, by *fwk.Status) {
	p.exclusions.add(k, member, node, passed, untilOf(by))
}

// Forget drops all that is kept of a group.
func (p *Placer) Forget(k types.NamespacedName) { p.exclusions.forget(k) }
