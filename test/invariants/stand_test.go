package invariants

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// in puts a node into a zone, and into a rack if one is given.
func in(zone string, rack ...string) func(*nodeFact) {
	return func(n *nodeFact) {
		n.labels = map[string]string{corev1.LabelHostname: n.name, corev1.LabelTopologyZone: zone}
		if len(rack) > 0 {
			n.labels["example.com/rack"] = rack[0]
		}
	}
}

// six adds two nodes in each of three zones, and lets time pass.
func six(s *script) *script {
	for _, n := range []string{"a1", "a2", "b1", "b2", "c1", "c2"} {
		s.node(n, 8, in(n[:1]))
	}
	return s.group("g", 1, placed()).group("h", 1, placed()).after(time.Minute)
}

// stands gives a pod the constraints of a pod spec, which is written as users do.
func stands(edit func(*corev1.PodSpec)) func(*podFact) {
	return func(p *podFact) {
		var spec corev1.PodSpec
		edit(&spec)
		p.labels = map[string]string{"app": p.label}
		p.stand = standOf(&corev1.Pod{Spec: spec})
	}
}

func ofGroup() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}}
}

func keptApart(key string) func(*podFact) {
	return stands(func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: ofGroup()}},
		}}
	})
}

func keptTogether(s *corev1.PodSpec) {
	s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone, LabelSelector: ofGroup()}},
	}}
}

func spreadOver(s *corev1.PodSpec) {
	s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: ofGroup(),
	}}
}

func hostPort(n int32) func(*podFact) {
	return stands(func(s *corev1.PodSpec) {
		s.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: n}}}}
	})
}

func saying(what said) func(*podFact) {
	return func(p *podFact) { p.said = what }
}

// each creates pods a, b and so on of group g, one for each given node, and binds them there.
func (s *script) each(edit func(*podFact), nodes ...string) *script {
	names := []string{"a", "b", "c", "d", "e", "f"}[:len(nodes)]
	for _, n := range names {
		s.pod(n, "g", edit)
	}
	for i, n := range names {
		s.bind(n, nodes[i])
	}
	return s
}

