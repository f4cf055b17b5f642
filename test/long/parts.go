package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A part is something that is run in full.
type part struct {
	name string
	// count is its number of units.
	count int
	unit  string
	// command is run by bash in the repository's root. COUNT, SEED and DIR
	// are replaced by the count, the seed and the folder for kept output.
	command string
}

// parts returns all parts. The quick ones come first,
// and parts of the same kind are next to each other.
func parts() []part {
	return []part{
		trials("pods-of-groups", 30_000, "pkg/controller/podgroup", "TestTheIndexHasWhatThereIs"),
		trials("handovers", 400, "pkg/fluence", "TestTheFirstInOrderGetsWhatAJobLeaves"),
		trials("rivals", 1_000, "pkg/fluence", "TestEvictionsComeToAnEnd"),
		trials("queues", 10_000, "pkg/queue", "TestTheCoreDecidesAsTheModel"),
		trials("queues-with-limits", 10_000, "pkg/queue", "TestNoLimitIsExceeded"),
		trials("queues-interrupted", 10_000, "pkg/queue", "TestPassesThatAreInterruptedForgetNobody"),
		trials("queues-in-every-order", 100_000, "pkg/queue/model", "TestTheModelIsTheBestOfEveryOrder"),
		trials("seats", 30_000, "pkg/gang", "TestAssignmentsEqualUnreleasedSlots"),
		trials("bands", 100_000, "pkg/placement/interpod", "TestCountRangesEqualReachableCounts"),
		trials("bookings", 3_000, "pkg/planner", "TestRandomBookingsOfAPlan"),
		trials("bookings-of-many", 100_000, "pkg/planner", "TestRandomBookingsOfAMulti"),
		trials("rebuilt", 20_000, "pkg/traverser", "TestJobsRoundTrip"),
		trials("released", 20_000, "pkg/traverser", "TestReleaseLeavesNoTrace"),
		trials("replaced-by-vertex", 20_000, "pkg/traverser", "TestReplacedSlotsAreAsReleasedOnes"),
		trials("grown", 10_000, "pkg/traverser", "TestGrowthWhileHeld"),
		trials("jobs-by-vertex", 1_000_000, "pkg/traverser", "TestManyJobsLeaveNoBooking"),
		trials("jobs", 1_000_000, "pkg/engine", "TestManyJobsLeaveNothing"),
		trials("series", 30_000, "pkg/engine", "TestRandomSeries"),
		trials("series-over-time", 15_000, "pkg/engine", "TestRandomSeriesOverTime"),
		trials("replaced", 20_000, "pkg/engine", "TestReplacedSlotsAreAsReleasedOnes"),
		trials("verdicts", 500_000, "pkg/engine", "TestAgainstBruteForce"),
		trials("layouts", 100_000, "pkg/engine", "TestTopologyAgainstEveryLayout"),
		trials("displaced", 10_000, "pkg/engine", "TestDisplacedUnitsDoTheLeastHarm"),
		trials("truth", 500_000, "pkg/engine", "TestAgainstReferenceSearch"),
		trials("planted", 100_000, "pkg/engine", "TestPlanted"),
		trials("planted-large", 1_000, "pkg/engine", "TestLargeRequestsAreSearchedFor"),
		trials("searched-twice", 20_000, "pkg/engine", "TestSearchesAreTheSameForTheSameRequest"),
		trials("branch-and-bound", 2_000_000, "pkg/engine/solver", "TestBranchAndBoundAndDualBoundsAreRight"),
		trials("differential", 100_000, "pkg/engine", "TestDifferential"),
		trials("drawn-cases", 20_000, "test/golden", "TestRandomGetsAnswersOfAllKinds"),
		trials("fluxion", 500, "sidecar/fluxion", "TestWhatTheLibraryHoldsIsWhatIsHeld"),
		trials("inventory", 1_000, "pkg/inventory", "TestTheEngineEqualsTheClusterWhateverHappens"),
		trials("audit", 200, "pkg/inventory", "TestNothingIsFoundInHealthHoweverSlow"),
		trials("rehearsal", 2_000, "pkg/simulate", "TestARehearsalAgreesWithTheScheduler"),
		trials("simulate", 400, "test/e2e", "TestSimulateAndWhyAgreeWithWhatTheSchedulerThenDoes"),
		trials("victims", 100, "test/e2e", "TestTheVictimsThatAreNamedBeforehandAreThoseThatAreEvicted"),
		trials("moments", 500, "test/e2e", "TestWhatTheCommandShowsIsWhatThePodsShowAtAnyMoment"),
		trials("queue", 2_000, "pkg/simulate", "TestQueueIsTheOrderInWhichTheSchedulerAsks"),
		trials("queue-of-a-cluster", 40, "test/e2e", "TestGroupsAreListedInTheOrderInWhichTheSchedulerAsks"),
		{"fuzz", 5, "minutes for each parser", "make fuzz FUZZTIME=COUNTm"},
		fuzz("fuzz-work", "pkg/engine", "FuzzWork"),
		fuzz("fuzz-attempt", "pkg/fluence", "FuzzAttempt"),
		{"race", 1, "run", "make race SHORT= RACED='./cmd/... ./pkg/... ./sidecar/... ./sig-scheduler-plugins/...'"},
		{"thousand", 1000, "groups", "go test -count=1 -timeout=1h ./test/e2e -run='^TestNothingIsLeftOfABurstOfGroups$' -burst.groups=COUNT -burst.seed=SEED"},
		trials("handovers-of-jobs", 100, "test/e2e", "TestTheHigherPriorityGetsTheNodesOfAJobThatEnds"),
		trials("handovers-in-order", 100, "test/e2e", "TestTheNodesOfADeletedJobGoToGroupsInTheirOrder"),
		trials("kills", 200, "test/e2e", "TestKillsAtAnyMomentLoseAndLeakNothing"),
		trials("kills-during-evictions", 200, "test/e2e", "TestKillsDuringAnEvictionLeaveNothingInHalves"),
		trials("kills-during-promises", 200, "test/e2e", "TestKillsDuringAPromiseLoseAndLeakNothing"),
		trials("kills-among-queues", 200, "test/e2e", "TestKillsOnTheWayOfAQueuedJobLoseAndLeakNothing"),
		trials("promises-kept", 10_000, "pkg/fluence", "TestPromisesAreKeptInOrderlyStreams"),
		trials("promises-moved", 10_000, "pkg/fluence", "TestPromisesMoveForAReason"),
		{"backfill", 5000, "jobs", "go test -count=1 -timeout=3h ./pkg/fluence -run='^TestBackfillUsesMore$' -trace.jobs=COUNT -v"},
		trials("kills-among-seats", 50, "test/e2e", "TestSeatsOutliveKills"),
		{"native-groups", 100, "groups of each kind", "go test -count=1 -timeout=2h ./test/e2e -run='^TestNativePodGroupsBesideOthers$' -native.groups=COUNT -native.refused=500"},
		{"load", 500, "Jobs", "go test -count=1 -timeout=2h ./test/e2e -run='^(TestManyJobsAtOnceStartEachAsAWhole|TestTheSchedulerIsKilledInTheMiddleOfManyBinds|TestNoBindIsToANodeThatOthersFilled)$' -load.jobs=COUNT"},
		{"refused", 60, "seconds", "go test -count=1 -timeout=1h ./test/e2e -run='^TestTheAPIServerRefusesWhatFluenceAsks$' -load.refused=COUNTs"},
		{"controller-jobs", 500, "Jobs", "go test -count=1 -timeout=1h ./pkg/controller/podgroup -run='^TestManyJobsAtOnce$' -jobs=COUNT"},
		{"operators", 7, "stories of Kueue, Trainer, training operator, KubeRay and MPI operator", "go test -count=1 -timeout=1h ./test/operators -run='^(TestAJobThroughAQueueOfKueue|TestATrainJobStartsAsAWhole|TestAPyTorchJobStartsAsAWhole|TestTheExamplesOfRayFitTheirSchemas|TestAnMPIJobWhosePodGroupItsOperatorMakes|TestOwnersMakeRoomAndComeBack|TestPodsThatAreDeletedCountAsFailed)$' -operators.long"},
		{"operators-beside-native", 1, "run", "go test -count=1 -timeout=1h ./test/operators -run='^(TestAJobSetStartsAsAWhole|TestAJobSetThatRestartsKeepsItsRoom|TestUnitsOfALeaderWorkerSet|TestAnMPIJobStartsAsAWhole|TestOneOfTwo)$' -operators.native"},
		{"chaos-of-kills", 2000, "events", "make chaos EVENTS=COUNT SEED=SEED CHAOS=--weights=kill=2000"},
		{"chaos", 10_000, "events", "make chaos EVENTS=COUNT SEED=SEED CHAOS=--queues=no"},
		{"chaos-of-queues", 10_000, "events", "make chaos EVENTS=COUNT SEED=SEED CHAOS=--queues=yes"},
		row("gangs-8"), row("gangs-250"), row("alone"), row("backlog-20000"), row("nodes-5000"),
		row("ceiling"), row("urgent"), row("lone"),
	}
}

