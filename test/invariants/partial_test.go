package invariants

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// two adds a group of two pods that wait, and nodes with room.
func two(s *script) *script {
	return s.node("n", 8).group("g", 2, refusal()).pod("a", "g").pod("b", "g")
}

// running adds a group of two pods that run.
func running(s *script) *script {
	return two(s).bind("a", "n").bind("b", "n").group("g", 2, placed())
}

// loses adds the group of running. Then pod a goes and its replacement waits.
func loses(s *script, edit ...func(*groupFact)) *script {
	return running(s).after(time.Second).remove("a").pod("a2", "g").group("g", 2, append(edit, refusal())...)
}

func native(g *groupFact) { g.native = true }

var partialGang = []broke{{RulePartialGang, "ns/g"}}

// State 2, 3 and 9, and flow 17 of the lessons of earlier systems: no gang
// is partial, and what happens to one member does not affect the others.
func TestPartialGang(t *testing.T) {
	run(t, map[string]tale{
		"half of a gang is bound and nothing follows": {
			tell: func(s *script) { two(s).bind("a", "n").after(11 * time.Second) },
			want: partialGang,
		},
		"the other half follows within seconds": {
			tell: func(s *script) {
				two(s).bind("a", "n").after(9*time.Second).bind("b", "n").group("g", 2, placed()).after(2 * time.Minute)
			},
		},
		"the other half follows too late": {
			tell: func(s *script) {
				two(s).bind("a", "n").after(11*time.Second).bind("b", "n").group("g", 2, placed()).after(2 * time.Minute)
			},
			want: partialGang,
		},
		"half is bound, and nothing follows for ever": {
			tell: func(s *script) { two(s).bind("a", "n").after(time.Hour) },
			want: partialGang,
		},
		"half of a native gang is bound and nothing follows": {
			tell: func(s *script) { two(s).group("g", 2, native, refusal()).bind("a", "n").after(11 * time.Second) },
			want: partialGang,
		},
		"a native gang lacks a pod for ever, and no condition says so": {
			tell: func(s *script) { loses(s, native).after(time.Hour) },
		},
		"a pod is gone, and then the StatefulSet, whose other pod the garbage collector has not deleted": {
			tell: func(s *script) { ofSet(s).after(time.Second).remove("a").disown().after(goneWithin) },
		},
		"a pod is gone, and then the StatefulSet, whose other pod nobody deletes": {
			tell: func(s *script) { ofSet(s).after(time.Second).remove("a").disown().after(time.Hour) }, want: []broke{{RulePartialGang, "ns/g"}},
		},
		"a pod of a StatefulSet is gone, and no condition says so": {
			tell: func(s *script) { ofSet(s).after(time.Second).remove("a").after(time.Hour) },
			want: partialGang,
		},
		"half is bound, and within seconds after an excuse the rest": {
			tell: func(s *script) {
				end := two(s).bind("a", "n").after(time.Second).excuse()
				s.after(30 * time.Second)
				end()
				s.after(8*time.Second).bind("b", "n").group("g", 2, placed()).after(2 * time.Minute)
			},
		},
		"half is bound, and long after an excuse the rest": {
			tell: func(s *script) {
				end := two(s).bind("a", "n").after(time.Second).excuse()
				s.after(30 * time.Second)
				end()
				s.after(10*time.Second).bind("b", "n").group("g", 2, placed()).after(2 * time.Minute)
			},
			want: partialGang,
		},
		"half is bound, and much later something is disturbed": {
			tell: func(s *script) {
				end := two(s).bind("a", "n").after(12 * time.Second).excuse()
				s.after(100 * time.Millisecond)
				end()
				s.after(20*time.Second).bind("b", "n").group("g", 2, placed()).after(2 * time.Minute)
			},
			want: partialGang,
		},
		"half is bound, a node closes, and it says why the rest has none": {
			tell: func(s *script) {
				two(s).node("m", 8).bind("a", "n").node("m", 8, cordoned).group("g", 2, because("NoRoom", "needs 1 pod")).after(testTimeout).
					group("g", 2, lacking("True")).after(3 * time.Hour)
			},
		},
		"half is bound, others take the room, and it says why the rest has none": {
			tell: func(s *script) {
				two(s).bind("a", "n").pod("f", "", foreign).bindBy("elsewhere", "f", "n").group("g", 2, because("NoRoom", "needs 1 pod")).
					after(testTimeout).group("g", 2, lacking("True")).after(time.Hour)
			},
		},
		"half is bound, a node closes, and it says what it said before": {
			tell: func(s *script) { two(s).node("m", 8).bind("a", "n").node("m", 8, cordoned).after(11 * time.Second) },
			want: partialGang,
		},
		"half is bound, a node closes, and it waits for its binds": {
			tell: func(s *script) {
				two(s).node("m", 8).bind("a", "n").node("m", 8, cordoned).group("g", 2, because("Binding", "1 of 2 pods")).after(11 * time.Second)
			},
			want: partialGang,
		},
		"half is bound, a node closes, and the matcher does not answer": {
			tell: func(s *script) {
				two(s).node("m", 8).bind("a", "n").node("m", 8, cordoned).group("g", 2, because("MatcherUnavailable", "x")).after(11*time.Second).group("g", 2, refusal())
			},
			want: partialGang,
		},
		"half is bound, and it says why the rest has none though no node changed": {
			tell: func(s *script) {
				two(s).after(time.Minute).bind("a", "n").group("g", 2, because("NoRoom", "needs 1 pod")).after(11 * time.Second)
			},
			want: partialGang,
		},
		"a member is deleted while the others are bound": {
			tell: func(s *script) { two(s).remove("b").bind("a", "n").pod("b2", "g").after(testTimeout) },
		},
		"a member succeeds before its sibling is bound": {
			tell: func(s *script) {
				two(s).bind("a", "n").edit("a", phase(corev1.PodSucceeded)).bind("b", "n").group("g", 2, placed()).after(time.Hour)
			},
		},
		"minMember is raised between the binds": {
			tell: func(s *script) {
				two(s).pod("c", "g").bind("a", "n").group("g", 3).bind("b", "n").after(testTimeout)
			},
		},
		"minMember is raised after all run": {
			tell: func(s *script) { running(s).group("g", 4).pod("c", "g").pod("d", "g").after(time.Hour) },
		},
		"minMember is lowered to what runs": {
			tell: func(s *script) { loses(s).group("g", 1, placed()).after(time.Hour) },
		},
		"members beyond the minimum wait": {
			tell: func(s *script) { running(s).pod("c", "g").pod("d", "g").after(time.Hour) },
		},
		"a member is lost and replaced in time": {
			tell: func(s *script) { loses(s).after(testTimeout).bind("a2", "n").group("g", 2, placed()).after(time.Hour) },
		},
		"a member is lost and nobody says so": {
			tell: func(s *script) { loses(s).after(testTimeout + testSlack + time.Second) },
			want: partialGang,
		},
		"a member fails on its node and nobody says so": {
			tell: func(s *script) {
				running(s).edit("a", phase(corev1.PodFailed)).pod("a2", "g").group("g", 2, refusal()).after(testTimeout + testSlack + time.Second)
			},
			want: partialGang,
		},
		"a member terminates for ever and nobody says so": {
			tell: func(s *script) { running(s).edit("a", deleting).after(testTimeout + testSlack + time.Second) },
			want: partialGang,
		},
		"a member is lost and the group is told to be incomplete": {
			tell: func(s *script) {
				loses(s).after(testTimeout+testSlack/2).group("g", 2, lacking("True")).after(time.Hour)
			},
		},
		"its annotation gives it longer": {
			tell: func(s *script) {
				loses(s, func(g *groupFact) { g.timeout = "10m" }).after(9*time.Minute).bind("a2", "n").group("g", 2, placed()).after(time.Hour)
			},
		},
		"its annotation gives it less": {
			tell: func(s *script) {
				loses(s, func(g *groupFact) { g.timeout = "2s" }).after(2*time.Second + testSlack + time.Second)
			},
			want: partialGang,
		},
		"its annotation cannot be read": {
			tell: func(s *script) { loses(s, func(g *groupFact) { g.timeout = "soon" }).after(testTimeout) },
		},
		"an excuse lasts while it is incomplete": {
			tell: func(s *script) {
				end := loses(s).excuse()
				s.after(time.Hour)
				end()
				s.after(testTimeout).group("g", 2, lacking("True")).after(time.Hour)
			},
		},
		"another controller begins to count anew": {
			tell: func(s *script) {
				s.seeLease("one", s.seen())
				loses(s).after(testTimeout).seeLease("two", s.seen())
				s.after(testTimeout).group("g", 2, lacking("True")).after(time.Hour)
			},
		},
		"all are lost, and the next start in part": {
			tell: func(s *script) {
				running(s).remove("a").remove("b").group("g", 2, refusal()).after(time.Minute).pod("c", "g").pod("d", "g").
					after(10*time.Second).bind("c", "n").after(20 * time.Second)
			},
			want: partialGang,
		},
		"policy restart evicts what is left": {
			tell: func(s *script) {
				loses(s, restart).after(testTimeout).group("g", 2, lacking("True")).after(time.Second).
					evict("b").edit("b", deleting).remove("b").group("g", 2, lacking("False")).after(time.Hour)
			},
		},
		"policy restart evicts nobody": {
			tell: func(s *script) {
				loses(s, restart).after(testTimeout).group("g", 2, lacking("True")).after(time.Hour)
			},
			want: partialGang,
		},
		"policy restart evicts nobody, for the controller was started since": {
			tell: func(s *script) {
				loses(s, restart).excuse()()
				s.after(testTimeout).group("g", 2, says("Incomplete", "True", "MembersMissing", unseenWhole)).after(time.Hour)
			},
		},
		"policy restart evicts nobody, and the controller has run all the time": {
			tell: func(s *script) {
				running(s).excuse()()
				s.after(time.Minute).remove("a").pod("a2", "g").group("g", 2, restart, refusal()).after(testTimeout).
					group("g", 2, restart, says("Incomplete", "True", "MembersMissing", unseenWhole)).after(time.Hour)
			},
			want: partialGang,
		},
		"a disruption budget refuses the eviction": {
			tell: func(s *script) {
				loses(s, restart).after(testTimeout).group("g", 2, lacking("True"))
				s.seeAudit(auditFact{user: controllerUser, verb: "create", subresource: "eviction", pod: name("b"), code: 429, received: s.now})
				s.after(time.Hour)
			},
		},
		"a Job runs out": {
			tell: func(s *script) {
				s.node("n", 8).group("g", 2, refusal()).job(jobFact{completions: 3}).
					pod("a", "g", controlled("j")).pod("b", "g", controlled("j")).bind("a", "n").bind("b", "n").group("g", 2, placed()).
					edit("a", phase(corev1.PodSucceeded)).job(jobFact{completions: 3, served: 1}).pod("c", "g", controlled("j")).bind("c", "n").
					edit("b", phase(corev1.PodSucceeded)).job(jobFact{completions: 3, served: 2}).after(time.Hour)
			},
		},
		"a Job that has much to do lacks a pod": {
			tell: func(s *script) {
				s.node("n", 8).group("g", 2, refusal()).job(jobFact{completions: 9}).
					pod("a", "g", controlled("j")).pod("b", "g", controlled("j")).bind("a", "n").bind("b", "n").group("g", 2, placed()).
					edit("a", phase(corev1.PodSucceeded)).job(jobFact{completions: 9, served: 1}).after(testTimeout + testSlack + time.Second)
			},
			want: partialGang,
		},
		"bare members succeed one after another": {
			tell: func(s *script) { running(s).edit("a", phase(corev1.PodSucceeded)).after(time.Hour) },
		},
		"it ran in part before anybody looked": {
			tell: func(s *script) {
				s.begun = false
				two(s).edit("a", on("n"))
				s.begin(s.now)
				s.after(testTimeout)
			},
		},
		"its PodGroup is deleted": {
			tell: func(s *script) { running(s).removeGroup("g").remove("a").after(time.Hour) },
		},
		"its PodGroup is deleted and made again after it has lost a member": {
			tell: func(s *script) {
				running(s).remove("a").after(time.Second).removeGroup("g").after(lossGrace)
				s.group("g", 2, placed()).after(20*time.Second).group("g", 2, lacking("True")).after(time.Hour)
			},
		},
		"its PodGroup is deleted and made again while half of it is bound": {
			tell: func(s *script) {
				two(s).bind("a", "n").removeGroup("g").after(time.Second).group("g", 2, refusal()).after(11 * time.Second)
			},
			want: partialGang,
		},
	})
}
