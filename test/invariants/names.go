package invariants

import "time"

// These are the names that users of Fluence rely on: see docs/groups.md and manifests/rbac.
const (
	groupLabel = "scheduling.x-k8s.io/pod-group"
	sizeLabel  = "fluence.group-size"
	// nativeAPI is the API group of native PodGroups. It begins the names of their groups in the rules,
	// and conditionPrefix begins the types of Fluence's conditions on them.
	nativeAPI         = "scheduling.k8s.io"
	conditionPrefix   = "fluence.flux-framework.org/"
	minimumAnnotation = "fluence.flux-framework.org/min-member"
	timeoutAnnotation = "fluence.flux-framework.org/incomplete-timeout"
	policyAnnotation  = "fluence.flux-framework.org/incomplete-policy"
	policyRestart     = "restart"
	policyWait        = "wait"
	madeByLabel       = "app.kubernetes.io/managed-by"

	requiredAnnotation    = "fluence.flux-framework.org/topology-required"
	preferredAnnotation   = "fluence.flux-framework.org/topology-preferred"
	balancedAnnotation    = "fluence.flux-framework.org/topology-balanced"
	exclusiveAnnotation   = "fluence.flux-framework.org/exclusive"
	matchPolicyAnnotation = "fluence.flux-framework.org/match-policy"
	levelNode             = "node" // is always there

	durationAnnotation = "fluence.flux-framework.org/duration"

	// queueLabel is of Jobs, their pod templates and pods. queuedAnnotation is on a Job that Fluence has suspended until its turn.
	queueLabel       = "fluence.flux-framework.org/queue"
	queuedAnnotation = "fluence.flux-framework.org/queued"
	phaseReady       = "Ready"
	phaseRunning     = "Running"
	phaseFinished    = "Finished"
	conditionRelease = "Released"
	conditionAdmit   = "Admitted"
	// reasonRan is of conditionRelease, if the pods of a job were on nodes before it was in its queue.
	reasonRan = "RunsAlready"

	suspendedAnnotation = "fluence.flux-framework.org/suspended-for"

	conditionScheduled  = "Scheduled"
	conditionIncomplete = "Incomplete"
	// conditionPreempted is on a PodGroup that is evicted, and conditionDisrupted on a native one.
	conditionPreempted = "Preempted"
	conditionDisrupted = "DisruptionTarget"

	schedulerName    = "fluence"
	schedulerAccount = "system:serviceaccount:fluence-system:fluence-scheduler"
	controllerName   = "fluence-controller"
	controllerUser   = "system:serviceaccount:fluence-system:" + controllerName
	leaseNamespace   = "fluence-system"

	reasonGathering   = "Gathering"
	reasonSuspended   = "Suspended"
	reasonTopology    = "InvalidTopology"
	reasonAnnotation  = "InvalidAnnotation"
	reasonSize        = "InvalidGroupSize"
	reasonPolicy      = "InvalidMatchPolicy"
	reasonNoPodGroup  = "NoPodGroup"
	reasonNotReserved = "NotReserved"
	reasonNoMatcher   = "MatcherUnavailable"
	reasonBinding     = "Binding"   // waits for its binds
	longestPause      = time.Minute // between two attempts of a group refused with NotReserved

	// attemptFailed is the reason of the event that kube-scheduler's own code writes.
	attemptFailed = "FailedScheduling"
)