// trials returns a part that runs a random test with more trials than usual.
func trials(name string, count int, pkg, test string) part {
	return part{name, count, "trials", fmt.Sprintf("go test -count=1 -timeout=12h ./%s -run='^%s$' -trials=COUNT -seed=SEED", pkg, test)}
}

// fuzz returns a part that runs a fuzz target of the cost
// of groups. Costly groups are rarely found in minutes.
func fuzz(name, pkg, target string) part {
	return part{name, 60, "minutes", fmt.Sprintf("go test -fuzztime=COUNTm -fuzzminimizetime=1x ./%s -fuzz='^%s$' -run='^$'", pkg, target)}
}

// row returns a part that runs a row of the cluster benchmark. All rows
// write to one file, in which goals find the results of other rows.
func row(name string) part {
	return part{name, 1, "run", "make bench-cluster BENCH=" + name + " BENCHFLAGS='-strict -out=DIR/bench.jsonl'"}
}

// keeps reports whether the part's output is kept even if it passes.
func (p part) keeps() bool { return strings.Contains(p.command, "=DIR") }

// what returns a short description of the part.
func (p part) what(seed uint64) string {
	text := fmt.Sprintf("%d %s", p.count, p.unit)
	if strings.Contains(p.command, "SEED") {
		text += fmt.Sprintf(", seed %d", seed)
	}
	return text
}

// filledIn returns the command with its count, its seed and the folder for kept output.
func (p part) filledIn(seed uint64, dir string) string {
	return strings.NewReplacer("COUNT", strconv.Itoa(p.count), "=SEED", fmt.Sprintf("=%d", seed), "=DIR", "="+dir).Replace(p.command)
}
