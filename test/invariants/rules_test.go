package invariants

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State 3 of the lessons of earlier systems: running pods stay where they are.
func TestPodMoved(t *testing.T) {
	moved := func(pod string) []broke { return []broke{{RulePodMoved, "ns/" + pod}} }
	run(t, map[string]tale{
		"its node changes":             {tell: func(s *script) { running(s).node("m", 8).edit("a", on("m")) }, want: moved("a")},
		"its user deletes it":          {tell: func(s *script) { running(s).remove("a").pod("a2", "g").bind("a2", "n") }},
		"the controller evicts it":     {tell: func(s *script) { running(s).evict("a") }, want: moved("a")},
		"it does so in an excuse":      {tell: func(s *script) { running(s).excuse(); s.evict("a") }},
		"in one in which it hears":     {tell: func(s *script) { running(s).excuse(); s.heard(); s.evict("a") }, want: moved("a")},
		"an eviction that was refused": {tell: func(s *script) { refuse(running(s), "a") }},
		"the scheduler deletes it": {
			tell: func(s *script) {
				running(s).seeAudit(auditFact{user: schedulerAccount, verb: "delete", pod: name("a"), code: 200, received: s.now})
			},
			want: moved("a"),
		},
		"another deletes it": {
			tell: func(s *script) {
				running(s).seeAudit(auditFact{user: "system:node:n", verb: "delete", pod: name("a"), code: 200, received: s.now})
			},
		},
		"the scheduler deletes all pods of a namespace": {
			tell: func(s *script) {
				running(s).seeAudit(auditFact{user: schedulerAccount, verb: "deletecollection", pod: types.NamespacedName{Namespace: "ns"}, code: 200, received: s.now})
			},
			want: moved(""),
		},
		"evicted by policy restart, before the condition is true": {
			tell: func(s *script) { loses(s, restart).evict("b").remove("b") },
			want: moved("b"),
		},
		"evicted by policy restart, after the condition has become false": {
			tell: func(s *script) {
				loses(s, restart).after(testTimeout).group("g", 2, lacking("True")).after(time.Second).bind("a2", "n").
					group("g", 2, lacking("False"), placed()).after(time.Minute).evict("b").remove("b")
			},
			want: moved("b"),
		},
		"evicted by policy restart": {
			tell: func(s *script) {
				loses(s, restart).after(testTimeout).evict("b").group("g", 2, lacking("True")).remove("b").group("g", 2, lacking("False"))
			},
		},
		"evicted by policy restart of its pods": {
			tell: func(s *script) {
				loses(s).edit("b", func(p *podFact) { p.policy = policyRestart }).after(testTimeout).group("g", 2, lacking("True")).evict("b").remove("b")
			},
		},
		"evicted with policy wait": {
			tell: func(s *script) { loses(s).after(testTimeout).group("g", 2, lacking("True")).evict("b") },
			want: moved("b"),
		},
		"evicted for members that it never had": {
			tell: func(s *script) {
				grows(s).after(testTimeout).group("g", 3, restart, lacking("True")).evict("a").remove("a")
			},
			want: moved("a"),
		},
		"evicted for one that it had, after it was asked for more": {
			tell: func(s *script) {
				grows(s).after(time.Second).remove("a").after(testTimeout).group("g", 3, restart, lacking("True")).evict("b").remove("b")
			},
		},
		"evicted by another controller for one that it had, which that one never saw": {
			tell: func(s *script) {
				grows(s).after(time.Second).remove("a").after(time.Minute).seeLease("two", s.seen())
				s.after(testTimeout).group("g", 3, restart, lacking("True")).evict("b").remove("b")
			},
			want: moved("b"),
		},
		"evicted by another controller, which goes on with it": {
			tell: func(s *script) {
				grows(s).after(time.Second).remove("a").after(testTimeout).group("g", 3, restart, lacking("True")).after(time.Second).seeLease("two", s.seen())
				s.after(time.Second).evict("b").remove("b")
			},
		},
	})
}

// grows adds the group of running, with policy restart.
// Then its minimum is raised by one, and that pod waits.
func grows(s *script) *script {
	return running(s).after(time.Second).pod("c", "g").group("g", 3, restart, refusal())
}

