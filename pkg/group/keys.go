package group

import (
	"fmt"
	"slices"
	"strings"
)

// A Form says whether a key is of a label or of an annotation.
type Form string

// The forms of keys.
const (
	LabelForm      Form = "label"
	AnnotationForm Form = "annotation"
)

// A Place is where labels and annotations are written, in words fit for a user.
type Place string

// The places at which a key may have an effect.
const (
	// OnPod is a pod, or the pod template that it is made from.
	OnPod Place = "pod template"
	// OnWorkload is the metadata of a Job, CronJob, Deployment, ReplicaSet or StatefulSet itself. The
	// webhook copies labels from there to the pod template.
	OnWorkload Place = "workload"
	// OnPodGroup is a PodGroup of scheduling.x-k8s.io, OnNativePodGroup one of scheduling.k8s.io.
	OnPodGroup       Place = "PodGroup"
	OnNativePodGroup Place = "native PodGroup"
	OnNamespace      Place = "Namespace"
	OnFluxJob        Place = "FluxJob"
)

// A Key is a label or an annotation that this project reads or writes.
type Key struct {
	Name string
	Form Form
	// Means says in a few words what it is for.
	Means string
	// Places are where it has an effect.
	Places []Place
	// Values says in a few words which values are valid.
	Values string
	// Default is the value, or what happens, without it.
	Default string
	// Written is true if Fluence itself writes it, and users do not.
	Written bool
}

const (
	// SchedulerNameAnnotation is an annotation of PodGroups that the controller made. It names the
	// scheduler that the group's pods ask for.
	SchedulerNameAnnotation = "fluence.flux-framework.org/scheduler-name"
	// CreationTimeAnnotation is the annotation of the same name in package v1alpha1 of
	// sig-scheduler-plugins/scheduling.
	CreationTimeAnnotation = "fluence.flux-framework.org/creation-time"
)

