package invariants

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func tainted(n *nodeFact) {
	n.taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
}
func tolerant(p *podFact) {
	p.tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
}
func cordoned(n *nodeFact) { n.closed = true }

// others adds a node of four CPUs. A pod of four CPUs
// by another scheduler was seen there a time ago.
func others(s *script, ago time.Duration) *script {
	return s.node("n", 4).pod("other", "", foreign, cpu(4)).pod("a", "").after(time.Minute).
		bindBy("system:kube-scheduler", "other", "n").after(ago)
}

// ask records a request of Fluence to bind a pod, and the code of the answer.
func ask(s *script, pod string, code int) *script {
	s.seeAudit(auditFact{user: schedulerAccount, verb: "create", subresource: "binding", pod: name(pod), code: code, received: s.now})
	return s
}

// State 1, 7 and 8 of the lessons of earlier systems: no room is assigned
// twice, whoever else places pods and whatever happens to nodes.
func TestFullNode(t *testing.T) {
	full := []broke{{RuleFullNode, "ns/a"}}
	run(t, map[string]tale{
		"full for long":               {tell: func(s *script) { others(s, time.Minute).bind("a", "n") }, want: full},
		"full for more than a second": {tell: func(s *script) { others(s, 1100*time.Millisecond).bind("a", "n") }, want: full},
		"full for less than a second": {tell: func(s *script) { others(s, 900*time.Millisecond).bind("a", "n") }},
		"room for one more":           {tell: func(s *script) { s.node("n", 2).pod("b", "").pod("a", "").bind("b", "n").bind("a", "n") }},
		"Fluence filled it itself a moment before": {
			tell: func(s *script) { s.node("n", 1).pod("b", "").pod("a", "").bind("b", "n").bind("a", "n") },
			want: full,
		},
		"a pod of Fluence's scheduler that its maker put there a moment before": {
			tell: func(s *script) { s.node("n", 1).pod("b", "", on("n")).after(5*time.Second).pod("a", "").bind("a", "n") },
			want: full,
		},
		"full for long, and who asked for the bind was killed before the answer": {
			tell: func(s *script) { ask(others(s, time.Minute), "a", 504).edit("a", on("n")) },
			want: full,
		},
		"full for long, and what was asked for was refused": {
			tell: func(s *script) { ask(others(s, time.Minute), "a", 429).edit("a", on("n")) },
		},
		"another scheduler overfills it": {
			tell: func(s *script) { others(s, time.Minute).bindBy("system:kube-scheduler", "a", "n") },
		},
		"who was there has ended": {
			tell: func(s *script) { others(s, time.Minute).edit("other", phase(corev1.PodSucceeded)).bind("a", "n") },
		},
		"who was there was removed": {
			tell: func(s *script) { others(s, time.Minute).remove("other").bind("a", "n") },
		},
		"who was there is removed just after": {
			tell: func(s *script) { others(s, time.Minute).bind("a", "n").remove("other") },
			want: full,
		},
		"who is there terminates": {
			tell: func(s *script) { others(s, time.Minute).edit("other", deleting).bind("a", "n") },
			want: full,
		},
		"a pod shrank long ago": {
			tell: func(s *script) { others(s, time.Minute).edit("other", cpu(3)).after(time.Minute).bind("a", "n") },
		},
		"a pod grew long ago": {
			tell: func(s *script) { others(s, time.Minute).edit("other", cpu(5)).after(time.Minute).bind("a", "n") },
			want: full,
		},
		"a pod grew just now": {
			tell: func(s *script) {
				s.node("n", 4).pod("a", "").pod("other", "", foreign, cpu(3)).bindBy("x", "other", "n").after(time.Minute).
					edit("other", cpu(4)).after(500*time.Millisecond).bind("a", "n")
			},
		},
		"the node shrank long ago": {
			tell: func(s *script) { s.node("n", 4).pod("a", "", cpu(4)).node("n", 2).after(time.Minute).bind("a", "n") },
			want: full,
		},
		"the node shrank just now": {
			tell: func(s *script) {
				s.node("n", 4).pod("a", "", cpu(4)).after(time.Minute).node("n", 2).after(900*time.Millisecond).bind("a", "n")
			},
		},
		"the node grew before": {
			tell: func(s *script) { s.node("n", 1).pod("a", "", cpu(4)).after(time.Minute).node("n", 4).bind("a", "n") },
		},
		"too many pods": {
			tell: func(s *script) {
				s.node("n", 9, func(n *nodeFact) { n.allocatable[corev1.ResourcePods] = 1 }).pod("b", "").pod("a", "").
					bind("b", "n").after(time.Minute).bind("a", "n")
			},
			want: full,
		},
		"no such resource": {
			tell: func(s *script) {
				s.node("n", 9).pod("a", "", func(p *podFact) { p.asks["gpu"] = 1 }).after(time.Minute).bind("a", "n")
			},
			want: full,
		},
		"it asks for none of what there is too little of": {
			tell: func(s *script) {
				others(s, time.Minute).edit("a", func(p *podFact) { p.asks = amounts{corev1.ResourceCPU: 0, corev1.ResourcePods: 1} }).bind("a", "n")
			},
		},
		"asked for in an excuse": {
			tell: func(s *script) { s.excuse(); others(s, time.Minute).bind("a", "n") },
		},
		"asked for in an excuse in which the scheduler hears": {
			tell: func(s *script) { s.excuse(); s.heard(); others(s, time.Minute).bind("a", "n") },
			want: full,
		},
		"asked for in one in which it hears and another in which it does not": {
			tell: func(s *script) { s.excuse(); s.heard(); s.excuse(); others(s, time.Minute).bind("a", "n") },
		},
		"asked for half a second after an excuse": {
			tell: func(s *script) {
				end := s.excuse()
				others(s, time.Minute)
				end()
				s.after(500*time.Millisecond).bind("a", "n")
			},
		},
		"asked for two seconds after an excuse": {
			tell: func(s *script) {
				end := s.excuse()
				others(s, time.Minute)
				end()
				s.after(2*time.Second).bind("a", "n")
			},
			want: full,
		},
		"a pod of the same name was bound before by another": {
			tell: func(s *script) {
				s.node("n", 1).node("m", 1).pod("a", "").bind("a", "m").after(time.Second).remove("a").
					pod("other", "", foreign).bindBy("x", "other", "n").after(time.Minute).pod("a", "").bindBy("x", "a", "n")
			},
		},
		"the watch missed changes around it": {
			tell: func(s *script) {
				others(s, time.Minute)
				s.seeGap(s.version, s.version+2, s.now)
				s.bind("a", "n")
			},
		},
		"it was found on its node by a new list": {
			tell: func(s *script) {
				others(s, time.Minute).seeAudit(auditFact{user: schedulerAccount, subresource: "binding", pod: name("a"), code: 201, received: s.now})
				f, how := s.facts["a"], s.seen()
				f.node, how.listed = "n", true
				s.seePod(f, how)
			},
		},
		"the request was refused": {
			tell: func(s *script) {
				others(s, time.Minute).seeAudit(auditFact{user: schedulerAccount, subresource: "binding", pod: name("a"), code: 409, received: s.now})
			},
		},
	})
}

