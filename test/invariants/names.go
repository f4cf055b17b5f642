package invariants

import "time"

// What users of Fluence are told to rely on: docs/groups.md and manifests/rbac.
const (
	groupLabel        = "scheduling.x-k8s.io/pod-group"
	sizeLabel         = "fluence.group-size"
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

	conditionScheduled  = "Scheduled"
	conditionIncomplete = "Incomplete"

	schedulerName    = "fluence"
	schedulerAccount = "system:serviceaccount:fluence-system:fluence-scheduler"
	controllerName   = "fluence-controller"
	controllerUser   = "system:serviceaccount:fluence-system:" + controllerName
	leaseNamespace   = "fluence-system"

	reasonGathering   = "Gathering"
	reasonTopology    = "InvalidTopology"
	reasonSize        = "InvalidGroupSize"
	reasonPolicy      = "InvalidMatchPolicy"
	reasonNoPodGroup  = "NoPodGroup"
	reasonNotReserved = "NotReserved"
	reasonNoMatcher   = "MatcherUnavailable"
	reasonBinding     = "Binding"   // it waits for its binds
	longestPause      = time.Minute // between two attempts of a group that was not reserved

	// attemptFailed is the reason of the event that kube-scheduler's own code tells.
	attemptFailed = "FailedScheduling"
)

// The rules, as a Violation names them.
const (
	// RulePartialGang: a group had fewer pods on nodes than it needs, and that was
	// neither passing nor told and acted upon.
	RulePartialGang = "PartialGang"
	// RuleFullNode: a pod was bound to a node that had no room for it.
	RuleFullNode = "FullNode"
	// RuleNodeClosed: a pod was bound to a node that was gone, cordoned or tainted.
	RuleNodeClosed = "NodeClosed"
	// RulePodMoved: a pod changed its node, or Fluence removed one.
	RulePodMoved = "PodMoved"
	// RuleNoReason: what waits was not told why, or what it was told is not so any
	// more.
	RuleNoReason = "NoReason"
	// RuleRepeated: the same was told again.
	RuleRepeated = "Repeated"
	// RuleRepeatedAttempt: the event that an attempt to place a pod has failed was told
	// again by the same process though nothing but digits had changed. Of a series the
	// API keeps the first note only: one is judged by the message of the pod's
	// condition PodScheduled, so that a pod which is told the same again while that
	// message changes, or goes, is not seen; neither is what a series counts after
	// its second telling, until the teller writes it, minutes later.
	RuleRepeatedAttempt = "RepeatedAttempt"
	// RuleHeld: something was still held, or left over, when all had gone.
	RuleHeld = "Held"
	// RuleNotAtRest: a group was neither placed nor refused when it had to be.
	RuleNotAtRest = "NotAtRest"
	// RuleTooClose: a pod was bound to the domain of another which its required
	// anti-affinity, or that of the other, keeps it from, or to a node on which another
	// has its host port.
	RuleTooClose = "TooClose"
	// RuleSkewed: a pod was bound where its spread constraint does not allow it.
	RuleSkewed = "Skewed"
	// RuleNotTogether: a pod was bound to another domain than those it has to be with,
	// by its required affinity or its group's required topology.
	RuleNotTogether = "NotTogether"
	// RuleNotAlone: pods of two groups were bound to one node, and one of the groups has
	// whole nodes.
	RuleNotAlone = "NotAlone"
	// RuleNoLevel: a pod was bound whose group names a level that there is not.
	RuleNoLevel = "NoLevel"
)