func TestTooClose(t *testing.T) {
	host, zone := keptApart(corev1.LabelHostname), keptApart(corev1.LabelTopologyZone)
	close := []broke{{RuleTooClose, "ns/b"}}
	run(t, map[string]tale{
		"a node each":                    {tell: func(s *script) { six(s).each(host, "a1", "a2", "b1") }},
		"two on one node":                {tell: func(s *script) { six(s).each(host, "a1", "a1") }, want: close},
		"two on one node, long after":    {tell: func(s *script) { six(s).each(host, "a1").after(time.Hour).pod("b", "g", host).bind("b", "a1") }, want: close},
		"a zone each":                    {tell: func(s *script) { six(s).each(zone, "a1", "b1", "c1") }},
		"two in one zone":                {tell: func(s *script) { six(s).each(zone, "a1", "a2") }, want: close},
		"nodes of no zone are no domain": {tell: func(s *script) { six(s).node("x", 8).node("y", 8).after(time.Minute).each(zone, "x", "y") }},
		"the first has ended": {tell: func(s *script) {
			six(s).each(host, "a1").edit("a", phase(corev1.PodSucceeded)).pod("b", "g", host).bind("b", "a1")
		}},
		"the first is on its way out": {tell: func(s *script) { six(s).each(host, "a1").edit("a", deleting).pod("b", "g", host).bind("b", "a1") }, want: close},
		"the first goes just after":   {tell: func(s *script) { six(s).each(host, "a1", "a1").remove("a") }, want: close},
		"only the first wants to be away": {tell: func(s *script) {
			six(s).each(host, "a1").pod("b", "g", stands(func(*corev1.PodSpec) {})).bind("b", "a1")
		}, want: close},
		"of another group that is not selected": {tell: func(s *script) {
			six(s).each(host, "a1").pod("b", "h", stands(func(*corev1.PodSpec) {})).bind("b", "a1")
		}},
		"of another group that was bound just before": {tell: func(s *script) { six(s).each(host, "a1").pod("b", "h", host).bind("b", "a1") }},
		"of another group that was bound long before": {
			tell: func(s *script) { six(s).each(host, "a1").after(time.Minute).pod("b", "h", host).bind("b", "a1") }, want: close,
		},
		"another scheduler does it": {tell: func(s *script) { six(s).each(host, "a1").after(time.Minute).pod("b", "g", host).bindBy("x", "b", "a1") }},
		"in an excuse":              {tell: func(s *script) { six(s).excuse(); s.each(host, "a1", "a1") }},
		"in an excuse in which it hears": {
			tell: func(s *script) { six(s).excuse(); s.heard(); s.each(host, "a1", "a1") }, want: close,
		},
		"the node came to the zone a moment before": {tell: func(s *script) {
			six(s).each(zone, "a1").after(time.Minute).node("b1", 8, in("a")).after(4*time.Second).pod("b", "g", zone).bind("b", "b1")
		}},
		"the node came to the zone long before": {
			tell: func(s *script) {
				six(s).each(zone, "a1").after(time.Minute).node("b1", 8, in("a")).after(6*time.Second).pod("b", "g", zone).bind("b", "b1")
			},
			want: close,
		},
		"the node leaves the zone afterwards": {
			tell: func(s *script) { six(s).each(zone, "a1", "a2").after(2*time.Second).node("a2", 8, in("b")) }, want: close,
		},
		"the node came to the zone afterwards": {tell: func(s *script) {
			six(s).each(zone, "a1", "b1").after(2*time.Second).node("b1", 8, in("a"))
		}},
		"a host port on two nodes": {tell: func(s *script) { six(s).each(hostPort(80), "a1", "a2") }},
		"a host port twice on one": {tell: func(s *script) { six(s).each(hostPort(80), "a1", "a1") }, want: close},
		"two host ports on one":    {tell: func(s *script) { six(s).each(hostPort(80), "a1").pod("b", "g", hostPort(81)).bind("b", "a1") }},
		"the port was given back": {tell: func(s *script) {
			six(s).each(hostPort(80), "a1").remove("a").pod("b", "g", hostPort(80)).bind("b", "a1")
		}},
		"another group's host port": {tell: func(s *script) { six(s).each(hostPort(80), "a1").pod("b", "h", hostPort(80)).bind("b", "a1") }, want: close},
		"another scheduler's host port, bound just before": {tell: func(s *script) {
			six(s).pod("a", "", foreign, hostPort(80)).bindBy("x", "a", "a1").pod("b", "h", hostPort(80)).bind("b", "a1")
		}},
	})
}