func refuse(s *script, pod string) {
	s.seeAudit(auditFact{user: controllerUser, verb: "create", subresource: "eviction", pod: name(pod), code: 429, received: s.now})
}

// Flow 16 of the lessons of earlier systems: a group that waits is given a reason.
func TestNoReason(t *testing.T) {
	silent := []broke{{RuleNoReason, "ns/g"}}
	run(t, map[string]tale{
		"refused with a reason": {tell: func(s *script) { two(s).after(time.Hour) }},
		"told in time": {tell: func(s *script) {
			s.group("g", 2).pod("a", "g").after(14*time.Second).group("g", 2, refusal()).after(time.Hour)
		}},
		"no condition":                 {tell: func(s *script) { s.group("g", 2).pod("a", "g").pod("b", "g").after(16 * time.Second) }, want: silent},
		"fewer pods than the minimum":  {tell: func(s *script) { s.group("g", 2).pod("a", "g").after(time.Hour) }, want: silent},
		"an empty reason":              {tell: func(s *script) { two(s).group("g", 2, says("Scheduled", "False", "", "x")).after(time.Hour) }, want: silent},
		"an empty message":             {tell: func(s *script) { two(s).group("g", 2, says("Scheduled", "False", "NoRoom", "")).after(time.Hour) }, want: silent},
		"placed, but nowhere":          {tell: func(s *script) { two(s).group("g", 2, placed()).after(time.Hour) }, want: silent},
		"placed, while a member waits": {tell: func(s *script) { loses(s, lacking("True")).group("g", 2, placed()).after(time.Hour) }, want: silent},
		"two conditions of the type": {
			tell: func(s *script) {
				two(s).group("g", 2, func(g *groupFact) {
					g.conditions = append(g.conditions, conditionFact{kind: "Scheduled", status: "False", reason: "NeverFits", message: "x"})
				}).after(time.Hour)
			},
			want: silent,
		},
		"told and taken back": {
			tell: func(s *script) {
				two(s).after(time.Minute).group("g", 2, func(g *groupFact) { g.conditions = nil }).after(time.Hour)
			},
			want: silent,
		},
		"twice, once after it was told": {
			tell: func(s *script) {
				nothing := func(g *groupFact) { g.conditions = nil }
				two(s).group("g", 2, nothing).after(time.Minute).group("g", 2, refusal()).after(time.Minute).group("g", 2, nothing).after(time.Minute)
			},
			want: append(silent, silent...),
		},
		"gathering, and enough have come": {
			tell: func(s *script) { two(s).group("g", 2, because("Gathering", "has 1 of 2")).after(16 * time.Second) },
			want: silent,
		},
		"gathering, and told otherwise in time": {
			tell: func(s *script) {
				s.node("n", 8).group("g", 2, because("Gathering", "has 1 of 2")).pod("a", "g").after(time.Hour).
					pod("b", "g").after(14*time.Second).group("g", 2, refusal()).after(time.Hour)
			},
		},
		"gathering, and one of those that came goes": {tell: func(s *script) {
			gathering(s).pod("b", "g", deleting).after(time.Hour)
		}},
		"gathering, and one of those that came is gated": {tell: func(s *script) {
			gathering(s).pod("b", "g", func(p *podFact) { p.gated = true }).after(time.Hour)
		}},
		"gathering, and one of those that came has ended": {tell: func(s *script) {
			gathering(s).pod("b", "g", phase(corev1.PodFailed)).after(time.Hour)
		}},
		"gathering, and one of those that came has no owner any more": {tell: func(s *script) {
			gathering(s).owner().disown().pod("b", "g", controlled("set")).after(time.Hour)
		}},
		"gathering, while its Job is suspended": {tell: func(s *script) {
			s.group("g", 2, because("Gathering", "has 1 of 2")).job(jobFact{idle: true}).
				pod("a", "g", controlled("j")).pod("b", "g", controlled("j")).after(time.Hour)
		}},
		"gathering, and more is asked for": {tell: func(s *script) {
			gathering(s).pod("b", "g").after(10*time.Second).group("g", 3).after(time.Hour)
		}},
		"gathering, in an excuse": {tell: func(s *script) { s.excuse(); gathering(s).pod("b", "g").after(time.Hour) }},
		"no PodGroup, and there is one": {
			tell: func(s *script) { two(s).group("g", 2, because("NoPodGroup", "x")).after(time.Minute) },
			want: silent,
		},
		"its PodGroup is deleted, and a pod is told": {tell: func(s *script) {
			two(s).group("g", 2, because("MatcherUnavailable", "x")).after(10*time.Second).removeGroup("g").event("a", "NoPodGroup", "x").after(time.Hour)
		}},
		"the matcher does not answer for ever": {
			tell: func(s *script) { two(s).group("g", 2, because("MatcherUnavailable", "x")).after(16 * time.Second) },
			want: silent,
		},
		"all are on nodes, and it says for ever that it waits": {
			tell: func(s *script) { two(s).bind("a", "n").bind("b", "n").after(16 * time.Second) },
			want: silent,
		},
		"all are on nodes, and it says so for the second time": {
			tell: func(s *script) {
				running(s).after(time.Minute).group("g", 2, refusal()).after(time.Minute).group("g", 2, placed()).after(time.Minute).
					group("g", 2, refusal()).after(time.Minute)
			},
			want: append(silent, silent...),
		},
		"all are on nodes, and it says so in an excuse": {tell: func(s *script) {
			s.excuse()
			two(s).bind("a", "n").bind("b", "n").after(time.Hour)
		}},
		"all are on nodes, and it says so in time": {tell: func(s *script) {
			two(s).bind("a", "n").bind("b", "n").after(14*time.Second).group("g", 2, placed()).after(time.Hour)
		}},
		"all were on nodes, and it says nothing new": {tell: func(s *script) {
			two(s).bind("a", "n").bind("b", "n").after(time.Second).remove("a").remove("b").after(time.Hour)
		}},
		"it waits for its binds for ever": {
			tell: func(s *script) { two(s).group("g", 2, because("Binding", "x")).after(16 * time.Second) },
			want: silent,
		},
		"it waits for its binds for a while": {tell: func(s *script) {
			two(s).group("g", 2, because("Binding", "x")).after(14*time.Second).bind("a", "n").bind("b", "n").group("g", 2, placed()).after(time.Hour)
		}},
		"the matcher does not answer for a while": {tell: func(s *script) {
			for range 5 {
				two(s).group("g", 2, because("MatcherUnavailable", "x")).after(14*time.Second).group("g", 2, refusal()).after(time.Second)
			}
		}},
		"the matcher does not answer, in an excuse": {tell: func(s *script) {
			end := two(s).excuse()
			s.group("g", 2, because("MatcherUnavailable", "x")).after(time.Hour)
			end()
			s.after(14*time.Second).group("g", 2, refusal()).after(time.Minute)
		}},
		"not reserved, and not tried again": {
			tell: func(s *script) { two(s).group("g", 2, because("NotReserved", "x")).after(longestPause + 4*testSlack) },
			want: silent,
		},
		"not reserved, again and again": {tell: func(s *script) {
			two(s)
			for i := range 9 {
				s.group("g", 2, because("NotReserved", fmt.Sprint("attempt ", i))).after(longestPause)
			}
		}},
		"refused by a filter in the same words": {tell: func(s *script) {
			two(s).group("g", 2, because("NodeRefused", "x")).after(time.Hour)
		}},
		"placed, and a pod is made for a StatefulSet that is gone": {tell: func(s *script) {
			s.node("n", 8).group("g", 1, placed()).owner().disown().pod("a", "g", controlled("set")).after(time.Hour)
		}},
		"placed, and what controls its pod goes": {tell: func(s *script) {
			s.node("n", 8).group("g", 1, placed()).owner().pod("a", "g", controlled("set")).after(10 * time.Second).disown().after(time.Hour)
		}},
		"placed, and its pod waits for a StatefulSet that is there": {
			tell: func(s *script) {
				s.node("n", 8).group("g", 1, placed()).owner().pod("a", "g", controlled("set")).after(time.Hour)
			},
			want: silent,
		},
		"gated pods do not wait":       {tell: func(s *script) { s.group("g", 2).pod("a", "g", func(p *podFact) { p.gated = true }).after(time.Hour) }},
		"pods that go do not wait":     {tell: func(s *script) { s.group("g", 2).pod("a", "g", deleting).after(time.Hour) }},
		"others' pods are not its own": {tell: func(s *script) { s.group("g", 2).pod("a", "g", foreign).after(time.Hour) }},
		"a suspended Job does not wait": {tell: func(s *script) {
			s.group("g", 2).job(jobFact{idle: true}).pod("a", "g", controlled("j")).after(time.Hour)
		}},
		"an excuse": {tell: func(s *script) { s.excuse(); s.group("g", 2).pod("a", "g").after(time.Hour) }},
		"an excuse that ends": {
			tell: func(s *script) {
				end := s.excuse()
				s.group("g", 2).pod("a", "g").after(time.Hour)
				end()
				s.after(16 * time.Second)
			},
			want: silent,
		},
		"a lone pod is told by its condition": {tell: func(s *script) { s.pod("a", "").after(time.Hour) }},
		"a lone pod is told by an event": {
			tell: func(s *script) { s.pod("a", "", untold).event("a", "OwnerNotSeen", "x").after(time.Hour) },
		},
		"a lone pod is told nothing": {tell: func(s *script) { s.pod("a", "", untold).after(time.Hour) }, want: []broke{{RuleNoReason, "ns/a"}}},
		"a missing PodGroup is told on one of the pods": {
			tell: func(s *script) { s.pod("a", "g").pod("b", "g").event("b", "NoPodGroup", "x").after(time.Hour) },
		},
		"a missing PodGroup is told nobody": {tell: func(s *script) { s.pod("a", "g").after(time.Hour) }, want: silent},
		"its PodGroup comes and says nothing": {
			tell: func(s *script) {
				s.pod("a", "g").event("a", "NoPodGroup", "x").after(time.Hour).group("g", 1).after(time.Hour)
			},
			want: silent,
		},
		"by its owners: not told": {
			tell: func(s *script) {
				s.job(jobFact{}).pod("a", "", controlled("j"))
				s.group("g", 1, func(g *groupFact) { g.owners = []types.UID{"j"} }).after(time.Hour)
			},
			want: silent,
		},
		"by the owners of its owners: not told": {
			tell: func(s *script) {
				s.group("g", 1, func(g *groupFact) { g.owners = []types.UID{"top"} }).pod("a", "", controlled("rs"))
				s.seeOwner(ownerFact{uid: "rs", controller: "top"}, s.seen())
				s.after(time.Hour)
			},
			want: silent,
		},
	})
}

