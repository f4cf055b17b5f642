package fluence

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/translate"
)

// PluginOf returns the plugin that a profile was built with, or nil. It is for those who
// drive a scheduler step by step, and want to know what the plugin has to say.
func PluginOf(profile schedulerframework.Framework) *Fluence {
	for _, p := range profile.PreEnqueuePlugins() {
		if pl, ok := p.(*Fluence); ok {
			return pl
		}
	}
	return nil
}

// WhyNotReady says why no group can be placed at all, or nothing.
func (pl *Fluence) WhyNotReady() string { return pl.whyNotReady() }

// A Standing is how it stands with a pod that waits for a node.
type PodState struct {
	// Group is that of the pod's PodGroup if Named, and else names the pod alone.
	Group      types.NamespacedName
	InPodGroup bool
	// MayPlace says that the pod may go through a scheduling cycle as far as its group goes: it
	// has a seat whose turn it is, or asks for its group. The turn of the group may be to
	// come, where pods of others are to be bound first.
	MayPlace bool
	// Assigned says that the pod was given a node that the API does not show yet.
	Assigned bool
	// Started says that members of the group have nodes, or that binds were sent, and Lacking
	// how many are missing then to its minimum.
	Started bool
	Missing int
	// Reason and Message say what stands in the way of the group, as its PodGroup is
	// told. They are empty while nothing is known to, also where the pod waits for
	// siblings that ask.
	Reason, Message string
}

// StateOf returns how it stands with a pod, and false if it has not been seen.
func (pl *Fluence) StateOf(pod *corev1.Pod) (PodState, bool) {
	m, ok := pl.groups.GroupOf(pod.UID)
	if !ok {
		return PodState{}, false
	}
	v := pl.groups.PreEnqueue(pod.UID, pl.now())
	s := PodState{
		Group: m.Key, InPodGroup: m.InPodGroup, MayPlace: v.Pass, Assigned: pl.groups.HasAssignment(pod.UID),
		Started: m.Started, Missing: m.Missing, Reason: v.Reason, Message: v.Message,
	}
	if v.Reason == "" {
		// It waits for a sibling, which is nothing to tell.
		s.Message = ""
	}
	if told, ok := pl.reporter.Latest(m.Key); ok && told.Status == metav1.ConditionFalse && told.Reason == s.Reason {
		s.Message = told.Message
	}
	return s, true
}

// MarkStarted takes note that a pod which Permit let through would be bound now: its group has
// started.
func (pl *Fluence) MarkStarted(pod *corev1.Pod) {
	pl.groups.CommitBind(pl.groups.PrepareBind(pod.UID), "", pl.now())
}

// ExpireBackoff lets a group ask again that is to do so after a while, as if that had passed, and
// says whether there is such a group.
func (pl *Fluence) ExpireBackoff(key types.NamespacedName) bool { return pl.groups.ExpireBackoff(key) }

// LevelsOf returns the levels that the plugin's arguments ask for, as they stand in a
// KubeSchedulerConfiguration. It fails where they are wrong, as the plugin does.
func LevelsOf(args runtime.Object) ([]translate.Level, error) {
	a, err := decodeArgs(args)
	if err != nil {
		return nil, err
	}
	return translate.ParseLevels(a.TopologyLevels)
}