func TestSkewed(t *testing.T) {
	over := stands(spreadOver)
	skewed := []broke{{RuleSkewed, "ns/c"}}
	run(t, map[string]tale{
		"two each":                      {tell: func(s *script) { six(s).each(over, "a1", "b1", "c1", "a1", "b1", "c1") }},
		"bound in another order":        {tell: func(s *script) { six(s).each(over, "a1", "a1", "b1", "b1", "c1", "c1") }},
		"one more in two":               {tell: func(s *script) { six(s).each(over, "a1", "a2", "b1", "b2", "c1") }},
		"two in one and none in one":    {tell: func(s *script) { six(s).each(over, "a1", "b1", "a2") }, want: skewed},
		"one follows late where it may": {tell: func(s *script) { six(s).each(over, "a1", "b1").after(time.Minute).pod("c", "g", over).bind("c", "c1") }},
		"one follows late where it may not": {
			tell: func(s *script) { six(s).each(over, "a1", "b1").after(time.Minute).pod("c", "g", over).bind("c", "a1") }, want: skewed,
		},
		"a zone has no node": {tell: func(s *script) {
			six(s).removeNode("c1").removeNode("c2").after(time.Minute).each(over, "a1", "b1", "a1", "b1")
		}},
		"a zone had its first node a moment before": {tell: func(s *script) {
			six(s).removeNode("c1").removeNode("c2").after(time.Minute).node("c1", 8, in("c")).after(4*time.Second).each(over, "a1", "b1", "a1")
		}},
		"one of another zone stands on a node that has just left it": {tell: func(s *script) {
			six(s).each(over, "a1", "b1", "c1").after(time.Minute).node("c1", 8, in("a")).after(4*time.Second).pod("d", "g", over).bind("d", "a2")
		}},
		"a zone is new": {tell: func(s *script) {
			six(s).node("d1", 8, in("d")).after(4*time.Second).each(over, "a1", "b1", "c1", "a1")
		}},
		"one that is elsewhere in the end comes later": {
			tell: func(s *script) {
				six(s).pod("d", "g", over).each(over, "a1", "b1", "a2").after(2*time.Second).bind("d", "b2")
			},
			want: []broke{{RuleSkewed, "ns/d"}},
		},
		"a zone lost its last node a moment before": {tell: func(s *script) {
			six(s).removeNode("c1").after(time.Minute).removeNode("c2").after(4*time.Second).each(over, "a1", "b1", "a1")
		}},
		"a zone has none but tainted nodes, which count": {
			tell: func(s *script) {
				six(s).node("c1", 8, in("c"), tainted).node("c2", 8, in("c"), tainted).after(time.Minute).each(over, "a1", "b1", "a1")
			},
			want: skewed,
		},
		"one that was in another zone has just ended": {tell: func(s *script) {
			six(s).each(over, "a1", "b1", "c1").after(time.Minute).edit("c", phase(corev1.PodSucceeded)).after(4*time.Second).pod("d", "g", over).bind("d", "a1")
		}},
		"one that was in another zone ended long ago": {
			tell: func(s *script) {
				six(s).each(over, "a1", "b1", "c1").after(time.Minute).edit("b", phase(corev1.PodSucceeded)).after(6*time.Second).pod("c", "g", over).bind("c", "a1")
			},
			want: skewed,
		},
		"one that was to come there was lost": {tell: func(s *script) {
			six(s)
			for _, n := range []string{"a", "b", "c", "d"} {
				s.pod(n, "g", over)
			}
			s.bind("a", "a1").bind("b", "b1").bind("d", "a2").remove("c")
		}},
		"one that was to come there waits": {tell: func(s *script) {
			six(s).pod("d", "g", over).each(over, "a1", "b1", "a2")
		}},
		"one that is there comes later": {tell: func(s *script) {
			six(s).pod("d", "g", over).each(over, "a1", "b1", "a2").after(2*time.Second).bind("d", "c1")
		}},
		"the scheduler died before it bound another": {tell: func(s *script) {
			six(s).pod("d", "g", over).each(over, "a1", "b1", "a2").excuse()
			s.heard()
			s.after(5*time.Second).bind("d", "c1")
		}},
		"another ended in an outage": {tell: func(s *script) {
			end := six(s).each(over, "a1", "b1", "c1").after(time.Minute).excuse()
			s.edit("b", phase(corev1.PodSucceeded)).after(time.Minute)
			end()
			s.after(2*time.Second).pod("d", "g", over).bind("d", "a1")
		}},
		"in an outage that lasted for long nothing is known": {tell: func(s *script) {
			end := six(s).each(over, "a1", "b1", "c1").after(time.Minute).excuse()
			s.edit("b", phase(corev1.PodSucceeded)).after(5 * time.Minute)
			end()
			s.after(2*time.Second).pod("d", "g", over).bind("d", "a1")
		}},
		"the node was in another zone a moment before": {tell: func(s *script) {
			six(s).node("c1", 8, in("a")).after(4*time.Second).each(over, "a1", "b1", "c1")
		}},
		"another group's pods do not count": {tell: func(s *script) {
			six(s).pod("x", "h", over).bind("x", "a1").pod("y", "h", over).bind("y", "a1").each(over, "a1")
		}},
		"its selector leaves zones out": {tell: func(s *script) {
			six(s).each(stands(func(p *corev1.PodSpec) {
				spreadOver(p)
				p.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"}
			}), "a1", "a2", "a1")
		}},
		"its selector leaves a node out that comes to its zone just after": {tell: func(s *script) {
			six(s).each(stands(func(p *corev1.PodSpec) {
				spreadOver(p)
				p.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"}
			}), "a1", "a2", "a1").after(2*time.Second).node("b1", 8, in("a"))
		}},
	})
}