// Keys returns all labels and annotations of this project, by form and name. No other key with the
// prefixes of this project has a meaning. One name may be a label and an annotation.
func Keys() []Key {
	groups := []Place{OnPod, OnPodGroup, OnNativePodGroup}
	own := []Place{OnPod, OnPodGroup}
	number := fmt.Sprintf("a whole number from 1 to %d", MaxSize)
	const duration, trueFalse, level = "a duration such as `90s`", "`true` or `false`", "a level, such as `rack`"
	return []Key{
		{Name: ExpectLabel, Form: LabelForm, Means: "for which groups of the namespace seats are held", Places: []Place{OnNamespace}, Values: oneOf(ExpectModes()), Default: "the scheduler's argument `expect`"},
		{Name: QueueLabel, Form: LabelForm, Means: "the queue in which the workload waits", Places: []Place{OnPod, OnWorkload}, Values: "the name of a Queue, or nothing for no queue", Default: "of a Job, the queue whose `defaultFor` selects the namespace; else none"},
		{Name: WholeNodesLabel, Form: LabelForm, Means: "whether groups of the namespace may have whole nodes", Places: []Place{OnNamespace}, Values: "`" + WholeNodesAllowed + "`", Default: "the scheduler's argument `wholeNodes`"},
		{Name: MinLabel, Form: LabelForm, Means: "how many pods start together", Places: []Place{OnPod, OnWorkload}, Values: number, Default: "the size, or what the kind of the owner needs"},
		{Name: SizeLabel, Form: LabelForm, Means: "how many pods the group wants", Places: []Place{OnPod, OnWorkload}, Values: number, Default: "the number of pods that the owner makes"},
		{Name: Label, Form: LabelForm, Means: "the PodGroup of the pod", Places: []Place{OnPod, OnWorkload}, Values: "the name of a PodGroup", Default: "the group of the owner"},
		{Name: ArrayAnnotation, Form: AnnotationForm, Means: "each pod starts by itself, as room comes", Places: []Place{OnPod}, Values: trueFalse, Default: "`false`"},
		{Name: CreationTimeAnnotation, Form: AnnotationForm, Means: "when the PodGroup was made, to the microsecond", Places: []Place{OnPodGroup}, Values: "a time (RFC 3339)", Default: "`metadata.creationTimestamp`", Written: true},
		{Name: DeadlineAnnotation, Form: AnnotationForm, Means: "the Job's own `activeDeadlineSeconds`, a slash, and what Fluence has set for the time in which it runs", Places: []Place{OnWorkload}, Values: "such as `none/7200`", Default: "the field is the Job's own", Written: true},
		{Name: DefaultedAnnotation, Form: AnnotationForm, Means: "which size labels the webhook filled in", Places: []Place{OnPod, OnWorkload}, Values: "`SIZE/MIN`", Default: "none was filled in", Written: true},
		{Name: DurationAnnotation, Form: AnnotationForm, Means: "how long each pod holds its node at most, from its bind on", Places: groups, Values: "a [Flux Standard Duration](tasks/time-limit.md), such as `30m` or `1.5d`", Default: "no end is known"},
		{Name: EvictAnnotation, Form: AnnotationForm, Means: "no pod of the namespace is evicted for a group of higher priority", Places: []Place{OnNamespace}, Values: "`" + EvictNever + "`", Default: "pods may be evicted"},
		{Name: ExclusiveAnnotation, Form: AnnotationForm, Means: "whole nodes for the group", Places: groups, Values: trueFalse, Default: "`false`"},
		{Name: ExpectAnnotation, Form: AnnotationForm, Means: "seats for pods that the owner makes later", Places: own, Values: "`" + ExpectTrue + "`", Default: "none, where groups have to ask for them"},
		{Name: ExpectTimeoutAnnotation, Form: AnnotationForm, Means: "how long seats are held for the next pod", Places: own, Values: duration, Default: "the scheduler's argument `expectTimeout`, which is also the most"},
		{Name: ExpectTotalAnnotation, Form: AnnotationForm, Means: "how long seats are held in all", Places: own, Values: duration, Default: "the scheduler's argument `expectTotal`, which is also the most"},
		{Name: IncompletePolicyAnnotation, Form: AnnotationForm, Means: "what to do with a group that lost members", Places: own, Values: oneOf(IncompletePolicies()), Default: "`" + IncompleteWait + "`"},
		{Name: IncompleteTimeoutAnnotation, Form: AnnotationForm, Means: "how long a group may lack members before that", Places: own, Values: duration + ", at least `1s`", Default: "the controller's flag `--incomplete-timeout`"},
		{Name: MatchPolicyAnnotation, Form: AnnotationForm, Means: "the order in which nodes are chosen", Places: groups, Values: "a [match policy](policies.md)", Default: "the scheduler's argument `matchPolicy`"},
		{Name: MinMemberAnnotation, Form: AnnotationForm, Means: "how many pods start together", Places: []Place{OnNativePodGroup}, Values: number, Default: "as the policy of the PodGroup says", Written: true},
		{Name: PodsPerNodeAnnotation, Form: AnnotationForm, Means: "how many pods of the group may be on one node", Places: groups, Values: number, Default: "no bound"},
		{Name: PreemptionDelayAnnotation, Form: AnnotationForm, Means: "how long the group waits for room before others are evicted for it", Places: groups, Values: duration, Default: "the scheduler's argument `preemption.delay`"},
		{Name: QueuedAnnotation, Form: AnnotationForm, Means: "since when the workload waits in a queue; of a Job, that Fluence has suspended it until its turn", Places: []Place{OnPod, OnWorkload}, Values: "a time (RFC 3339)", Default: "it does not wait", Written: true},
		{Name: RestartTimeoutAnnotation, Form: AnnotationForm, Means: "how long the room of a pod that ended is kept for its replacement", Places: groups, Values: duration, Default: "no room is kept"},
		{Name: SchedulerNameAnnotation, Form: AnnotationForm, Means: "the scheduler of the group's pods", Places: []Place{OnPodGroup}, Values: "the name of a scheduler", Default: "none", Written: true},
		{Name: StagesAnnotation, Form: AnnotationForm, Means: "when room is looked for for later stages", Places: own, Values: oneOf([]string{StagesOne, StagesTogether}), Default: "`" + StagesOne + "`"},
		{Name: SuspendedForAnnotation, Form: AnnotationForm, Means: "for which group the workload was suspended, until its pods have gone", Places: []Place{OnWorkload}, Values: "the UID of a PodGroup or pod, a slash, and the UID of the workload itself", Default: "it is not suspended by Fluence", Written: true},
		{Name: TopologyBalancedAnnotation, Form: AnnotationForm, Means: "equal numbers of pods in each vertex of a level, as few of them as possible", Places: groups, Values: level, Default: "no such request"},
		{Name: TopologyPreferredAnnotation, Form: AnnotationForm, Means: "as few vertices of these levels as possible", Places: groups, Values: "levels with commas, such as `block,rack`", Default: "no such request"},
		{Name: TopologyRequiredAnnotation, Form: AnnotationForm, Means: "all pods below one vertex of a level", Places: groups, Values: level, Default: "no such request"},
		{Name: SaidAnnotation, Form: AnnotationForm, Means: "the duration that the workload said last", Places: []Place{OnFluxJob}, Values: "a Flux Standard Duration", Default: "it said none", Written: true},
	}
}

// oneOf lists values in the form of the field Values of a Key.
func oneOf(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }

// Has reports whether the key has an effect at a place.
func (k *Key) Has(p Place) bool { return slices.Contains(k.Places, p) }