// These are the rules, as a Violation names them.
const (
	// RulePartialGang: a group had fewer pods on nodes than it needs for too
	// long, without a report or without the action that its policy demands.
	RulePartialGang = "PartialGang"
	// RuleFullNode: a pod was bound to a node that had no room for it.
	RuleFullNode = "FullNode"
	// RuleNodeClosed: a pod was bound to a node that was gone, cordoned or tainted.
	RuleNodeClosed = "NodeClosed"
	// RulePodMoved: a pod changed its node, or Fluence removed one.
	RulePodMoved = "PodMoved"
	// RuleNoReason: a group or a pod that waits was given no reason, or the reason is out of date.
	RuleNoReason = "NoReason"
	// RuleRepeated: the same event was written twice.
	RuleRepeated = "Repeated"
	// RuleRepeatedAttempt: the same process wrote the event of a failed attempt to
	// place a pod again, although nothing but digits had changed. The API keeps only
	// the first note of a series. So a series is judged by the message of the pod's
	// condition PodScheduled, and so is an event after a message that no event was seen
	// of. The condition does not show a message that is overtaken before it is written: one repetition
	// is not counted. The rule therefore misses a repeated event while that message changes or goes. After the second event of a series, it also misses
	// the next ones until the process writes their count, minutes later.
	RuleRepeatedAttempt = "RepeatedAttempt"
	// RuleHeld: something was still held, or left over, when all groups were gone.
	RuleHeld = "Held"
	// RuleNotAtRest: a group was neither placed nor refused when it had to be.
	RuleNotAtRest = "NotAtRest"
	// RuleTooClose: a pod was bound to a domain that required anti-affinity, its own or another
	// pod's, keeps it from. Or it was bound to a node on which another pod has its host port.
	RuleTooClose = "TooClose"
	// RuleSkewed: a pod was bound where its spread constraint does not allow it.
	RuleSkewed = "Skewed"
	// RuleNotTogether: a pod was bound outside the domains in which it has
	// to be, by its required affinity or its group's required topology.
	RuleNotTogether = "NotTogether"
	// RuleNotAlone: pods of two groups were bound to one node, and one of the groups is exclusive.
	RuleNotAlone = "NotAlone"
	// RuleNoLevel: a pod was bound although its group names a topology level that does not exist.
	RuleNoLevel = "NoLevel"
	// RuleEvictedUpward: a pod was evicted for a group of the same or a lower priority.
	RuleEvictedUpward = "EvictedUpward"
	// RuleEvictedPart: only a part of a group was evicted, and the rest runs with too few pods.
	RuleEvictedPart = "EvictedPart"
	// RuleEvictedTwice: the scheduler deleted a pod twice, or evicted a group again for the same preemptor within a minute.
	RuleEvictedTwice = "EvictedTwice"
	// RuleEvictedInVain: the room of what was evicted helped neither the preemptor nor
	// another of its priority or a higher one, and nothing explains it.
	RuleEvictedInVain = "EvictedInVain"
	// RuleLeftSuspended: a Job in no queue that was suspended for another group was not resumed after its pods had gone.
	RuleLeftSuspended = "LeftSuspended"
	// RulePromiseBroken: the time from which a group is promised room came later, and its message does not say
	// what moved it. Or the time is over, the group waits all the same, and its message names no pod that is past its end.
	// The rule does not judge a promise that ends because no time is known any more, nor one that a new process makes,
	// nor one after a change of the group. The message may be out of date for messageWithin.
	RulePromiseBroken = "PromiseBroken"
	// RuleOverLimit: a job was given room in a queue that had more jobs with room by that than a limit of it allows, or jobs that
	// request more. Limits that were lowered a moment before do not count yet, nor does what a scheduler does that cannot hear. The rule does
	// not judge jobs whose pods ran before they were in the queue, nor how many jobs wait.
	RuleOverLimit = "OverLimit"
	// RuleStartedUnadmitted: Fluence bound a pod of a queue, or let a Job of a queue go, whose FluxJob had no allocation. The
	// rule does not judge Jobs that users resume, nor pods that others bind.
	RuleStartedUnadmitted = "StartedUnadmitted"
	// RulePastDeadline: pods of a job in a queue still run although the end of its room is over, which has the grace of
	// the queue in it. The end is later by as much as the job was let go after it was given its room. Pods that are being deleted, and those on
	// nodes that are gone, do not count.
	RulePastDeadline = "PastDeadline"
)