func TestNodeClosed(t *testing.T) {
	closed := []broke{{RuleNodeClosed, "ns/a"}}
	run(t, map[string]tale{
		"cordoned for long":         {tell: func(s *script) { s.node("n", 4, cordoned).pod("a", "").after(time.Minute).bind("a", "n") }, want: closed},
		"cordoned just now":         {tell: func(s *script) { s.node("n", 4).pod("a", "").after(time.Minute).node("n", 4, cordoned).bind("a", "n") }},
		"uncordoned just now":       {tell: func(s *script) { s.node("n", 4, cordoned).pod("a", "").after(time.Minute).node("n", 4).bind("a", "n") }},
		"uncordoned just after":     {tell: func(s *script) { s.node("n", 4, cordoned).pod("a", "").after(time.Minute).bind("a", "n").node("n", 4) }, want: closed},
		"tainted for long":          {tell: func(s *script) { s.node("n", 4, tainted).pod("a", "").after(time.Minute).bind("a", "n") }, want: closed},
		"tainted, and it tolerates": {tell: func(s *script) { s.node("n", 4, tainted).pod("a", "", tolerant).after(time.Minute).bind("a", "n") }},
		"a node that never was":     {tell: func(s *script) { s.pod("a", "").after(time.Minute).bind("a", "n") }, want: closed},
		"removed for long":          {tell: func(s *script) { s.node("n", 4).pod("a", "").removeNode("n").after(time.Minute).bind("a", "n") }, want: closed},
		"removed just now":          {tell: func(s *script) { s.node("n", 4).pod("a", "").after(time.Minute).removeNode("n").bind("a", "n") }},
		"removed, and there again": {
			tell: func(s *script) {
				s.node("n", 4).pod("a", "").after(time.Minute).removeNode("n").after(time.Minute).node("n", 4).bind("a", "n")
			},
		},
	})
}