// event records an event about a pod, written by the scheduler.
func (s *script) event(pod, reason, note string, edit ...func(*eventFact)) *script {
	s.serial++
	e := eventFact{
		uid: types.UID(fmt.Sprint("event-", s.serial)), controller: schedulerName, kind: "Pod", about: name(pod), aboutUID: s.facts[pod].uid,
		reason: reason, note: note, told: s.now, count: 1,
	}
	for _, f := range edit {
		f(&e)
	}
	s.seeEvent(e, s.seen())
	return s
}

// because refuses a group for a reason.
func because(reason, message string) func(*groupFact) {
	return says("Scheduled", "False", reason, message)
}

// gathering adds a group of two with one pod.
func gathering(s *script) *script {
	return s.node("n", 8).group("g", 2, because("Gathering", "has 1 of 2")).pod("a", "g")
}

// owner adds a StatefulSet called set. disown removes it.
func (s *script) owner() *script {
	s.seeOwner(ownerFact{uid: "set"}, s.seen())
	return s
}

func (s *script) disown() *script {
	how := s.seen()
	how.gone = true
	s.seeOwner(ownerFact{uid: "set"}, how)
	return s
}

// event is the first event of a later series. count2 is the second.
func event(e *eventFact)      { e.uid = "e" }
func count2(e *eventFact)     { e.uid, e.count = "e", 2 }
func aboutGroup(e *eventFact) { e.kind, e.about, e.aboutUID = "PodGroup", name("g"), "g" }