func TestNotTogether(t *testing.T) {
	with := stands(keptTogether)
	zone := saying(said{required: "zone"})
	rack := saying(said{required: "example.com/rack"})
	parted := []broke{{RuleNotTogether, "ns/b"}}
	racks := func(s *script) *script {
		return six(s).node("r1", 8, in("a", "r")).node("r2", 8, in("a", "r")).node("r3", 8, in("b", "r")).node("r4", 8, in("a", "s")).after(time.Minute)
	}
	run(t, map[string]tale{
		"affinity: in one zone":                       {tell: func(s *script) { six(s).each(with, "a1", "a2", "a1") }},
		"affinity: in two":                            {tell: func(s *script) { six(s).each(with, "a1", "b1") }, want: parted},
		"affinity: long after":                        {tell: func(s *script) { six(s).each(with, "a1").after(time.Hour).pod("b", "g", with).bind("b", "b1") }, want: parted},
		"affinity: another follows to the wrong zone": {tell: func(s *script) { six(s).each(with, "a1", "b1", "b2") }, want: parted},
		"affinity: one that was there has ended long ago": {
			tell: func(s *script) {
				six(s).pod("x", "g", with).bind("x", "b1").edit("x", phase(corev1.PodSucceeded)).after(time.Minute).
					each(with, "a1").pod("b", "g", with).bind("b", "b1")
			},
			want: parted,
		},
		"affinity: the first ended": {tell: func(s *script) {
			six(s).each(with, "a1").edit("a", phase(corev1.PodFailed)).pod("b", "g", with).bind("b", "b1")
		}},
		"affinity: the first goes": {tell: func(s *script) { six(s).each(with, "a1").edit("a", deleting).pod("b", "g", with).bind("b", "b1") }},
		"affinity: one of each zone was there, by another scheduler": {tell: func(s *script) {
			six(s).each(with, "a1").pod("x", "g", with).bindBy("x", "x", "b1").after(time.Minute).pod("b", "g", with).bind("b", "b1")
		}},
		"required: in one zone, on any nodes": {tell: func(s *script) { six(s).each(zone, "a1", "a2", "a1") }},
		"required: in two zones":              {tell: func(s *script) { six(s).each(zone, "a1", "b1") }, want: parted},
		"required: by the PodGroup": {
			tell: func(s *script) {
				six(s).group("g", 2, func(g *groupFact) { g.said = said{required: corev1.LabelTopologyZone} }).after(time.Minute).each(untold, "a1", "b1")
			},
			want: parted,
		},
		"required: the PodGroup goes before the pods": {tell: func(s *script) {
			six(s).group("g", 2, func(g *groupFact) { g.said = said{required: "node"} }).after(time.Minute).each(zone, "a1", "a2")
		}, want: parted},
		"required: said of pods that run, a moment before": {tell: func(s *script) {
			six(s).each(untold, "a1").after(time.Minute).group("g", 2, func(g *groupFact) { g.said = said{required: "zone"} }).after(4*time.Second).pod("b", "g").bind("b", "b1")
		}},
		"required: by a PodGroup that comes to pods that run": {tell: func(s *script) {
			six(s).each(untold, "a1").removeGroup("g").after(time.Minute).
				group("g", 1, func(g *groupFact) { g.said = said{required: "zone"} }).after(4*time.Second).pod("b", "g").bind("b", "b1")
		}},
		"required: by a PodGroup that is made with the pods": {
			tell: func(s *script) {
				six(s).group("k", 1, placed(), func(g *groupFact) { g.said = said{required: "zone"} }).
					pod("a", "k").pod("b", "k").bind("a", "a1").bind("b", "b1")
			},
			want: parted,
		},
		"required: no longer said": {tell: func(s *script) {
			six(s).group("g", 1, func(g *groupFact) { g.said = said{required: "zone"} }).each(untold, "a1").after(time.Minute).
				group("g", 1, func(g *groupFact) { g.said = said{} }).pod("b", "g").bind("b", "b1")
		}},
		"required: in one rack":                      {tell: func(s *script) { racks(s).each(rack, "r1", "r2") }},
		"required: in two racks of a zone":           {tell: func(s *script) { racks(s).each(rack, "r1", "r4") }, want: parted},
		"required: racks of a name in two zones":     {tell: func(s *script) { racks(s).each(rack, "r1", "r3") }, want: parted},
		"required: outside of any rack of a zone":    {tell: func(s *script) { racks(s).each(rack, "a1", "a2") }},
		"required: outside of any rack of two zones": {tell: func(s *script) { racks(s).each(rack, "a1", "b1") }, want: parted},
		"required: on one node":                      {tell: func(s *script) { six(s).each(saying(said{required: "node"}), "a1", "a1") }},
		"required: on two nodes":                     {tell: func(s *script) { six(s).each(saying(said{required: "node"}), "a1", "a2") }, want: parted},
		"required: starts anew elsewhere when none is left": {tell: func(s *script) {
			six(s).each(zone, "a1").edit("a", deleting).pod("b", "g", zone).bind("b", "b1")
		}},
		"required: the first goes just after": {tell: func(s *script) { six(s).each(zone, "a1", "b1").edit("a", deleting) }, want: parted},
		"required: a node came to another zone a moment before": {tell: func(s *script) {
			six(s).each(zone, "a1").after(time.Minute).node("a1", 8, in("c")).after(4*time.Second).pod("b", "g", zone).bind("b", "a2")
		}},
		"required: a node came to another zone long before": {
			tell: func(s *script) {
				six(s).each(zone, "a1").after(time.Minute).node("a1", 8, in("c")).after(6*time.Second).pod("b", "g", zone).bind("b", "a2")
			},
			want: parted,
		},
		"required: they stand in two zones since one came to another": {tell: func(s *script) {
			six(s).each(zone, "a1", "a2").after(time.Minute).node("a2", 8, in("c")).after(time.Minute).pod("c", "g", zone).bind("c", "c1").
				after(time.Second).pod("d", "g", zone).bind("d", "a1")
		}},
		"required: two groups in two zones": {tell: func(s *script) { six(s).each(zone, "a1").pod("b", "h", zone).bind("b", "b1") }},
		"required: not of Fluence's": {tell: func(s *script) {
			six(s).pod("a", "g", zone).bindBy("x", "a", "a1").after(time.Minute).pod("b", "g", zone).bind("b", "b1")
		}},
	})
}

