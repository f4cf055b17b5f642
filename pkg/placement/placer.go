package placement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
)

// A Placer finds nodes for groups, one after the other. Outside itself it changes only the
// matcher's graph. SetFilters is called before the scheduler runs. Place, FindReservable and
// ForeignTime are called inside a scheduling cycle. All other methods may be called at any time.
type Placer struct {
	Config
	exclusions exclusions
	// nodeFilterCache caches the verdicts of filters that look only at the Node.
	nodeFilterCache nodeFilterCache
	// antiAffinity caches the required anti-affinity of existing pods.
	antiAffinity interpod.AntiAffinities
	// foreignCosts is how long filters take for pods of other namespaces.
	foreignCosts foreignCosts
}

// NewPlacer returns a Placer that caches no verdicts of filters until SetFilters.
func NewPlacer(c Config) *Placer { return &Placer{Config: c} }

// SetFilters sets the names of the profile's Filter plugins. The verdicts of those
// that look only at the Node are cached from one group to the next.
func (p *Placer) SetFilters(names []string) { p.nodeFilterCache = newNodeFilterCache(names) }

// UpdatePod records a pod as it is now.
func (p *Placer) UpdatePod(pod *corev1.Pod) { p.antiAffinity.Put(pod) }

// RemovePod records that a pod is gone.
func (p *Placer) RemovePod(uid types.UID) { p.antiAffinity.Drop(uid) }

// ObserveEvent records an event after which filters may decide otherwise.
func (p *Placer) ObserveEvent(ev gang.Event) { p.exclusions.observe(ev) }

// ObserveRejection records that the filters rejected a member of a group on the node that
// it was assigned. passed are the members of the group that had passed there before.
func (p *Placer) ObserveRejection(k types.NamespacedName, member types.UID, node string, passed []types.UID, by *fwk.Status) {
	p.exclusions.add(k, member, node, passed, retryOnOf(by))
}

// Forget drops all that is kept of a group.
func (p *Placer) Forget(k types.NamespacedName) { p.exclusions.forget(k) }
