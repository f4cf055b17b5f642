package fluence

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A QueueView is what the order of the queue follows from.
type QueueView struct {
	Pods            []*corev1.Pod
	PodGroups       []scheduling.PodGroup
	NativePodGroups []schedulingv1beta1.PodGroup
	Owners          group.Owners
	// Profile is the scheduler name of the pods that Fluence places.
	Profile string
	// Args are the plugin's arguments, as in a KubeSchedulerConfiguration.
	Args runtime.Object
}

// A QueuedGroup is a group that asks for nodes, or a lone pod that does.
type QueuedGroup struct {
	// Key is the key of the PodGroup, or of the pod itself.
	Key types.NamespacedName
	// Pod is the pod that goes through the scheduling queue for the group.
	Pod *corev1.Pod
}

// Order returns the groups that may ask for nodes, in the order in which a scheduler that has just
// been started on these objects asks for them. It leaves out groups that lack something else than
// room. It does not know what only a running scheduler does: which groups wait for the end of a delay
// after a refusal, when gates of pods were removed, and which namespaces may not have whole nodes.
// Which of several pods replaces a lost one may differ too. It returns the error of the plugin if the arguments are invalid.
func (v QueueView) Order(now time.Time) ([]QueuedGroup, error) {
	args, err := decodeArgs(v.Args)
	if err != nil {
		return nil, err
	}
	levels, err := translate.ParseLevels(args.TopologyLevels)
	if err != nil {
		return nil, err
	}
	groups := gang.New(v.Owners, args.MatchPolicy, levelsOf(levels)...)
	groups.SetPodRequests(sharedRequests())
	native := newNativeMembers(v.Profile)
	for _, pod := range v.Pods {
		native.update(pod)
	}
	for i := range v.PodGroups {
		pg := &v.PodGroups[i]
		groups.PutPodGroup(types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}, toGangPodGroup(pg))
	}
	for i := range v.NativePodGroups {
		pg := &v.NativePodGroups[i]
		g := toGangNativePodGroup(pg, levelsOf(levels))
		native.describe(pg, &g)
		groups.PutPodGroup(group.NativeKey(pg.Namespace, pg.Name), g)
	}
	for _, pod := range slices.SortedFunc(slices.Values(v.Pods), func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}) {
		if pod.Spec.SchedulerName == v.Profile {
			groups.PutPod(pod, now)
		}
	}
	groups.MarkSynced()
	var asking []gang.Verdict
	pods := map[types.NamespacedName]*corev1.Pod{}
	for _, pod := range groups.Enqueueable(now) {
		verdict := groups.PreEnqueue(pod.UID, now)
		asking = append(asking, verdict)
		pods[verdict.Key] = pod
	}
	slices.SortFunc(asking, func(a, b gang.Verdict) int { return a.Rank.Compare(b.Rank) })
	order := make([]QueuedGroup, 0, len(asking))
	for _, verdict := range asking {
		order = append(order, QueuedGroup{verdict.Key, pods[verdict.Key]})
	}
	return order, nil
}