// stranger binds a pod of another namespace to node a1, by another scheduler.
func (s *script) stranger() *script {
	elsewhere := func(p *podFact) { p.key.Namespace = "other" }
	return s.pod("x", "", foreign, elsewhere).bindBy("x", "x", "a1").after(time.Second)
}

func TestNotAlone(t *testing.T) {
	whole := saying(said{exclusive: "true"})
	taken := []broke{{RuleNotAlone, "ns/b"}}
	plain := untold
	run(t, map[string]tale{
		"its own pods":       {tell: func(s *script) { six(s).each(whole, "a1", "a1") }},
		"another follows":    {tell: func(s *script) { six(s).each(whole, "a1").pod("b", "h", plain).bind("b", "a1") }, want: taken},
		"it follows another": {tell: func(s *script) { six(s).each(plain, "a1").pod("b", "h", whole).bind("b", "a1") }, want: taken},
		"by the PodGroup": {tell: func(s *script) {
			six(s).group("h", 1, func(g *groupFact) { g.said = said{exclusive: "true"} }).after(time.Minute).each(plain, "a1").pod("b", "h", plain).bind("b", "a1")
		}, want: taken},
		"by its policy": {tell: func(s *script) {
			six(s).each(saying(said{policy: "lonodex"}), "a1").pod("b", "h", plain).bind("b", "a1")
		}, want: taken},
		"not whole nodes": {tell: func(s *script) {
			six(s).each(saying(said{exclusive: "false", policy: "lonode"}), "a1").pod("b", "h", plain).bind("b", "a1")
		}},
		"on another node": {tell: func(s *script) { six(s).each(whole, "a1").pod("b", "h", plain).bind("b", "a2") }},
		"it has ended": {tell: func(s *script) {
			six(s).each(whole, "a1").edit("a", phase(corev1.PodSucceeded)).pod("b", "h", plain).bind("b", "a1")
		}},
		"it is on its way out": {tell: func(s *script) { six(s).each(whole, "a1").edit("a", deleting).pod("b", "h", plain).bind("b", "a1") }, want: taken},
		"a pod alone":          {tell: func(s *script) { six(s).each(whole, "a1").pod("b", "").bind("b", "a1") }, want: taken},
		"another scheduler's": {tell: func(s *script) {
			six(s).pod("x", "", foreign).bindBy("x", "x", "a1").after(time.Minute).each(whole, "a1")
		}},
		"its PodGroup goes": {tell: func(s *script) {
			six(s).group("g", 1, func(g *groupFact) { g.said = said{exclusive: "true"} }).after(time.Minute).each(plain, "a1").removeGroup("g").pod("b", "h", plain).bind("b", "a1")
		}},
		"its PodGroup goes, which said otherwise": {tell: func(s *script) {
			six(s).group("g", 1, func(g *groupFact) { g.said = said{exclusive: "false"} }).after(time.Minute).each(whole, "a1").removeGroup("g").pod("b", "h", plain).bind("b", "a1")
		}},
		"its own scheduler's pod that another bound": {tell: func(s *script) {
			six(s).pod("x", "h", plain).bindBy("x", "x", "a1").after(time.Minute).each(whole, "a1")
		}},
		"another namespace's pod is there": {tell: func(s *script) { six(s).each(whole, "a1").stranger(); s.pod("b", "h", plain).bind("b", "a1") }, want: taken},
		"another namespace's pod is there, and the scheduler starts anew": {tell: func(s *script) {
			six(s).each(whole, "a1").stranger().excuse()()
			s.after(time.Minute).pod("b", "h", plain).bind("b", "a1")
		}},
		"another namespace's pod was there, and the scheduler started anew": {tell: func(s *script) {
			six(s).each(whole, "a1").stranger().excuse()()
			s.after(time.Second).remove("x").after(time.Hour).pod("b", "h", plain).bind("b", "a1")
		}},
		"another namespace's pod comes after the scheduler has started anew": {tell: func(s *script) {
			six(s).each(whole, "a1").excuse()()
			s.after(time.Minute).stranger().after(time.Minute).pod("b", "h", plain).bind("b", "a1")
		}, want: taken},
		"a pod of its own namespace is there, and the scheduler starts anew": {tell: func(s *script) {
			six(s).each(whole, "a1").pod("x", "", foreign).bindBy("x", "x", "a1").after(time.Second).excuse()()
			s.after(time.Minute).pod("b", "h", plain).bind("b", "a1")
		}, want: taken},
		"the scheduler was dead": {tell: func(s *script) { six(s).each(whole, "a1").excuse(); s.heard(); s.pod("b", "h", plain).bind("b", "a1") }, want: taken},
	})
}

