package fluence

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// PluginOf returns the plugin of a profile, or nil if the profile does not enable Fluence.
// It is for callers that run a scheduler step by step and read the plugin's state.
func PluginOf(profile schedulerframework.Framework) *Fluence {
	for _, p := range profile.PreEnqueuePlugins() {
		if pl, ok := p.(*Fluence); ok {
			return pl
		}
	}
	return nil
}

// WhyNotReady returns why no group can be placed at present. It returns "" if groups can be placed.
func (pl *Fluence) WhyNotReady() string { return pl.whyNotReady() }

// PodState is the state of a pod that waits for a node.
type PodState struct {
	// Group is the key of the pod's PodGroup, or the key of the pod itself if InPodGroup is false.
	Group types.NamespacedName
	// InPodGroup reports whether the pod belongs to a PodGroup.
	InPodGroup bool
	// MayEnterCycle reports whether the group lets the pod enter a scheduling cycle: the pod has an
	// assignment and no sibling has to be placed before it, or the pod is the group's
	// representative. The bind queue may still hold the group until pods of other groups are bound.
	MayEnterCycle bool
	// Assigned reports whether the pod has an assignment that the API does not show yet.
	Assigned bool
	// Started reports whether members of the group are on nodes, or binds were sent.
	Started bool
	// Missing is how many members a started group lacks to its minimum.
	Missing int
	// Reason and Message are what blocks the group, as reported to its PodGroup. They are empty
	// if nothing is known to block it, and if the pod only waits for the group's representative.
	Reason, Message string
}

// StateOf returns the state of a pod. It returns false if the plugin does not know the pod.
func (pl *Fluence) StateOf(pod *corev1.Pod) (PodState, bool) {
	m, ok := pl.groups.GroupOf(pod.UID)
	if !ok {
		return PodState{}, false
	}
	v := pl.groups.PreEnqueue(pod.UID, pl.now())
	s := PodState{
		Group: m.Key, InPodGroup: m.InPodGroup, MayEnterCycle: v.Pass, Assigned: pl.groups.HasAssignment(pod.UID),
		Started: m.Started, Missing: m.Missing, Reason: v.Reason, Message: v.Message,
	}
	if v.Reason == "" {
		// The pod only waits for its group's representative, which is not reported.
		s.Message = ""
	}
	if told, ok := pl.reporter.Latest(m.Key); ok && told.Status == metav1.ConditionFalse && told.Reason == s.Reason {
		s.Message = told.Message
	}
	return s, true
}

// MarkStarted marks the group of a pod as started, as if the
// pod's bind had been sent. Permit must have let the pod through.
func (pl *Fluence) MarkStarted(pod *corev1.Pod) {
	pl.groups.CommitBind(pl.groups.PrepareBind(pod.UID), "", pl.now())
}

// ExpireBackoff ends the refusals of a group that would
// end at a set time. It reports whether there were any.
func (pl *Fluence) ExpireBackoff(key types.NamespacedName) bool { return pl.groups.ExpireBackoff(key) }

// PromiseOf returns from when a group that waits is promised room, and on which nodes. It returns false if it is not.
func (c *cluster) PromiseOf(key types.NamespacedName) (from time.Time, nodes []string, ok bool) {
	p := c.promises.get(key)
	if p == nil {
		return from, nil, false
	}
	return p.at(), sets.List(p.nodes), true
}

// RoomOf returns the reservation of the room that a group which waits is promised. The keys of its slots are the UIDs of the
// group's pods. It returns false if there is none.
func (c *cluster) RoomOf(key types.NamespacedName) (match.Job, bool) {
	p := c.promises.get(key)
	if p == nil {
		return match.Job{}, false
	}
	return p.job, true
}

// EndOf returns when the room of a pod with a node is expected to be free. It returns the zero time if no end is known.
func EndOf(pl *Fluence, pod *corev1.Pod) time.Time { return pl.walltimes.expectedEnd(pod) }

// VictimsFor returns the victims of the plans for a group: of one for the group as a whole, or of those for
// members that it lacks. pods are its pods without a node.
func (tl *groupReporter) VictimsFor(key types.NamespacedName, pods []*corev1.Pod) (victims []preemption.Victim) {
	var preemptors []types.UID
	if pg := tl.podGroups.Get(key); pg != nil {
		preemptors = append(preemptors, pg.UID)
	}
	for _, pod := range pods {
		preemptors = append(preemptors, pod.UID)
	}
	for _, uid := range preemptors {
		for _, v := range tl.evictor.Of(uid) {
			victims = append(victims, v.Victim)
		}
	}
	return victims
}

// DepthOf returns to how many groups that wait the scheduler promises room, by its arguments in a
// KubeSchedulerConfiguration. It returns the error of the plugin if the arguments are invalid.
func DepthOf(args runtime.Object) (int, error) {
	a, err := decodeArgs(args)
	if err != nil {
		return 0, err
	}
	return a.Promises.Depth, nil
}

// LevelsOf returns the topology levels of the plugin's arguments in a
// KubeSchedulerConfiguration. It returns the error of the plugin if the arguments are invalid.
func LevelsOf(args runtime.Object) ([]translate.Level, error) {
	a, err := decodeArgs(args)
	if err != nil {
		return nil, err
	}
	return translate.ParseLevels(a.TopologyLevels)
}