func byController(e *eventFact) { e.controller = controllerName }

// Flow 16 of the lessons of earlier systems: no event is written twice.
func TestRepeated(t *testing.T) {
	again := []broke{{RuleRepeated, "ns/a"}}
	pod := func(s *script) *script { return s.node("n", 1).pod("a", "") }
	run(t, map[string]tale{
		"once":  {tell: func(s *script) { pod(s).event("a", "R", "x").after(time.Hour) }},
		"twice": {tell: func(s *script) { pod(s).event("a", "R", "x").after(time.Minute).event("a", "R", "x") }, want: again},
		"three times is one fact": {
			tell: func(s *script) { pod(s).event("a", "R", "x").event("a", "R", "x").event("a", "R", "x") },
			want: again,
		},
		"a failed attempt, three times": {
			tell: func(s *script) {
				pod(s).event("a", attemptFailed, "x").event("a", attemptFailed, "x").event("a", attemptFailed, "x")
			},
			want: []broke{{RuleRepeatedAttempt, "ns/a"}},
		},
		"by the controller, of a group that another number is asked of": {
			tell: func(s *script) {
				s.group("g", 1, refusal()).pod("a", "g").event("a", "Complete", "x", event, aboutGroup, byController).after(time.Minute).
					group("g", 2).pod("b", "g").event("a", "Complete", "x", count2, aboutGroup, byController)
			},
		},
		"by the controller, of a group whose first pod came before it and was made again": {
			tell: func(s *script) {
				s.owner().pod("a", "", controlled("set")).pod("b", "", controlled("set"))
				s.event("a", "Complete", "x", event, aboutGroup, byController).remove("a").pod("a", "", controlled("set"))
				s.group("g", 2, func(g *groupFact) { g.owners = []types.UID{"set"} })
				s.event("a", "Complete", "x", count2, aboutGroup, byController)
			},
		},
		"by the controller, before the loss of a member is seen": {
			tell: func(s *script) {
				s.group("g", 1, refusal()).pod("a", "g").event("a", "Complete", "x", event, aboutGroup, byController).after(time.Minute).
					event("a", "Complete", "x", count2, aboutGroup, byController).after(time.Second).remove("a").pod("a", "g")
			},
		},
		"with another note":         {tell: func(s *script) { pod(s).event("a", "R", "x").after(time.Minute).event("a", "R", "y") }},
		"with another note between": {tell: func(s *script) { pod(s).event("a", "R", "x").event("a", "R", "y").event("a", "R", "x") }, want: again},
		"with another reason between": {tell: func(s *script) {
			pod(s).event("a", "R", "x").after(time.Second).event("a", "Q", "y").after(time.Second).event("a", "R", "x")
		}},
		"in a series": {tell: func(s *script) {
			pod(s).event("a", "R", "x", event).after(time.Minute).event("a", "R", "x", count2)
		}, want: again},
		"a series that is seen late": {tell: func(s *script) { pod(s).event("a", "R", "x", count2) }},
		"in a series, another reason between": {
			tell: func(s *script) {
				pod(s).event("a", "R", "x", event).after(time.Second).event("a", "Q", "y").after(time.Second).event("a", "R", "x", count2)
			},
		},
		"about another": {tell: func(s *script) {
			pod(s).pod("b", "").event("a", "R", "x").event("b", "R", "x")
		}},
		"by another": {
			tell: func(s *script) {
				kubelet := func(e *eventFact) { e.controller = "kubelet" }
				pod(s).event("a", "R", "x", kubelet).event("a", "R", "x", kubelet)
			},
		},
		"by scheduler and controller": {
			tell: func(s *script) {
				pod(s).event("a", "R", "x").event("a", "R", "x", func(e *eventFact) { e.controller = controllerName })
			},
		},
		"by a process that was killed between": {
			tell: func(s *script) {
				end := pod(s).event("a", "R", "x").after(10 * time.Second).excuse()
				s.after(time.Second)
				end()
				s.event("a", "R", "x")
			},
		},
		"on a PodGroup, by two processes of which one does not hear": {
			tell: func(s *script) {
				end := pod(s).event("a", "R", "x", aboutGroup).after(10 * time.Second).excuse()
				s.after(time.Second)
				end()
				s.event("a", "R", "x", aboutGroup)
			},
		},
		"by the controller, of a group that a member of was made again": {
			tell: func(s *script) {
				s.group("g", 2).pod("a", "g").pod("b", "g").event("a", "Complete", "x", aboutGroup, byController).after(time.Second).remove("a").
					after(time.Second).pod("a", "g").event("a", "Complete", "x", aboutGroup, byController)
			},
		},
		"by the controller, of one whose loss is seen before it first tells": {
			tell: func(s *script) {
				s.group("g", 2).pod("a", "g").pod("b", "g").remove("a").pod("a", "g").
					event("a", "Complete", "x", aboutGroup, byController).event("a", "Complete", "x", aboutGroup, byController)
			},
		},
		"on a PodGroup, whose condition a new process can read": {
			tell: func(s *script) {
				end := pod(s).event("a", "R", "x", aboutGroup).after(10 * time.Second).excuse()
				s.heard()
				s.after(time.Second)
				end()
				s.event("a", "R", "x", aboutGroup)
			},
			want: []broke{{RuleRepeated, "ns/g"}},
		},
		"by the controller, of a group that has come again": {
			tell: func(s *script) {
				s.group("g", 1).pod("a", "g").event("a", "Complete", "x", aboutGroup, byController).after(time.Second).remove("a").
					after(time.Second).pod("a", "g").event("a", "Complete", "x", aboutGroup, byController)
			},
		},
		"by the controller, of a group that was whole between": {
			tell: func(s *script) {
				running(s).group("g", 2, lacking("True")).event("a", "MembersMissing", "x", aboutGroup, byController).after(time.Second).
					group("g", 2, lacking("False")).after(time.Second).
					group("g", 2, lacking("True")).event("a", "MembersMissing", "x", aboutGroup, byController)
			},
		},
		"by the controller, of a group that is the same": {
			tell: func(s *script) {
				running(s).event("a", "Complete", "x", aboutGroup, byController).event("a", "Complete", "x", aboutGroup, byController)
			},
			want: []broke{{RuleRepeated, "ns/g"}},
		},
		"written in the wrong order": {
			tell: func(s *script) {
				late := func(e *eventFact) { e.told = e.told.Add(-time.Second) }
				pod(s).event("a", "R", "x").event("a", "R", "x", late).event("a", "Q", "y", func(e *eventFact) { e.told = e.told.Add(-time.Second / 2) })
			},
		},
	})
}

