package fluence

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	policylisters "k8s.io/client-go/listers/policy/v1"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

// victims is what is known of the pods that may be evicted, and of those that are.
type victims struct {
	index   *preemption.Index
	evictor *eviction.Evictor
	// resumed is true once the marks of an earlier process were handed to the evictor.
	resumed     atomic.Bool
	resumeOnce  sync.Once
	preemptions preemptions
	yields      yields
	budgets     policylisters.PodDisruptionBudgetLister
	// describeOwner returns what is known of an object that controls pods.
	describeOwner func(namespace string, o group.Owner) (preemption.Owner, bool)
	// ownSchedulers are the profiles of this process. It is nil until they are known.
	ownSchedulers sets.Set[string]
}

// isOwnScheduler reports whether a scheduler is a profile of this process.
func (b *base) isOwnScheduler(name string) bool {
	return name == b.profile || b.ownSchedulers.Has(name)
}

// clusterOfVictims returns what has to be known of the objects around pods.
func (a *groupPlacer) clusterOfVictims() preemption.Cluster {
	return preemption.Cluster{
		PodGroup: func(key types.NamespacedName) (preemption.PodGroup, bool) {
			pg := a.groupReporter.podGroups.Get(key)
			if pg == nil {
				return preemption.PodGroup{}, false
			}
			priority, waits := a.groups.WaitingPriorityOf(key)
			return preemption.PodGroup{UID: pg.UID, Evicted: a.evictor.IsMarked(key), Waits: waits, Priority: priority}, true
		},
		Kept: func(namespace string) bool {
			ns, err := a.namespaces.Get(namespace)
			return err == nil && ns.Annotations[group.EvictAnnotation] == group.EvictNever
		},
		Owner: a.describeOwner,
		Budgets: func() []*policyv1.PodDisruptionBudget {
			// A lister that reads a cache does not fail.
			all, _ := a.budgets.List(labels.Everything())
			return all
		},
		JobsOf: func(pods []*corev1.Pod) []match.JobID { return a.placer.JobsOf(pods) },
	}
}
