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

// heldBy names the tests that hold what docs/security.md says, clause by clause, each as the
// folder and the function: a promise that no test holds is no promise.
var heldBy = map[string][]string{
	// Who can do what with it.
	"A user who may create pods may use Fluence.":                                                                                                               {"pkg/webhook.TestHandleAllowsEverything", "test/e2e.TestATenantFencesOffNoNodes"},
	"What a pod asks for is charged as a kubelet charges it;":                                                                                                   {"test/e2e.TestPodsAreChargedWhatAKubeletCharges"},
	"a ResourceQuota applies before, to the pods of a group as to any others.":                                                                                  {"test/e2e.TestQuotasApplyToGroups"},
	"Whole nodes are no amount that a quota counts: only namespaces with a label may ask for them ([topology.md](topology.md#whole-nodes)).":                    {"pkg/fluence.TestWhoMayHaveWholeNodes", "test/e2e.TestATenantFencesOffNoNodes"},
	"Labels and annotations of a pod can only join it to a group of its own namespace.":                                                                         {"test/e2e.TestTheSameNamesInTwoNamespacesNeverMeet"},
	"Groups of two namespaces never meet, whatever their names.":                                                                                                {"test/e2e.TestTheSameNamesInTwoNamespacesNeverMeet"},
	"A PodGroup is an ordinary object: who may edit it may change how its group starts.":                                                                        {"test/e2e.TestMinMemberIsEditedWhileTheGroupWaits", "test/e2e.TestAUsersMinMemberGoesBeforeTheJobs"},
	"Give the verbs on `podgroups` as you give those on Jobs.":                                                                                                  {"test/e2e.TestMinMemberIsEditedWhileTheGroupWaits"},
	"Priority is that of PriorityClasses.":                                                                                                                      {"pkg/fluence.TestQueueIsOrderedByPriorityThenGroup"},
	"A group has the lowest among as many of its pods as it needs.":                                                                                             {"pkg/gang.TestAGroupHasThePriorityOfAllThatItNeeds", "pkg/fluence.TestOnePodOfAHighPriorityLeadsNobody"},
	"Within one priority the order is that of the creation time in the PodGroup's status: give `podgroups/status` to nobody but Fluence.":                       {"pkg/gang.TestRankGoesByPriorityThenCreationThenName"},
	"A group that waits for longer than `maxBypass` has nodes reserved from groups of its own or a lower priority ([reasons.md](reasons.md#whose-turn-it-is)).": {"pkg/fluence.TestSmallGroupsPassALargeOneUntilItsTime", "pkg/fluence.TestWhoIsKeptFromTheRoomOfAnother"},
	"Use quotas on priority classes.":                                                                                                                           {"test/e2e.TestQuotasApplyToGroups"},

	"Who is bound to the ClusterRole `fluence-viewer` everywhere reads the specs of all pods, the values of their environment variables among them.": {"test/e2e.TestAViewerOfANamespaceSeesItsGroups"},
	"Bind it in a namespace, with a RoleBinding, unless he may know that of everybody ([cli.md](cli.md#what-it-may-read)).":                          {"test/e2e.TestAViewerOfANamespaceSeesItsGroups"},

	// What bounds one tenant's work.
	"What a tenant may ask for can be bounded further, before it is created: [below](#bounds-by-policy).": {"test/chart.TestTenants"},
	"Whoever may create pods has Fluence work for him.":                                                   {"test/e2e.TestATenantWhoAsksForTooMuchStopsNobody"},
	"How much of that others feel is bounded:":                                                            {"test/e2e.TestATenantWhoAsksForTooMuchStopsNobody"},
	"the embedded matcher does a fixed amount of work on one request while others wait, and more only beside them, for one request at a time (of a graph that was put node by node, as the scheduler does);": {"pkg/engine.TestAMatchTakesNoMoreWorkThanItMay", "pkg/engine.TestNobodyWaitsForAMatchBesideTheGraph", "pkg/engine.TestAnAnswerSaysHowLongItWaitedForOthers", "pkg/engine.TestRandomWork"},
	"the scheduler looks for nodes of one group for `maxAsk` (250 ms).":                                                      {"pkg/placement/interpod.TestComparingEndsWithTheAllowance", "pkg/fluence.TestDecodeArgs"},
	"who changes it on purpose has it asked for every 10 seconds at most":                                                    {"pkg/gang.TestChangesDoNotMakeAGroupThatIsTooHardAnother"},
	"Beyond that the group is [`TooHard`](reasons.md) and asks ever more rarely, up to every 10 minutes;":                    {"pkg/fluence.TestAGroupThatIsTooHardAsksEverMoreRarely"},
	"what an enquiry takes beyond 20 ms is a debt of the namespace, paid by a tenth of the time that passes.":                {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses"},
	"In debt its groups ask after those of all others, and at most once a second (`Throttled`).":                             {"pkg/fluence.TestADebtIsPaidByTheTimeThatPasses", "pkg/fluence.TestANamespaceInDebtAsksAfterOthers"},
	"past a fifth of the time they ask after groups of other namespaces whose priority is not lower (`Throttled`).":          {"pkg/fluence.TestWhatIsAskedInVainYieldsToOthers", "pkg/fluence.TestOnlyThoseOfNoLowerPriorityAreYieldedTo"},
	"A tenant goes before those of a lower priority than it may use: quotas on PriorityClasses bound that.":                  {"pkg/fluence.TestAQueueIsNotPassedForAskingInVain", "test/e2e.TestQuotasApplyToGroups"},
	"To find out, for that, whether others may ask takes a twentieth of the time at the most":                                {"pkg/fluence.TestToRefuseManyGroupsTakesFewLooks"},
	"in the embedded matcher the call fails alone, and the graph is filled anew if it was being changed.":                    {"sidecar/server.TestAPanicIsTheAnswerToItsCallAlone", "pkg/engine.TestAPanicEndsTheEpoch"},
	"The group says `MatchError` and asks ever more rarely, up to every 10 minutes;":                                         {"pkg/fluence.TestEveryErrorOfAMatchIsARefusal", "pkg/fluence.TestWhatBreaksTheMatcherIsPaidFor"},
	"the namespace owes a minute, so that groups of all others ask first":                                                    {"pkg/fluence.TestWhatBreaksTheMatcherIsPaidFor"},
	"labels count only as far as a selector reads them":                                                                      {"pkg/placement/interpod.TestALabelThatNothingReadsMakesNoShape"},
	"as with kube-scheduler, a ResourceQuota with the scope `CrossNamespacePodAffinity`;":                                    {"test/e2e.TestQuotasApplyToGroups"},
	"what the filters take for such terms is not taken from a group's time, and nobody owes it;":                             {"pkg/fluence.TestWhatTheFiltersTakeForOthersIsNotTheGroups", "pkg/fluence.TestRunsForOthersThatTakeLittleEachAreNotTheGroups", "pkg/placement.TestWhatAPodThatEndsHasReadIsItsNamespaces"},
	"a group of several kinds of pods ends its enquiry past `maxAsk` of that, and asks again after a while, up to a minute.": {"pkg/fluence.TestManyKindsOfPodsDoNotHoldUpTheLoopForOthers"},
	"What they take for the terms of pods of its own namespace is the group's":                                               {"pkg/fluence.TestManyKindsOfPodsDoNotHoldUpTheLoopForOthers", "pkg/placement.TestTheShareOfOthersInWhatFiltersRead"},
	"the scheduling loop does not wait for their statuses to be written;":                                                    {"pkg/fluence.TestStatusesOfPodsAreWrittenBesideTheLoop"},
	"namespaces take turns at that;":                                                                                                                            {"pkg/report.TestNamespacesTakeTurnsToBeTold"},
	"of one pod only the last words are written, and these until they stand there":                                                                              {"pkg/fluence.TestStatusesOfPodsAreWrittenBesideTheLoop", "pkg/report.TestLastWordsOutlastAWatchThatLags", "pkg/report.TestLastWordsOutlastAnAPIServerThatIsAway"},
	"However many they are, one of them comes back into the queue at a time.":                                                                                   {"pkg/gang.TestThoseWhoWereToldWhenToAskAgainComeOneByOne"},
	"PodGroups are made, and conditions written, for namespaces in turn":                                                                                        {"pkg/controller/podgroup.TestNobodyWaitsForTheGroupsOfAnotherNamespace", "pkg/report.TestNobodyWaitsForTheNewsOfAnotherNamespace"},
	"where nodes are reserved, a group is no older than the pods that it needs, nor than any that had a node in an earlier life of it":                          {"pkg/gang.TestAnOldPodGroupIsNoOlderThanItsPods", "pkg/fluence.TestOldPodGroupsThatAreUsedAgainPassNoLonger"},
	"A member on its way out is replaced once before it is gone, and one that went to another group with its room is not.":                                      {"pkg/gang.TestWhoKeepsItsRoomIsReplacedOnce"},
	"it makes at most 16 kinds more of another group's pods;":                                                                                                   {"pkg/placement/interpod.TestPodsOfOthersDoNotMakeAGroupHard"},
	"such a pod does not say what becomes of the others when members are lost":                                                                                  {"pkg/controller/podgroup.TestWhoSpeaksForAGroup"},
	"only in namespaces with a label, which the administrator gives ([topology.md](topology.md#whole-nodes));":                                                  {"pkg/fluence.TestWhoMayHaveWholeNodes", "test/e2e.TestATenantFencesOffNoNodes"},
	"settled by the match: later annotations change nothing, and a node on which others are is nobody's, whoever put a pod there":                               {"pkg/fluence.TestAnAnnotationOnPodsThatRunTakesNoNode", "pkg/gang.TestWholeNodesAreSettledByTheMatch", "pkg/gang.TestWholeNodesAfterARestart"},
	"as many nodes as one group needs, for one group of a namespace and priority at a time, where it fits beside what does not end, by amounts and by filters;": {"pkg/fluence.TestAsManyNodesAreReservedAsAGroupNeeds", "pkg/fluence.TestOneGroupOfANamespaceAtATime", "pkg/fluence.TestNodesAreReservedBesideWhatNeverEnds", "pkg/fluence.TestNothingIsReservedForAGroupThatNeedsWhatNeverEnds", "pkg/fluence.TestAGroupThatNeverStartsFencesOffNothing"},
	"who is refused something else gives them back.":                                                                                                            {"pkg/fluence.TestWhoCannotUseReservedNodesGivesThemBack"},
	"After `maxReserve` in which nothing of others ends there it pauses, whatever group it is for by then: neither own pods that end, nor groups that start elsewhere, on few of the nodes or beside pods that stay, nor other nodes renew that.": {"pkg/fluence.TestPausesBecomeLongerWhileNothingGetsNearer", "pkg/fluence.TestTheNextOfATurnHasItsOwnTime", "pkg/fluence.TestAReservationThatDoesNotGetOnPauses", "pkg/fluence.TestAReservationIsNotRenewed", "pkg/fluence.TestWhatIsProgress", "pkg/fluence.TestAStartElsewhereForgetsNoClock", "pkg/fluence.TestASmallStartForgetsLittleOfTheClock"},
	"a namespace that may not ask is held before they read its pod, and it pays for what they took, up to a minute":                                                                                                                               {"pkg/fluence.TestWhatOtherPluginsTakeIsPaidFor", "pkg/fluence.TestWhatOtherPluginsTakeForOthersIsNotPaidFor"},
	"a pod is no older than when its gates went, and a group that became complete later than another waits has none of the nodes that are reserved for that":                                                                                      {"pkg/fluence.TestWhatBecomesReadyLatePassesNobody"},
	"who replaces what was lost goes back to that node, or waits, unless the node is lost, too, which the pod itself cannot make it.":                                                                                                             {"pkg/fluence.TestAMemberIsNotMovedToReservedNodes", "pkg/fluence.TestALostNodeFreesNoOtherMember"},
	"Members beyond a group's minimum do not pass it, nor do those that ask for more than what they replace, or replace what succeeded;":                                                                                                          {"pkg/fluence.TestOfLateMembersOnlyThoseThatAreLackingPass", "pkg/fluence.TestWhatAGroupLacksWaitsForNobody", "pkg/gang.TestOnlyWhoAsksForNoMoreTakesThePlaceOfAnother"},
	"A tenant has one such set for each PriorityClass that it may use: quotas bound these":                                                                                                                                                        {"pkg/fluence.TestTwoHeadsOfDifferentPriorities", "test/e2e.TestQuotasApplyToGroups"},
	"they hold what they ask for, as with kube-scheduler, and stand for members of their group that need no node;":                                                                                                                                {"pkg/gang.TestAPodThatWasCreatedOnANodeStartsNothing"},
	"they do not start it, and nobody replaces them.":                                                                  {"pkg/gang.TestAPodThatWasCreatedOnANodeStartsNothing", "pkg/gang.TestAPodThatWasCreatedOnANodeHasNoPlace", "pkg/fluence.TestAPodThatIsCreatedOnANodeOpensNoWay"},
	"A scheduler that has just started takes those that a kubelet runs for bound":                                      {"pkg/gang.TestAfterARestartABoundMemberMeansTheGroupHasStarted"},
	"8 questions at a time and 50 a second, and for namespaces 10 a second, for which nobody waits;":                   {"pkg/webhook.TestFindAsksNoMoreThanItMay", "pkg/webhook.TestNamespacesAreAskedForWithinBounds"},
	"what is created past that has no labels and no warning, and scheduler and controller find its group all the same": {"pkg/webhook.TestFindGivesUpInTime", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"the controller asks what is served once in 5 seconds, after 4 times at once, whatever kinds are named;":           {"pkg/served.TestKindsThatAreNotServedAreAskedForWithinBounds"},
	"what has been seen served is found meanwhile without waiting, also by the webhook":                                {"pkg/served.TestWhatIsKnownIsFoundDuringAQuestion", "pkg/webhook.TestWhoWaitsForAKindHoldsNoPlace"},
	"what is found out for such a reference counts for no other":                                                       {"pkg/controller/podgroup.TestAFindingIsOfOneReference"},
	"the webhook and the controller look up none that cannot exist;":                                                   {"pkg/webhook.TestFindRemembersNothingThatCannotExist", "pkg/controller/podgroup.TestFindingsAreFewAndSmall"},
	"what they remember of others goes within a minute once more is asked":                                             {"pkg/webhook.TestFindForgetsInTime", "pkg/controller/podgroup.TestFindingsAreFewAndSmall"},
	"messages count what is of other namespaces, and name nothing there (`tellNames`)":                                 {"pkg/fluence.TestWhatIsOfAnotherNamespaceIsNotNamed"},
	"Over the real Fluxion a request is bounded by `matchTimeout` alone.":                                              {"pkg/fluence.TestACycleWaitsOnceForTheMatcher"},
	"A group whose match passes it twice, while the matcher answers in between, is `TooHard`;":                         {"pkg/fluence.TestTheSecondTimeoutInARowIsTheGroups"},
	"of groups that are made anew the third in ten minutes is, and their namespace pays for all of them.":              {"pkg/fluence.TestTimeoutsOfGroupsThatAreMadeAnewAreTheirNamespaces"},

	// What listens.
	"a unix socket, mode 0600;":               {"cmd/sidecar.TestTheSidecarServesUntilItIsTold"},
	"TCP only on loopback or with mutual TLS": {"sidecar/endpoint.TestParse", "cmd/sidecar.TestMutualTLS"},
	"nowhere;":                          {"test/chart.TestGolden"},
	"its scheduler serves its metrics.": {"test/e2e.TestMetricsOfLibrariesAreServed", "test/chart.TestInstalled"},
	"Used alone with `--metrics-listen`: there, without authentication": {"cmd/sidecar.TestMetrics"},
	"as kube-scheduler: 10259, HTTPS, authenticated":                    {"cmd/scheduler.TestCommandIsKubeSchedulerWithoutEarlyNominations", "test/chart.TestGolden"},
	"8081": {"test/chart.TestGolden", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"9443, TLS with a certificate that it makes and renews": {"pkg/webhook.TestManifests", "pkg/webhook.TestCertificateIsRenewedInTime", "pkg/webhook.TestOnARealAPIServer"},
	"127.0.0.1:8443;": {"test/chart.TestGolden"},
	"with `metrics.enabled` of the chart on all addresses, where `networkPolicy.metricsFrom` says who may connect: HTTPS, with a certificate that it makes at each start, for who may `get` the URL `/metrics`": {"test/chart.TestRefused", "test/chart.TestInstalled", "cmd/controller.TestProgramOutlivesAMissingAndAnOldCRD"},
	"Whoever reaches a sidecar owns its graph.": {"cmd/sidecar.TestGraphsAreServedAndCounted"},
	"Mutual TLS asks no client for its name: each one with a certificate of an authority in `--tls-client-ca` is let in.":             {"sidecar/endpoint.TestBothSidesProveWhoTheyAre"},
	"Make an authority for this alone, and never take the cluster's.":                                                                 {"sidecar/endpoint.TestBothSidesProveWhoTheyAre"},
	"TCP on loopback asks nobody for anything: all containers of the pod reach it, and with `hostNetwork` all processes of the node.": {"sidecar/endpoint.TestParse"},
	"Use a unix socket, as the chart does.": {"test/chart.TestTheSocketIsShared"},
	"The webhook is scoped to pods that name the scheduler and to what makes them, and fails open: if it does not answer, creation goes on without labels, and nothing is missed.": {"pkg/webhook.TestManifests", "test/e2e.TestTheWebhookLeavesOthersAlone", "test/e2e.TestAllIsTheSameWithoutTheWebhook"},
	"Who sets `webhook.failurePolicy` of the chart to `Fail` chooses otherwise for them.":                                                                                          {"test/chart.TestGolden"},
	"The alert `FluenceWebhookFailsOpen` tells of a webhook that does not answer.":                                                                                                 {"test/monitoring.TestEachAlertSpeaksWhenItShould"},
	"Who may write the ConfigMap `fluence-status` can have a leader whose sidecar is silent give up its lease, or keep it;":                                                        {"pkg/fluence.TestALeaderWithASilentMatcherHandsOverOnce", "pkg/fluence.TestALeaderKeepsItsLease"},
	"never one whose sidecar answers.": {"pkg/fluence.TestALeaderKeepsItsLease", "pkg/statusmap.TestMayHandOver"},

	// Bounds by policy.
	"With `tenantPolicy.enabled` the chart installs two ValidatingAdmissionPolicies, which the API server keeps by itself: one for pods that ask for Fluence and for the templates of Jobs, CronJobs, Deployments, ReplicaSets, StatefulSets and DaemonSets, and one for PodGroups.": {"test/chart.TestTenants"},
	"which namespaces may ask for Fluence (`schedulerName`)":                                                                                                                             {"test/chart.TestTenants"},
	"which namespaces may ask for whole nodes (`exclusive`, or a `match-policy` that takes them)":                                                                                        {"test/chart.TestTenants", "pkg/fluence.TestWhoMayHaveWholeNodes"},
	"which namespaces may have groups restarted that lost members (`incomplete-policy: restart`)":                                                                                        {"test/chart.TestTenants"},
	"how large a group may say that it is: `fluence.group-size` and `fluence.group-min`, `parallelism` (or `completions`, if they are fewer), `replicas`, and `minMember` of a PodGroup": {"test/chart.TestTenants"},
	"how many required anti-affinity terms a pod may have":                                                                                                                               {"test/chart.TestTenants"},
	"how many topology spread constraints with `DoNotSchedule` a pod may have":                                                                                                           {"test/chart.TestTenants"},
	"A refusal names field and value:":                                                                                                                                                   {"test/chart.TestTenants"},
	"With `action: Warn` nothing is refused and users are warned;":                                                                                                                       {"test/chart.TestTenants"},
	"`Audit` notes it in the audit log alone.":                                                                                                                                           {"test/chart.TestAccepted"},
	"Begin with one of these where Fluence is in use: an object that is there already may be updated as long as it gets no worse, but pods that it makes from then on are refused.": {"test/chart.TestTenants"},
	"A namespace that `namespaces` selects by a label is as safe as the right to label namespaces.":                                                                                 {"test/chart.TestTenants"},
	"Objects of other kinds, such as JobSets, are bounded by the Jobs and pods that they make.":                                                                                     {"test/chart.TestTenants"},
	"The webhook writes the size of their group on these;":                                                                                                                          {"pkg/webhook.TestLabels"},
	"without it each Job counts alone.":                                                                      {"test/chart.TestTenants"},
	"`kubectl scale` and autoscalers change `replicas` without a look at the template.":                      {"test/chart.TestTenants"},
	"Of a group that becomes too large by that no further pod is made, by the size that the webhook writes.": {"test/chart.TestTenants", "pkg/webhook.TestLabels"},
	"How many pods there are is not bounded: that is for a ResourceQuota.":                                   {"test/e2e.TestQuotasApplyToGroups"},
	"The controller may make any PodGroup: it says again what pods and their makers say.":                    {"test/chart.TestTenants"},
	"PodGroups name no scheduler, so `maxGroupSize` goes for those of other schedulers, too.":                {"test/chart.TestTenants"},
}

// promising are the sections of which each clause has a test, and which column of their table
// says what holds.
var promising = map[string]int{"Who can do what with it": 0, "What listens": 1, "What bounds one tenant's work": 1, "Bounds by policy": 0}

var (
	clauseEnd = regexp.MustCompile(`[.;] `)
	alertName = regexp.MustCompile("`(Fluence[A-Z]\\w+)`")
)

// clauses parts a text behind each full stop and semicolon.
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

// promises are the clauses of a section: those of its paragraphs and lists, and of its
// tables those in the column that says what holds. Examples promise nothing.
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
			if rows++; rows > 2 && len(cells) > column { // behind the heading and its line
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

// section is what stands below a heading of a page.
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

// tests are those that there are, each as its folder and its name.
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

// unheld says which promises have no test, which tests there are not, and of which promises
// the page says nothing any more.
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