// Flow 16 of the lessons of earlier systems: a pod
// is given a reason once, however often it is tried.
func TestRepeatedAttempt(t *testing.T) {
	again := []broke{{RuleRepeatedAttempt, "ns/a"}}
	pod := func(s *script) *script { return s.node("n", 1).pod("a", "", waitsFor("needs 3")) }
	fails := func(s *script, note string, edit ...func(*eventFact)) *script {
		return s.event("a", attemptFailed, note, edit...)
	}
	run(t, map[string]tale{
		"three times": {tell: func(s *script) { fails(fails(fails(pod(s), "needs 3").after(time.Minute), "needs 3"), "needs 3") }, want: again},
		"twice, as a message between them was overtaken": {tell: func(s *script) { fails(fails(pod(s), "needs 3").after(time.Minute), "needs 3") }},
		"only the number is another": {
			tell: func(s *script) { fails(fails(fails(pod(s), "needs 3").after(time.Minute), "needs 17"), "needs 4") },
			want: again,
		},
		"another text between": {tell: func(s *script) { fails(fails(fails(pod(s), "needs 3"), "cordoned"), "needs 3") }},
		"another text between, in a series that is not seen": {tell: func(s *script) {
			fails(pod(s), "needs 3").after(time.Minute).edit("a", waitsFor("cordoned")).after(time.Minute).edit("a", waitsFor("needs 3"))
			fails(s, "needs 3")
		}},
		"another reason between": {tell: func(s *script) {
			fails(fails(pod(s), "needs 3").event("a", "OwnerNotSeen", "x"), "needs 3")
		}},
		"by another process": {tell: func(s *script) {
			fails(fails(pod(s), "needs 3"), "needs 3", func(e *eventFact) { e.instance = "other" })
		}},
		"by a process that was started again": {tell: func(s *script) {
			end := fails(pod(s), "needs 3").after(10 * time.Second).excuse()
			s.heard()
			s.after(time.Second)
			end()
			fails(s, "needs 3")
		}},
		"in a series, while the condition says the same": {
			tell: func(s *script) {
				fails(pod(s), "needs 3", event).after(time.Minute).edit("a", waitsFor("needs 4"))
				fails(s, "needs 3", event, func(e *eventFact) { e.count = 3 })
			},
			want: again,
		},
		"in a series, while the condition says something else": {tell: func(s *script) {
			fails(pod(s), "needs 3", event).after(time.Minute).edit("a", waitsFor("cordoned"))
			fails(s, "needs 3", count2)
		}},
		"in a series, before the condition is seen to say something else": {tell: func(s *script) {
			fails(fails(pod(s), "needs 3", event).after(time.Minute), "needs 3", count2).after(time.Second).edit("a", waitsFor("cordoned"))
		}},
		"in a series that grows by more than the condition changes": {
			tell: func(s *script) {
				fails(pod(s), "needs 3", event).after(time.Minute).edit("a", waitsFor("cordoned"))
				fails(s, "needs 3", event, func(e *eventFact) { e.count = 9 })
			},
			want: again,
		},
		"the first note comes before the condition": {
			tell: func(s *script) {
				fails(s.node("n", 1).pod("a", ""), "needs 3", event).edit("a", waitsFor("needs 3")).after(time.Minute)
				fails(s, "needs 3", event, func(e *eventFact) { e.count = 3 })
			},
			want: again,
		},
		"in a series, of a pod that has gone since": {tell: func(s *script) {
			fails(pod(s), "needs 3", event).after(time.Minute)
			fails(s, "needs 3", count2).remove("a")
		}},
	})
}