func TestNoLevel(t *testing.T) {
	broken := []broke{{RuleNoLevel, "ns/a"}}
	silent := []broke{{RuleNoReason, "ns/g"}}
	row := saying(said{required: "row"})
	run(t, map[string]tale{
		"required":                    {tell: func(s *script) { six(s).each(row, "a1") }, want: broken},
		"balanced":                    {tell: func(s *script) { six(s).each(saying(said{balanced: "row"}), "a1") }, want: broken},
		"one of those preferred":      {tell: func(s *script) { six(s).each(saying(said{preferred: "zone, row"}), "a1") }, want: broken},
		"exclusive to what extent":    {tell: func(s *script) { six(s).each(saying(said{exclusive: "yes"}), "a1") }, want: broken},
		"in an outage":                {tell: func(s *script) { s.excuse(); six(s).each(row, "a1") }, want: broken},
		"another scheduler starts it": {tell: func(s *script) { six(s).pod("a", "g", row).bindBy("x", "a", "a1") }},
		"all of them are known": {tell: func(s *script) {
			six(s).each(saying(said{preferred: "zone, rack", balanced: "node", exclusive: "true"}), "a1")
		}},
		"the PodGroup says a level that there is": {tell: func(s *script) {
			six(s).group("g", 1, func(g *groupFact) { g.said = said{required: "zone"} }).after(time.Minute).each(row, "a1")
		}},
		"said while it runs": {tell: func(s *script) {
			six(s).pod("a", "g").bind("a", "a1").group("g", 1, func(g *groupFact) { g.said = said{required: "row"} }).after(time.Minute)
		}},
		"it waits, and is told so": {tell: func(s *script) {
			six(s).pod("a", "g", row).group("g", 1, because("InvalidTopology", "no such level")).after(time.Hour)
		}},
		"it waits, and is told so in time": {tell: func(s *script) {
			six(s).pod("a", "g", row).group("g", 1, refusal()).after(14*time.Second).group("g", 1, because("InvalidTopology", "no such level")).after(time.Hour)
		}},
		"it waits, and is told something else": {
			tell: func(s *script) { six(s).pod("a", "g", row).group("g", 1, refusal()).after(time.Hour) }, want: silent,
		},
		"it waits, and another of its annotations is wrong": {tell: func(s *script) {
			six(s).pod("a", "g", row).group("g", 1, because("InvalidMatchPolicy", "no such policy")).after(time.Hour)
		}},
		"one of two members says so": {tell: func(s *script) {
			six(s).pod("a", "g", row).pod("b", "g").group("g", 2, refusal()).after(time.Hour)
		}},
	})
}

// Constraints that the rules do not know are not judged.
func TestStandOf(t *testing.T) {
	term := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: ofGroup()}
	elsewhere := term
	elsewhere.Namespaces = []string{"other"}
	even := corev1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: ofGroup()}
	soft, odd := even, even
	soft.WhenUnsatisfiable = corev1.ScheduleAnyway
	odd.MinDomains = new(int32(3))
	s := standOf(&corev1.Pod{Spec: corev1.PodSpec{
		Affinity: &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term, elsewhere}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{elsewhere, term}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{soft, even, odd},
		Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{ContainerPort: 1}, {HostPort: 2, Protocol: corev1.ProtocolUDP}, {HostPort: 3, HostIP: "10.0.0.1"},
		}}},
	}})
	if len(s.together) != 1 || len(s.apart) != 1 || len(s.spreads) != 1 || s.spreads[0].most != 2 || len(s.ports) != 1 || s.ports[0] != (port{2, corev1.ProtocolUDP}) {
		t.Errorf("standOf() = %+v, want one term each, one constraint of 2 and port 2", s)
	}
}
