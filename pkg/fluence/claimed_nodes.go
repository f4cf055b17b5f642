package fluence

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

// A nominatedPod is a pod and the node on which it claims room.
type nominatedPod struct {
	pod  *corev1.Pod
	node string
}

// setClaim sets the claim of a group. The room of pods that are evicted is also claimed in the nominator of the scheduler,
// so that the other profiles of this process leave it. In the API only a pod alone has the node: the
// filters of kube-scheduler count nominated pods of the same priority, so a group with outdated nominations would keep
// itself from its nodes.
func (a *groupPlacer) setClaim(plan gang.Plan, of preemption.Preemptor, c *claim) (ok, changed bool) {
	id := claimantOf(plan)
	c.preemptor = of.UID
	if c.evicted {
		c.nominated = map[types.UID]nominatedPod{}
		pods := map[string]*corev1.Pod{}
		for _, pod := range plan.Required[:len(plan.Required)-plan.Expected] {
			pods[string(pod.UID)] = pod
		}
		for _, s := range c.slots {
			if pod := pods[s.Key]; pod != nil {
				c.nominated[pod.UID] = nominatedPod{pod, s.Node}
			}
		}
	}
	var before map[types.UID]nominatedPod
	if was := a.claims.get(id); was != nil {
		before = was.nominated
	}
	ok, changed = a.claims.set(id, c, a.now())
	for uid, n := range before {
		if c.nominated[uid].node != n.node {
			a.handle.DeleteNominatedPodIfExists(n.pod)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(c.nominated)) {
		a.nominate(c.nominated[uid])
	}
	return ok, changed
}

// nominate tells the nominator of the scheduler where a pod claims room.
func (b *base) nominate(n nominatedPod) {
	info, err := schedulerframework.NewPodInfo(n.pod)
	if err != nil {
		b.log.V(4).Info("A pod has no valid terms, and is not nominated", "pod", klog.KObj(n.pod))
		return
	}
	b.handle.AddNominatedPod(b.log, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: n.node})
}

// dropClaim ends the claim of a group. It reports whether there was one, so that others may take its room.
func (b *base) dropClaim(id claimant) bool {
	c := b.claims.drop(id)
	b.dropNominations(c)
	return c != nil
}

// useClaim ends the claim of a group that starts, before its pods are activated: each would take room from the
// others otherwise. What has not begun of its evictions is canceled. It reports whether others may take room by that.
func (a *groupPlacer) useClaim(plan gang.Plan) bool {
	c := a.claims.use(claimantOf(plan))
	a.dropNominations(c)
	of := a.preemptorOf(plan)
	a.evictor.Stop(of.UID)
	a.preemptions.place(of.UID)
	endYields(a.base, of.UID)
	return c != nil
}

func (b *base) dropNominations(c *claim) {
	if c == nil {
		return
	}
	for _, n := range c.nominated {
		b.handle.DeleteNominatedPodIfExists(n.pod)
	}
}

// claimedNode returns the node on which a pod claims room of pods that are evicted, and whether the pod is alone. It
// returns "" if the pod claims none.
func (b *base) claimedNode(uid types.UID) (node string, alone bool) {
	m, ok := b.groups.GroupOf(uid)
	if !ok {
		return "", false
	}
	id := claimant{NamespacedName: m.Key}
	if m.Started {
		id.pod = uid
	}
	if c := b.claims.get(id); c != nil {
		return c.nominated[uid].node, !m.InPodGroup
	}
	return "", false
}

// nominationAfterRefusal returns what becomes of the nomination of a pod that was refused. A nomination, perhaps
// left by an earlier scheduler, would keep room on a node that the pod may not get, so it is cleared
// unless the pod is alone and claims the room.
func (b *base) nominationAfterRefusal(pod *corev1.Pod) *fwk.NominatingInfo {
	switch node, alone := b.claimedNode(pod.UID); {
	case node != "" && alone:
		return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
	case node != "" && pod.Status.NominatedNodeName == "":
		return &fwk.NominatingInfo{NominatingMode: fwk.ModeNoop}
	}
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
}

// nominateAgain nominates a pod of a group again that the failure handler of the scheduler has just handled, because
// that drops what the nominator has and the API does not.
func (b *base) nominateAgain(pod *corev1.Pod) {
	if node, alone := b.claimedNode(pod.UID); node != "" && !alone {
		b.nominate(nominatedPod{pod, node})
	}
}