// waitsFor sets the message of a pod's condition.
func waitsFor(message string) func(*podFact) { return func(p *podFact) { p.text = message } }

// What is gone is forgotten, so that memory does not grow for ever.
func TestMemory(t *testing.T) {
	s := newScript(t).node("n", 1000)
	for i := range 200 {
		g := fmt.Sprint("g", i)
		s.group(g, 1, refusal()).pod("p", g).bind("p", "n").event("p", "Scheduled", "x").group(g, 1, placed()).
			after(time.Second).edit("p", phase(corev1.PodSucceeded)).remove("p").removeGroup(g).after(5 * time.Second)
	}
	s.after(time.Hour)
	s.want()
	if s.stats.Binds != 200 || s.stats.Started != 200 || s.stats.Events != 200 {
		t.Errorf("judged %v, want 200 binds, groups and events", s.stats)
	}
	left := len(s.pods) + len(s.latest) + len(s.groups) + len(s.families) + len(s.made) + len(s.asked) + len(s.binds) +
		len(s.ledger.nodes["n"].tenants) + len(s.subjects) + len(s.counts)
	if left > 0 {
		t.Errorf("%d things are remembered: %d pods, %d groups, %d families, %d events", left, len(s.pods), len(s.groups), len(s.families), len(s.counts))
	}
}

// BenchmarkJudge measures one pod's life: seven changes.
func BenchmarkJudge(b *testing.B) {
	s := newScript(&testing.T{}).node("n", 1_000_000)
	for i := range 1000 {
		s.group(fmt.Sprint("w", i), 2, refusal()).pod(fmt.Sprint("w", i), fmt.Sprint("w", i))
	}
	for i := 0; b.Loop(); i++ {
		g := fmt.Sprint("g", i)
		s.group(g, 1, refusal()).pod(g, g).bind(g, "n").group(g, 1, placed()).edit(g, phase(corev1.PodSucceeded)).remove(g).removeGroup(g)
		s.after(14 * time.Millisecond)
	}
}
