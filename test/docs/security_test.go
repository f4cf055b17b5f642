package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// heldBy are the tests of each clause of docs/security.md,
// as folder and function. Every promise needs a test.
var heldBy = map[string][]string{
	// What users can do.
	"A user who may create pods may use Fluence.":                                                                                      {"pkg/webhook.TestHandleAllowsEverything", "test/e2e.TestATenantFencesOffNoNodes"},
	"Fluence computes a pod's request as the kubelet does, with init containers and overhead.":                                         {"test/e2e.TestPodsAreChargedWhatAKubeletCharges"},
	"A ResourceQuota applies to a group's pods as to any other pods.":                                                                  {"test/e2e.TestQuotasApplyToGroups"},
	"Quotas do not count whole nodes, so a namespace needs a label to use them ([topology.md](topology.md#whole-nodes)).":              {"pkg/fluence.TestWhoMayHaveWholeNodes", "test/e2e.TestATenantFencesOffNoNodes"},
	"A pod can only join groups of its own namespace, whatever its labels and annotations say.":                                        {"test/e2e.TestTheSameNamesInTwoNamespacesNeverMeet"},
	"Groups of two namespaces are never mixed, whatever their names.":                                                                  {"test/e2e.TestTheSameNamesInTwoNamespacesNeverMeet"},
	"Whoever may edit a PodGroup may change how its group starts.":                                                                     {"test/e2e.TestMinMemberIsEditedWhileTheGroupWaits", "test/e2e.TestAUsersMinMemberGoesBeforeTheJobs"},
	"With the controller's flag `--enforce-duration` they may also change when its pods are ended, whatever PodDisruptionBudgets say.": {"pkg/controller/podgroup.TestPodsAreEndedAfterTheirDuration", "pkg/controller/podgroup.TestPodsThatNobodyEndsAreDeletedAfterTheirDuration"},
	"Give the verbs on `podgroups` to those who have the same verbs on Jobs.":                                                          {"test/e2e.TestMinMemberIsEditedWhileTheGroupWaits"},
	"Whoever may edit a FluxJob may change when its job starts and ends, by `spec.held` and `spec.duration`.":                          {"pkg/controller/fluxjob.TestADurationIsEditedWhileTheJobRuns", "test/e2e.TestHeldJobsStoppedQueuesAndLimits"},
	"The role `edit` includes it.": {"pkg/apis/fluence/v1alpha1.TestOnAnAPIServer"},
	"Where a Queue has `defaultFor`, all Jobs of such a namespace with Fluence's `schedulerName` wait in that queue.":                                                            {"pkg/controller/fluxjob.TestJobsOfANamespaceWithADefaultQueue"},
	"A Job with an empty label `fluence.flux-framework.org/queue` does not.":                                                                                                     {"pkg/controller/fluxjob.TestWhoEntersAQueue", "pkg/controller/fluxjob.TestHowANewObjectEntersItsQueue"},
	"A group's priority comes from the PriorityClasses of its pods.":                                                                                                             {"pkg/fluence.TestQueueIsOrderedByPriorityThenGroup"},
	"To find it, sort the pods by priority, the highest first: the group has the priority of pod number `minMember`.":                                                            {"pkg/gang.TestGroupPriorityIsReachedByItsMinimum", "pkg/fluence.TestOneHighPriorityPodDoesNotRaiseItsGroup"},
	"Within one priority the age decides.":                                                                                                                                       {"pkg/gang.TestRankGoesByPriorityThenCreationThenName"},
	"The age depends on the field `status.creationTime` of the PodGroup.":                                                                                                        {"pkg/gang.TestRankGoesByPriorityThenCreationThenName"},
	"Until that is set, an annotation of the PodGroup counts, but at most 10 s before the second in which the PodGroup was created.":                                             {"sig-scheduler-plugins/scheduling/v1alpha1.TestCreationTime"},
	"Give only the accounts of scheduler and controller the right to write `podgroups/status`.":                                                                                  {"pkg/gang.TestRankGoesByPriorityThenCreationThenName"},
	"The ClusterRole `fluence-viewer`, bound in the whole cluster, lets a user read the specs of all pods, with the values of their environment variables.":                      {"test/e2e.TestAViewerOfANamespaceSeesItsGroups"},
	"Bind it in a namespace, with a RoleBinding, except for users who may read all of that ([cli.md](cli.md#permissions)).":                                                      {"test/e2e.TestAViewerOfANamespaceSeesItsGroups"},
	"For a group that waits for longer than `maxBypass`, nodes are kept free of later groups of the same or a lower priority ([reasons.md](reasons.md#order-and-reservations)).": {"pkg/fluence.TestSmallGroupsBypassALargeOneUntilMaxBypass", "pkg/fluence.TestWhichGroupsMustLeaveReservedNodesFree"},
	"Use quotas on PriorityClasses.": {"test/e2e.TestQuotasApplyToGroups"},
	"Where groups are [promised room](policies.md#promises), a user's time limit lets a group start before others only if somebody ends it then.": {"pkg/fluence.TestAWishLetsNobodyRunBeforeAPromise", "pkg/fluence.TestAGroupIsPromisedRoomAndOthersRunBeforeIt"},
	"Whoever may use a PriorityClass can evict the work of others below it ([preemption](policies.md#preemption)).":                               {"test/e2e.TestWhoIsEvicted"},
	"Limit who may, with quotas on PriorityClasses, or give it `preemptionPolicy: Never`.":                                                        {"test/e2e.TestQuotasApplyToGroups", "test/e2e.TestWhoIsEvicted"},
	"Whoever may annotate a namespace with `evict: never` protects all its pods.":                                                                 {"test/e2e.TestWhoIsEvicted"},

	// What listens.
	"a unix socket, mode 0600;":               {"cmd/sidecar.TestTheSidecarServesUntilItIsTold", "sidecar/endpoint.TestParse", "cmd/sidecar.TestMutualTLS"},
	"TCP only on loopback or with mutual TLS": {"cmd/sidecar.TestTheSidecarServesUntilItIsTold", "sidecar/endpoint.TestParse", "cmd/sidecar.TestMutualTLS"},
	"the scheduler's port;":                   {"test/chart.TestGolden", "test/e2e.TestMetricsOfLibrariesAreServed", "test/chart.TestInstalled", "cmd/sidecar.TestMetrics"},
	"for a sidecar that runs alone, the address in `--metrics-listen`, without authentication": {"test/chart.TestGolden", "test/e2e.TestMetricsOfLibrariesAreServed", "test/chart.TestInstalled", "cmd/sidecar.TestMetrics"},
	"10259, HTTPS, authenticated":                          {"cmd/scheduler.TestCommandIsKubeSchedulerWithoutEarlyNominations", "test/chart.TestGolden"},
	"8081":                                                 {"test/chart.TestGolden", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"9443, TLS with its own certificate":                   {"pkg/webhook.TestManifests", "pkg/webhook.TestCertificateIsRenewedInTime", "pkg/webhook.TestOnARealAPIServer"},
	"127.0.0.1:8443, HTTPS, authenticated;":                {"test/chart.TestGolden", "test/chart.TestRefused", "test/chart.TestInstalled", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"all addresses with `metrics.enabled`":                 {"test/chart.TestGolden", "test/chart.TestRefused", "test/chart.TestInstalled", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"*The sidecar's metrics* are served by its scheduler.": {"test/e2e.TestMetricsOfLibrariesAreServed", "test/chart.TestInstalled"},
	"*The webhook's certificate* is created and renewed by the controller.":                                                         {"pkg/webhook.TestManifests", "pkg/webhook.TestCertificateIsRenewedInTime", "pkg/webhook.TestOnARealAPIServer"},
	"*The controller's metrics* are for accounts that may `get` the URL `/metrics`.":                                                {"test/chart.TestRefused", "test/chart.TestInstalled", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"Their certificate is created at each start.":                                                                                   {"test/chart.TestRefused", "test/chart.TestInstalled", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"With `metrics.enabled` the value `networkPolicy.metricsFrom` of the chart says who may connect.":                               {"test/chart.TestRefused", "test/chart.TestInstalled", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"Any client that reaches a sidecar can change its graph.":                                                                       {"cmd/sidecar.TestGraphsAreServedAndCounted"},
	"Use a unix socket, as the chart does.":                                                                                         {"test/chart.TestTheSocketIsShared"},
	"TCP on loopback has no authentication: all containers of the pod reach it, and with `hostNetwork` all processes of the node.":  {"sidecar/endpoint.TestParse"},
	"With mutual TLS every certificate of an authority in `--tls-client-ca` is accepted, whatever its name.":                        {"sidecar/endpoint.TestBothSidesProveWhoTheyAre"},
	"Create an authority for this alone, and never use the cluster's.":                                                              {"sidecar/endpoint.TestBothSidesProveWhoTheyAre"},
	"The webhook is called for pods that name the scheduler, or a queue, and for the objects that create such pods.":                {"pkg/webhook.TestManifests", "test/e2e.TestTheWebhookLeavesOthersAlone", "test/e2e.TestAllIsTheSameWithoutTheWebhook"},
	"It fails open: if it does not answer, objects are created without its labels, and scheduling is the same.":                     {"pkg/webhook.TestManifests", "test/e2e.TestTheWebhookLeavesOthersAlone", "test/e2e.TestAllIsTheSameWithoutTheWebhook"},
	"With `webhook.failurePolicy: Fail` of the chart such objects are refused instead.":                                             {"test/chart.TestGolden"},
	"The alert `FluenceWebhookFailsOpen` reports a webhook that does not answer.":                                                   {"test/monitoring.TestEachAlertSpeaksWhenItShould"},
	"While the leader's sidecar does not answer, whoever may write the ConfigMap `fluence-status` can force or prevent a failover.": {"pkg/fluence.TestALeaderWithASilentMatcherHandsOverOnce", "pkg/fluence.TestALeaderKeepsItsLease"},
	"A leader whose sidecar answers is not affected.":                                                                               {"pkg/fluence.TestALeaderKeepsItsLease", "pkg/statusmap.TestMayHandOver"},

	// What bounds one tenant's work.
	"Every tenant that creates pods causes work in Fluence.":                                                  {"test/e2e.TestATenantWhoAsksForTooMuchStopsNobody"},
	"This table shows what bounds the effect on other tenants, and the paragraphs below it have the details:": {"test/e2e.TestATenantWhoAsksForTooMuchStopsNobody"},
	"a bounded search, `maxAsk`, then `TooHard`":                                                              {"pkg/engine.TestAMatchTakesNoMoreWorkThanItMay", "pkg/engine.TestUnlockedSearchBlocksNoCall", "pkg/engine.TestAnAnswerSaysHowLongItWaitedForOthers", "pkg/engine.TestRandomWork", "pkg/placement/interpod.TestConstraintsStopWithTheBudget", "pkg/fluence.TestDecodeArgs", "pkg/fluence.TestTooHardBackoffDoubles"},
	"the debt of the namespace (`Throttled`)":                                                                 {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses", "pkg/fluence.TestNamespaceInDebtIsPlacedAfterOthers"},
	"a fifth of the scheduler's time (`Throttled`)":                                                           {"pkg/fluence.TestFailedAttemptsThrottleNamespace", "pkg/fluence.TestFailedAttemptsGiveWayOnlyToEqualOrHigherPriority"},
	"only the call fails;":                                                                                    {"sidecar/server.TestAPanicIsTheAnswerToItsCallAlone", "pkg/engine.TestAPanicEndsTheEpoch", "pkg/fluence.TestMatchErrorIsCharged"},
	"a debt of a minute":                                                                                      {"sidecar/server.TestAPanicIsTheAnswerToItsCallAlone", "pkg/engine.TestAPanicEndsTheEpoch", "pkg/fluence.TestMatchErrorIsCharged"},
	"labels that no selector reads have no effect":                                                            {"pkg/placement/interpod.TestALabelThatNothingReadsMakesNoShape"},
	"that time is part of the debt":                                                                           {"pkg/fluence.TestTimeOfOtherPluginsIsCharged", "pkg/fluence.TestTimeForForeignPodsIsNotCharged"},
	"a ResourceQuota;":                                                                                        {"test/e2e.TestQuotasApplyToGroups", "pkg/fluence.TestFilterTimeForForeignPodsDoesNotCount", "pkg/fluence.TestShortForeignRunsDoNotCount", "pkg/placement.TestTermsOfForeignEndingPodsAreNotCharged"},
	"time limits":                                                                                             {"test/e2e.TestQuotasApplyToGroups", "pkg/fluence.TestFilterTimeForForeignPodsDoesNotCount", "pkg/fluence.TestShortForeignRunsDoNotCount", "pkg/placement.TestTermsOfForeignEndingPodsAreNotCharged"},
	"one message for each pod;":                                                                               {"pkg/fluence.TestStatusesOfPodsAreNotWrittenByTheSchedulingLoop", "pkg/report.TestPodStatusWritesAlternateAmongNamespaces", "pkg/report.TestLastStatusIsWrittenDespiteStaleCache", "pkg/report.TestStatusIsRetriedWhileWritesFail"},
	"namespaces take turns":                                                                                   {"pkg/fluence.TestStatusesOfPodsAreNotWrittenByTheSchedulingLoop", "pkg/report.TestPodStatusWritesAlternateAmongNamespaces", "pkg/report.TestLastStatusIsWrittenDespiteStaleCache", "pkg/report.TestStatusIsRetriedWhileWritesFail"},
	"the age counts from the pods":                                                                            {"pkg/gang.TestAnOldPodGroupIsNoOlderThanItsPods", "pkg/fluence.TestReusedPodGroupsBypassNoLongerThanOthers"},
	"the age counts from when they are ready":                                                                 {"pkg/fluence.TestLateReadyPodsDoNotBypass"},
	"annotations of the joining pods about lost members do not count":                                         {"pkg/controller/podgroup.TestWhoSpeaksForAGroup"},
	"they count as members, and start no group":                                                               {"pkg/gang.TestAPodThatWasCreatedOnANodeStartsNothing", "pkg/gang.TestPreplacedPodHasNoPosition", "pkg/fluence.TestPreplacedPodGivesItsGroupNoPrecedence"},
	"only in namespaces with a label":                                                                         {"pkg/fluence.TestWhoMayHaveWholeNodes", "test/e2e.TestATenantFencesOffNoNodes", "pkg/fluence.TestAnAnnotationOnPodsThatRunTakesNoNode", "pkg/gang.TestWholeNodesAreSettledByTheMatch", "pkg/gang.TestWholeNodesAfterARestart"},
	"one reservation for each namespace and priority, with pauses":                                            {"pkg/fluence.TestAsManyNodesAreReservedAsAGroupNeeds", "pkg/fluence.TestOneGroupOfANamespaceAtATime", "pkg/fluence.TestNodesWithPodsThatNeverEndAreReserved", "pkg/fluence.TestNothingIsReservedForAGroupThatNeedsWhatNeverEnds", "pkg/fluence.TestGroupThatNeverStartsBlocksNobody", "pkg/fluence.TestPausesDoubleWithoutProgress", "pkg/fluence.TestNextGroupOfATurnGetsTheRefund", "pkg/fluence.TestAReservationThatDoesNotGetOnPauses", "pkg/fluence.TestStallTimerIsNotReset", "pkg/fluence.TestWhatIsProgress", "pkg/fluence.TestStartOnOtherNodesDoesNotResetTimer", "pkg/fluence.TestStartOnFewNodesRefundsItsShare"},
	"quotas;": {"pkg/gang.TestSeatsStayWithinTheQuota", "pkg/fluence.TestWhatQuotasLeave"},
	"only an end that somebody enforces counts;": {"pkg/fluence.TestAWishLetsNobodyRunBeforeAPromise"},
	"the job is ended then, and deleted half a minute later if a PodDisruptionBudget or a Job that nobody manages keeps it;": {"pkg/controller/podgroup.TestPodsAreEndedAfterTheirDuration", "pkg/controller/podgroup.TestPodsThatNobodyEndsAreDeletedAfterTheirDuration", "test/e2e.TestAGroupStartsWhenItWasPromised"},
	"new pods of its owner wait behind the promise":                                               {"pkg/fluence.TestReplacementsWithAnEndLeavePromisedRoom"},
	"`expectTotal`, once;":                                                                        {"pkg/fluence.TestAnAuthorOfManyPromisesHoldsRoomOnce"},
	"then no seats for the namespace":                                                             {"pkg/fluence.TestAnAuthorOfManyPromisesHoldsRoomOnce", "pkg/gang.TestWastedSeatsAreCharged"},
	"a fixed amount of work for all budgets in one plan, shared among namespaces;":                {"pkg/preemption.TestTheWorkForBudgetsIsBounded"},
	"where that is not enough, budgets protect no pod of the namespace":                           {"pkg/preemption.TestTheWorkForBudgetsIsBounded"},
	"limits on look-ups":                                                                          {"pkg/webhook.TestFindAsksNoMoreThanItMay", "pkg/webhook.TestNamespacesAreAskedForWithinBounds"},
	"one question about kinds in 5 seconds":                                                       {"pkg/served.TestKindsThatAreNotServedAreAskedForWithinBounds"},
	"a result is used only for the same kind, name and UID":                                       {"pkg/controller/podgroup.TestAFindingIsOfOneReference"},
	"names that cannot exist are not looked up":                                                   {"pkg/webhook.TestFindRemembersNothingThatCannotExist", "pkg/controller/podgroup.TestFindingsAreFewAndSmall"},
	"no names of other namespaces in messages (`tellNames`)":                                      {"pkg/fluence.TestForeignObjectsAreNotNamed"},
	"While others wait, the embedded matcher does a fixed amount of work on one request.":         {"pkg/engine.TestAMatchTakesNoMoreWorkThanItMay", "pkg/engine.TestUnlockedSearchBlocksNoCall", "pkg/engine.TestAnAnswerSaysHowLongItWaitedForOthers", "pkg/engine.TestRandomWork"},
	"More work is done only in the background, for one request at a time.":                        {"pkg/engine.TestAMatchTakesNoMoreWorkThanItMay", "pkg/engine.TestUnlockedSearchBlocksNoCall", "pkg/engine.TestAnAnswerSaysHowLongItWaitedForOthers", "pkg/engine.TestRandomWork"},
	"**Hard groups.** The scheduler takes at most `maxAsk` (250 ms) to find nodes for one group.": {"pkg/placement/interpod.TestConstraintsStopWithTheBudget", "pkg/fluence.TestDecodeArgs"},
	"Beyond these bounds the group is [`TooHard`](reasons.md#what-is-too-hard) and is tried less and less often, down to every 10 minutes.": {"pkg/fluence.TestTooHardBackoffDoubles"},
	"A tenant who changes the group on purpose gets at most one attempt every 10 seconds.":                                                  {"pkg/gang.TestChangesDoNotResetLongBackoff"},
	"**Debt.** The time of an attempt beyond 20 ms is a debt of the namespace.":                                                             {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses"},
	"A namespace may owe 200 ms before it counts as in debt.":                                                                               {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses"},
	"Each second pays off 100 ms.": {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses"},
	"For example, an attempt of 320 ms is a debt of 300 ms, which is 100 ms more than the namespace may owe.":                                                                       {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses"},
	"So the namespace is in debt for one second.":                                                                                                                                   {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses"},
	"A namespace in debt gets its attempts after all others, and at most one a second (`Throttled`).":                                                                               {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses", "pkg/fluence.TestNamespaceInDebtIsPlacedAfterOthers"},
	"Once the debt is paid, its groups return to the queue, at first one every 50 ms.":                                                                                              {"pkg/gang.TestThrottledGroupsRetryOneAtATime", "pkg/gang.TestPaceGrowsWithAttempts"},
	"The rate grows until one of them is `Throttled` again.":                                                                                                                        {"pkg/gang.TestThrottledGroupsRetryOneAtATime", "pkg/gang.TestPaceGrowsWithAttempts"},
	"New groups and old ones take turns.":                                                                                                                                           {"pkg/gang.TestANewGroupOfAThrottledNamespaceIsTried"},
	"PodGroups are created, and conditions written, for namespaces in turn.":                                                                                                        {"pkg/controller/podgroup.TestNobodyWaitsForTheGroupsOfAnotherNamespace", "pkg/report.TestNamespaceDoesNotWaitForAnother"},
	"**Attempts without nodes.** Attempts of one namespace that find no nodes may take a fifth of the scheduler's time.":                                                            {"pkg/fluence.TestFailedAttemptsThrottleNamespace", "pkg/fluence.TestFailedAttemptsGiveWayOnlyToEqualOrHigherPriority"},
	"Beyond that, groups of other namespaces with the same or a higher priority are placed first (`Throttled`).":                                                                    {"pkg/fluence.TestFailedAttemptsThrottleNamespace", "pkg/fluence.TestFailedAttemptsGiveWayOnlyToEqualOrHigherPriority"},
	"This does not protect groups of a lower priority: use quotas to limit the PriorityClasses of a tenant.":                                                                        {"pkg/fluence.TestLowerPriorityIsNotPlacedBeforeFailedAttempts", "test/e2e.TestQuotasApplyToGroups"},
	"The scheduler takes at most a twentieth of its time to find out which other namespaces have groups that may be placed.":                                                        {"pkg/fluence.TestReadyNamespacesAreListedRarely"},
	"**Failures of the matcher.** In the embedded matcher only the call fails.":                                                                                                     {"sidecar/server.TestAPanicIsTheAnswerToItsCallAlone", "pkg/engine.TestAPanicEndsTheEpoch"},
	"If the call was changing the graph, all groups wait until it is loaded again.":                                                                                                 {"sidecar/server.TestAPanicIsTheAnswerToItsCallAlone", "pkg/engine.TestAPanicEndsTheEpoch"},
	"The group has `MatchError` and is tried less and less often, down to every 10 minutes.":                                                                                        {"pkg/fluence.TestEveryErrorOfAMatchIsARefusal", "pkg/fluence.TestMatchErrorIsCharged"},
	"The namespace owes a minute, so groups of all others are placed first.":                                                                                                        {"pkg/fluence.TestMatchErrorIsCharged"},
	"**Slow plugins.** While a namespace is throttled, its pods are refused before other plugins read them.":                                                                        {"pkg/fluence.TestTimeOfOtherPluginsIsCharged", "pkg/fluence.TestTimeForForeignPodsIsNotCharged"},
	"Otherwise the namespace pays for the time that these plugins take, up to a minute.":                                                                                            {"pkg/fluence.TestTimeOfOtherPluginsIsCharged", "pkg/fluence.TestTimeForForeignPodsIsNotCharged"},
	"**Anti-affinity across namespaces.** As with kube-scheduler, a ResourceQuota with the scope `CrossNamespacePodAffinity` limits who may use it.":                                {"test/e2e.TestQuotasApplyToGroups"},
	"Such anti-affinity splits another group's pods into at most 16 more [kinds](concepts.md).":                                                                                     {"pkg/placement/interpod.TestExistingSelectorsAddFewShapes"},
	"The time that filters take for such terms is not charged to the group or its namespace.":                                                                                       {"pkg/fluence.TestFilterTimeForForeignPodsDoesNotCount", "pkg/fluence.TestShortForeignRunsDoNotCount", "pkg/placement.TestTermsOfForeignEndingPodsAreNotCharged"},
	"The attempt of a group of several kinds of pods ends when this time reaches [its limit](reasons.md#the-time-of-one-attempt), and the next one follows after at most a minute.": {"pkg/fluence.TestManyKindsOfPodsDoNotHoldUpTheLoopForOthers"},
	"The time that filters take for terms of the group's own namespace is charged to the group.":                                                                                    {"pkg/fluence.TestManyKindsOfPodsDoNotHoldUpTheLoopForOthers", "pkg/placement.TestForeignShare"},
	"**Messages on pods** are written outside the scheduling loop, for namespaces in turn.":                                                                                         {"pkg/fluence.TestStatusesOfPodsAreNotWrittenByTheSchedulingLoop", "pkg/report.TestPodStatusWritesAlternateAmongNamespaces"},
	"Only the last message of a pod is written.":                                                                                                                                    {"pkg/fluence.TestStatusesOfPodsAreNotWrittenByTheSchedulingLoop", "pkg/report.TestLastStatusIsWrittenDespiteStaleCache", "pkg/report.TestStatusIsRetriedWhileWritesFail"},
	"A write that fails is repeated.": {"pkg/fluence.TestStatusesOfPodsAreNotWrittenByTheSchedulingLoop", "pkg/report.TestLastStatusIsWrittenDespiteStaleCache", "pkg/report.TestStatusIsRetriedWhileWritesFail"},
	"**Old PodGroups.** For reservations a group counts from its [ready time](reasons.md#who-may-not-use-reserved-nodes).":                                                 {"pkg/gang.TestAnOldPodGroupIsNoOlderThanItsPods", "pkg/fluence.TestReusedPodGroupsBypassNoLongerThanOthers"},
	"The ready time is not earlier than the creation of the youngest pod that the group needs.":                                                                            {"pkg/gang.TestAnOldPodGroupIsNoOlderThanItsPods", "pkg/fluence.TestReusedPodGroupsBypassNoLongerThanOthers"},
	"For a group that starts again, it is also not earlier than the creation of the youngest pod that ever had a node.":                                                    {"pkg/gang.TestAnOldPodGroupIsNoOlderThanItsPods", "pkg/fluence.TestReusedPodGroupsBypassNoLongerThanOthers"},
	"**Late readiness.** A group can become ready late because of scheduling gates, a missing pod or volume, affinity to a later pod, or a pod that leaves another group.": {"pkg/fluence.TestLateReadyPodsDoNotBypass"},
	"A pod counts from the removal of its gates.": {"pkg/fluence.TestLateReadyPodsDoNotBypass"},
	"A group that became complete after another group began to wait gets none of the nodes that are reserved for the other.":                                                     {"pkg/fluence.TestLateReadyPodsDoNotBypass"},
	"**Pods with `nodeName`** hold their requests, as with kube-scheduler, and count as members that need no node.":                                                              {"pkg/gang.TestAPodThatWasCreatedOnANodeStartsNothing"},
	"They do not start a group, and are not replaced.":                                                                                                                           {"pkg/gang.TestAPodThatWasCreatedOnANodeStartsNothing", "pkg/gang.TestPreplacedPodHasNoPosition", "pkg/fluence.TestPreplacedPodGivesItsGroupNoPrecedence"},
	"A scheduler that has just started counts a pod as bound if a kubelet runs it.":                                                                                              {"pkg/gang.TestAfterARestartABoundMemberMeansTheGroupHasStarted"},
	"**Whole nodes.** An administrator gives the label ([topology.md](topology.md#whole-nodes)).":                                                                                {"pkg/fluence.TestWhoMayHaveWholeNodes", "test/e2e.TestATenantFencesOffNoNodes"},
	"The match decides: later annotations change nothing.":                                                                                                                       {"pkg/fluence.TestAnAnnotationOnPodsThatRunTakesNoNode", "pkg/gang.TestWholeNodesAreSettledByTheMatch", "pkg/gang.TestWholeNodesAfterARestart"},
	"A node on which pods of others run is never exclusive, whoever put a pod there.":                                                                                            {"pkg/fluence.TestAnAnnotationOnPodsThatRunTakesNoNode", "pkg/gang.TestWholeNodesAreSettledByTheMatch", "pkg/gang.TestWholeNodesAfterARestart"},
	"**Reservations** have as many nodes as one group needs, for one group of a namespace and priority at a time.":                                                               {"pkg/fluence.TestAsManyNodesAreReservedAsAGroupNeeds", "pkg/fluence.TestOneGroupOfANamespaceAtATime", "pkg/fluence.TestNodesWithPodsThatNeverEndAreReserved", "pkg/fluence.TestNothingIsReservedForAGroupThatNeedsWhatNeverEnds", "pkg/fluence.TestGroupThatNeverStartsBlocksNobody"},
	"Nodes are reserved only where the group fits, by resources and filters, next to pods that do not end.":                                                                      {"pkg/fluence.TestAsManyNodesAreReservedAsAGroupNeeds", "pkg/fluence.TestOneGroupOfANamespaceAtATime", "pkg/fluence.TestNodesWithPodsThatNeverEndAreReserved", "pkg/fluence.TestNothingIsReservedForAGroupThatNeedsWhatNeverEnds", "pkg/fluence.TestGroupThatNeverStartsBlocksNobody"},
	"A group that cannot use its reserved nodes [loses them](reasons.md#how-long-a-group-may-be-passed).":                                                                        {"pkg/fluence.TestReservationEndsWhenGroupNoLongerWaitsForRoom"},
	"claims of one namespace and priority for 5.5 minutes, then a pause":                                                                                                         {"pkg/fluence.TestTheClaimsOfATurnAreBounded"},
	"`handover` (2 s) for each pod that ends, once in 30 seconds for each namespace and priority":                                                                                {"pkg/fluence.TestLowerPrioritiesGetWhatTheFirstCannotUse", "pkg/fluence.TestHandoversCostLittle"},
	"A tenant has one reservation for each PriorityClass that it may use: bound that with quotas.":                                                                               {"pkg/fluence.TestStarvingGroupsOfTwoPriorities", "test/e2e.TestQuotasApplyToGroups"},
	"**Pauses of reservations.** A reservation pauses after `maxReserve` (4 hours by default) in which no pod of another namespace ended on its nodes.":                          {"pkg/fluence.TestPausesDoubleWithoutProgress", "pkg/fluence.TestNextGroupOfATurnGetsTheRefund", "pkg/fluence.TestAReservationThatDoesNotGetOnPauses", "pkg/fluence.TestStallTimerIsNotReset", "pkg/fluence.TestWhatIsProgress", "pkg/fluence.TestStartOnOtherNodesDoesNotResetTimer", "pkg/fluence.TestStartOnFewNodesRefundsItsShare"},
	"It pauses after a sixteenth of `maxReserve` if only *own pods* are left there and others want the nodes.":                                                                   {"pkg/fluence.TestOwnPodsHoldUpOthersForAShortTime"},
	"Own pods are pods of the group's namespace.":                                                                                                                                {"pkg/fluence.TestOwnPodsHoldUpOthersForAShortTime"},
	"The time is kept for the namespace and priority, and goes on when another group of the namespace gets the reservation ([details](reasons.md#how-long-nodes-are-reserved)).": {"pkg/fluence.TestPausesDoubleWithoutProgress", "pkg/fluence.TestNextGroupOfATurnGetsTheRefund", "pkg/fluence.TestAReservationThatDoesNotGetOnPauses", "pkg/fluence.TestStallTimerIsNotReset", "pkg/fluence.TestWhatIsProgress", "pkg/fluence.TestStartOnOtherNodesDoesNotResetTimer", "pkg/fluence.TestStartOnFewNodesRefundsItsShare"},
	"It does not start again":                                                                                                                         {"pkg/fluence.TestPausesDoubleWithoutProgress", "pkg/fluence.TestNextGroupOfATurnGetsTheRefund", "pkg/fluence.TestAReservationThatDoesNotGetOnPauses", "pkg/fluence.TestStallTimerIsNotReset", "pkg/fluence.TestWhatIsProgress", "pkg/fluence.TestStartOnOtherNodesDoesNotResetTimer", "pkg/fluence.TestStartOnFewNodesRefundsItsShare"},
	"when own pods end on nodes that other namespaces want;":                                                                                          {"pkg/fluence.TestPausesDoubleWithoutProgress", "pkg/fluence.TestNextGroupOfATurnGetsTheRefund", "pkg/fluence.TestAReservationThatDoesNotGetOnPauses", "pkg/fluence.TestStallTimerIsNotReset", "pkg/fluence.TestWhatIsProgress", "pkg/fluence.TestStartOnOtherNodesDoesNotResetTimer", "pkg/fluence.TestStartOnFewNodesRefundsItsShare"},
	"when the reservation moves to other nodes;":                                                                                                      {"pkg/fluence.TestPausesDoubleWithoutProgress", "pkg/fluence.TestNextGroupOfATurnGetsTheRefund", "pkg/fluence.TestAReservationThatDoesNotGetOnPauses", "pkg/fluence.TestStallTimerIsNotReset", "pkg/fluence.TestWhatIsProgress", "pkg/fluence.TestStartOnOtherNodesDoesNotResetTimer", "pkg/fluence.TestStartOnFewNodesRefundsItsShare"},
	"when the group starts elsewhere, on few of the nodes, or beside pods that stay.":                                                                 {"pkg/fluence.TestPausesDoubleWithoutProgress", "pkg/fluence.TestNextGroupOfATurnGetsTheRefund", "pkg/fluence.TestAReservationThatDoesNotGetOnPauses", "pkg/fluence.TestStallTimerIsNotReset", "pkg/fluence.TestWhatIsProgress", "pkg/fluence.TestStartOnOtherNodesDoesNotResetTimer", "pkg/fluence.TestStartOnFewNodesRefundsItsShare"},
	"**Replacements** of lost members may use any node that is not reserved.":                                                                         {"pkg/fluence.TestAMemberIsNotMovedToReservedNodes", "pkg/fluence.TestReplacementsReturnToTheirOwnNodes"},
	"Of the reserved nodes, a replacement may use only the node of the member that it replaces.":                                                      {"pkg/fluence.TestAMemberIsNotMovedToReservedNodes", "pkg/fluence.TestReplacementsReturnToTheirOwnNodes"},
	"If that node is lost too, which the pod itself cannot cause, the replacement may go to any node.":                                                {"pkg/fluence.TestAMemberIsNotMovedToReservedNodes", "pkg/fluence.TestReplacementsReturnToTheirOwnNodes"},
	"These members do not pass a reservation:":                                                                                                        {"pkg/fluence.TestOnlyMissingLateMembersUseReservedNodes", "pkg/fluence.TestReplacementsNeedNotWaitForReservations", "pkg/gang.TestReplacementMustNotDemandMore"},
	"members beyond a group's minimum;":                                                                                                               {"pkg/fluence.TestOnlyMissingLateMembersUseReservedNodes", "pkg/fluence.TestReplacementsNeedNotWaitForReservations", "pkg/gang.TestReplacementMustNotDemandMore"},
	"members that request more than the member that they replace;":                                                                                    {"pkg/fluence.TestOnlyMissingLateMembersUseReservedNodes", "pkg/fluence.TestReplacementsNeedNotWaitForReservations", "pkg/gang.TestReplacementMustNotDemandMore"},
	"members that replace a member that succeeded;":                                                                                                   {"pkg/fluence.TestOnlyMissingLateMembersUseReservedNodes", "pkg/fluence.TestReplacementsNeedNotWaitForReservations", "pkg/gang.TestReplacementMustNotDemandMore"},
	"members that replace a pod which was relabelled into another group and kept its node.":                                                           {"pkg/gang.TestTerminatingMembersOfAPositionAreBounded"},
	"While a member terminates, only one replacement takes precedence.":                                                                               {"pkg/gang.TestTerminatingMembersOfAPositionAreBounded"},
	"**Seats.** Room is held for pods that an owner makes only after others ([seats](policies.md#seats)).":                                            {"pkg/gang.TestAnExpectedPodTakesItsSeat"},
	"The label `fluence.flux-framework.org/expect: none` of a namespace, or the argument `expect`, gives it no seats.":                                {"pkg/fluence.TestWhoGetsSeats", "pkg/group.TestWhyNotExpect"},
	"Seats count against what the namespace's ResourceQuotas leave.":                                                                                  {"pkg/fluence.TestWhoGetsSeats", "pkg/fluence.TestWhatQuotasLeave", "pkg/gang.TestSeatsStayWithinTheQuota"},
	"A namespace wastes seats for at most `expectTotal` (30 minutes), with however many groups.":                                                      {"pkg/fluence.TestAnAuthorOfManyPromisesHoldsRoomOnce"},
	"Then all of them are given back, and its next groups get none for as long, and each further time for twice as long, up to 2 hours.":              {"pkg/gang.TestWastedSeatsAreCharged", "pkg/gang.TestAChargeDoubles"},
	"The room that [`restart-timeout`](groups.md#pods-that-are-made-again) keeps for pods which are made again counts as seats do if it ends unused.": {"pkg/fluence.TestKeptRoomThatIsNotUsedIsCharged"},
	"Quotas do not bound it.":                          {"test/operators.TestAJobSetThatRestartsKeepsItsRoom"},
	"It is kept for no longer than its pods have run.": {"pkg/fluence.TestRoomIsKeptForPodsThatAreMadeAgain"},
	"Seats also count as wasted if a group is deleted in time, or if its pods request less than the seats.":                                                                 {"pkg/gang.TestWastedSeatsAreCharged"},
	"A restart of the scheduler forgets these times, but not the seats that are held.":                                                                                      {"pkg/gang.TestRestoredSeatsAreCharged"},
	"**Look-ups of the webhook.** The webhook looks up at most 50 objects a second, 8 of them at a time, and at most 10 namespaces a second.":                               {"pkg/webhook.TestFindAsksNoMoreThanItMay", "pkg/webhook.TestNamespacesAreAskedForWithinBounds"},
	"No request waits for its turn to read a namespace.":                                                                                                                    {"pkg/webhook.TestFindAsksNoMoreThanItMay", "pkg/webhook.TestNamespacesAreAskedForWithinBounds"},
	"Objects beyond these limits get no labels and no warning, and scheduler and controller find their groups all the same.":                                                {"pkg/webhook.TestFindGivesUpInTime", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"**Kinds that are not served.** The controller asks the API server which kinds it serves at most once in 5 seconds (after a burst of 4), however many kinds are named.": {"pkg/served.TestKindsThatAreNotServedAreAskedForWithinBounds"},
	"Meanwhile kinds that are known are found without waiting, also by the webhook.":                                                                                        {"pkg/served.TestWhatIsKnownIsFoundDuringAQuestion", "pkg/webhook.TestWhoWaitsForAKindHoldsNoPlace"},
	"**References to owners.** A cached result is used only for the same kind, version, namespace, name and UID.":                                                           {"pkg/controller/podgroup.TestAFindingIsOfOneReference"},
	"Cached names that are older than a minute are dropped at the next look-up.":                                                                                            {"pkg/webhook.TestFindForgetsInTime", "pkg/controller/podgroup.TestFindingsAreFewAndSmall"},
	"Tenants can be limited further, before their objects are created: [below](#bounds-by-policy).":                                                                         {"test/chart.TestTenants"},
	"With Fluxion as the matcher only `matchTimeout` limits a request.":                                                                                                     {"pkg/fluence.TestACycleWaitsOnceForTheMatcher"},
	"A group whose match exceeds it twice, while the matcher answers in between, is `TooHard`.":                                                                             {"pkg/fluence.TestSecondTimeoutInARowIsBlamedOnTheGroup"},
	"If a namespace creates such groups anew, the third timeout in ten minutes makes the group `TooHard`, and the namespace is charged for all of them.":                    {"pkg/fluence.TestTimeoutsOfRecreatedGroupsAreBlamedOnTheNamespace"},

	// Bounds by policy.
	"With `tenantPolicy.enabled` the chart installs two ValidatingAdmissionPolicies, which the API server enforces by itself.":              {"test/chart.TestTenants"},
	"One is for pods that ask for Fluence, and for the templates of Jobs, CronJobs, Deployments, ReplicaSets, StatefulSets and DaemonSets.": {"test/chart.TestTenants"},
	"The other is for PodGroups.":                                                             {"test/chart.TestTenants"},
	"namespaces that may use Fluence (`schedulerName`)":                                       {"test/chart.TestTenants"},
	"namespaces that may have whole nodes (`exclusive`, or a `match-policy` that takes them)": {"test/chart.TestTenants", "pkg/fluence.TestWhoMayHaveWholeNodes"},
	"namespaces that may have incomplete groups restarted (`incomplete-policy: restart`)":     {"test/chart.TestTenants"},
	"the size of a group":                                       {"test/chart.TestTenants"},
	"required anti-affinity terms of a pod":                     {"test/chart.TestTenants"},
	"topology spread constraints of a pod with `DoNotSchedule`": {"test/chart.TestTenants"},
	"size of a PodGroup":                                        {"test/chart.TestTenants"},
	"The size of a group is bounded in all these fields: the labels `fluence.group-size` and `fluence.group-min`, `parallelism` (or `completions`, if they are fewer), `replicas`, and `minMember` of a PodGroup.": {"test/chart.TestTenants"},
	"A refusal names field and value:":                                                                               {"test/chart.TestTenants"},
	"With `action: Warn` nothing is refused and users are warned.":                                                   {"test/chart.TestTenants"},
	"With `action: Audit` the violation is only in the audit log.":                                                   {"test/chart.TestAccepted"},
	"Begin with one of these where Fluence is in use.":                                                               {"test/chart.TestTenants"},
	"Objects that exceed a bound already can still be updated, but not made larger.":                                 {"test/chart.TestTenants"},
	"New pods of such objects are refused.":                                                                          {"test/chart.TestTenants"},
	"Whoever may label namespaces can bypass `namespaces`: restrict that right.":                                     {"test/chart.TestTenants"},
	"Objects of other kinds, such as JobSets, are bounded by the Jobs and pods that they create.":                    {"test/chart.TestTenants"},
	"The webhook writes the size of the group on these Jobs and pods.":                                               {"pkg/webhook.TestLabels"},
	"Without the webhook each Job counts alone.":                                                                     {"test/chart.TestTenants"},
	"`kubectl scale` and autoscalers change `replicas` where the policy sees no pod template.":                       {"test/chart.TestTenants"},
	"If a group becomes too large by that, its further pods are refused, by the size label that the webhook writes.": {"test/chart.TestTenants", "pkg/webhook.TestLabels"},
	"The number of pods is not bounded: use a ResourceQuota.":                                                        {"test/e2e.TestQuotasApplyToGroups"},
	"The controller may create any PodGroup, because it only copies sizes from pods and their owners.":               {"test/chart.TestTenants"},
	"PodGroups do not name a scheduler, so `maxGroupSize` also applies to PodGroups of other schedulers.":            {"test/chart.TestTenants"},
}

// promising are the sections whose clauses all need a
// test, and the column of their table with the promise.
var promising = map[string]int{"What users can do": 0, "What listens": 1, "What bounds one tenant's work": 1, "Bounds by policy": 0}

var (
	clauseEnd = regexp.MustCompile(`[.;] `)
	alertName = regexp.MustCompile("`(Fluence[A-Z]\\w+)`")
)

// clauses splits a text after each full stop and semicolon.
func clauses(text string) (all []string) {
	text = strings.Join(strings.Fields(text), " ")
	for text != "" {
		end := len(text)
		if at := clauseEnd.FindStringIndex(text); at != nil {
			end = at[0] + 1
		}
		all = append(all, strings.TrimSpace(text[:end]))
		text = strings.TrimSpace(text[end:])
	}
	return all
}

// promises returns the clauses of a section: of its paragraphs and lists,
// and of the given column of its tables. Examples are no promises.
func promises(section string, column int) (all []string) {
	var running []string
	flush := func() {
		all = append(all, clauses(strings.Join(running, " "))...)
		running = nil
	}
	rows, isExample := 0, false
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		item, isItem := strings.CutPrefix(line, "- ")
		switch {
		case strings.HasPrefix(line, "```"):
			flush()
			isExample = !isExample
		case isExample:
		case strings.HasPrefix(line, "|"):
			flush()
			if rows++; rows > 2 && len(cells) > column { // after the heading and its line
				all = append(all, clauses(cells[column])...)
			}
		case line == "":
			flush()
			rows = 0
		case isItem:
			flush()
			running = []string{item}
		default:
			running = append(running, line)
		}
	}
	flush()
	return all
}

// section returns the text below a heading of a page.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), page))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", page, heading)
	}
	after, _, _ = strings.Cut(after, "\n## ")
	return after
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// tests returns all tests, each as its folder and its name.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, dir := range []string{"cmd", "pkg", "sidecar", "sig-scheduler-plugins", "test"} {
		err := filepath.WalkDir(filepath.Join(root(t), dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			in, err := filepath.Rel(root(t), filepath.Dir(path))
			for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
				all[filepath.ToSlash(in)+"."+m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// unheld returns the promises without a test, the tests that do not exist, and the promises
// that are no longer on the page.
func unheld(said []string, by map[string][]string, there map[string]bool) (wrong []string) {
	for _, promise := range said {
		if len(by[promise]) == 0 {
			wrong = append(wrong, "no test is named that holds: "+promise)
		}
		for _, test := range by[promise] {
			if !there[test] {
				wrong = append(wrong, "there is no test "+test+", which is to hold: "+promise)
			}
		}
	}
	for promise := range by {
		if !slices.Contains(said, promise) {
			wrong = append(wrong, "the page does not say any more: "+promise)
		}
	}
	slices.Sort(wrong)
	return wrong
}

func TestWhatTheSecurityPageSaysIsHeldByTests(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(root(t), "manifests", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for heading, column := range promising {
		text := section(t, "docs/security.md", heading)
		found := promises(text, column)
		if len(found) == 0 {
			t.Errorf("%s promises nothing", heading)
		}
		said = append(said, found...)
		for _, m := range alertName.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(string(rules), "alert: "+m[1]+"\n") {
				t.Errorf("docs/security.md names the alert %s, which there is not", m[1])
			}
		}
	}
	for _, wrong := range unheld(said, heldBy, tests(t)) {
		t.Error(wrong)
	}
}

func TestAPromiseWithoutATestIsFound(t *testing.T) {
	const text = "- One holds. Two:\n  so it is; three\n- Four ([a.md](a.md)).\n\n| who | what | alert |\n|---|---|---|\n| he | five; six | |\n\n```yaml\nseven: 7\n```\n\nEight.\n"
	said := promises(text, 1)
	if want := []string{"One holds.", "Two: so it is;", "three", "Four ([a.md](a.md)).", "five;", "six", "Eight."}; !slices.Equal(said, want) {
		t.Errorf("it promises %q, want %q", said, want)
	}
	got := unheld([]string{"one", "two", "three"}, map[string][]string{"one": {"pkg/a.TestOne"}, "two": {"pkg/a.TestTwo"}, "four": {"pkg/a.TestOne"}}, map[string]bool{"pkg/a.TestOne": true})
	want := []string{"no test is named that holds: three", "the page does not say any more: four", "there is no test pkg/a.TestTwo, which is to hold: two"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
