package gang

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

var exclusive = annotated(group.ExclusiveAnnotation, "true")

// pgOf returns the PodGroup of a gang.
func pgOf(minMember int32, change ...func(*PodGroup)) PodGroup {
	pg := PodGroup{UID: "pg", MinMember: minMember, Created: noon}
	for _, c := range change {
		c(&pg)
	}
	return pg
}

// run brings existing pods onto nodes. The first pod is the representative.
func (s *story) run(names ...string) Plan {
	s.Helper()
	p := s.match(names[0])
	if err := s.Reserve(types.UID(names[0]), "n-"+names[0]); err != nil {
		s.Fatal(err)
	}
	if ok, _ := s.Permit(types.UID(names[0])); ok {
		s.sendBinds(names[0])
	}
	s.reserve(names[1:]...)
	for _, name := range names {
		s.ObserveBind(types.UID(name))
		s.update(name, objects.OnNode("n-"+name))
	}
	return p
}

// The match settles whether nodes are exclusive. A later annotation
// changes nothing for pods that run, and is reported as too late.
func TestWholeNodesAreSettledByTheMatch(t *testing.T) {
	changes := map[string]func(*story) Output{
		"the PodGroup says exclusive": func(s *story) Output {
			return s.PutPodGroup(key, pgOf(2, func(pg *PodGroup) { pg.Topology.Exclusive = "true" }))
		},
		"the PodGroup names a policy": func(s *story) Output {
			return s.PutPodGroup(key, pgOf(2, func(pg *PodGroup) { pg.Policy = match.PolicyLonodex }))
		},
		"a pod says exclusive": func(s *story) Output { return s.update("0", exclusive) },
		"a pod names a policy": func(s *story) Output {
			return s.update("1", annotated(group.MatchPolicyAnnotation, match.PolicyLonodex))
		},
		"a new pod is exclusive": func(s *story) Output { return s.add("2", exclusive) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.MarkSynced()
			s.start(2)
			s.Placed()
			e := change(s)
			if got := s.HolderOf(s.pods["0"]); got != "" || slices.Contains(e.Recheck, "0") {
				t.Errorf("the nodes are of %q, and booked anew are %v; want them shared as before", got, e.Recheck)
			}
			if p := s.Placed(); len(p) != 1 || p[0].Exclusive || p[0].LateAnnotation == "" {
				t.Errorf("placed: %+v, want that the annotation came too late", p)
			}
			s.update("0", annotated("other", "thing"))
			if p := s.Placed(); len(p) != 0 {
				t.Errorf("it is told again: %+v", p)
			}
			if s.pods["2"] == nil {
				s.add("2")
			}
			if p, _ := s.Plan("2", s.now); p.Policy != match.PolicyLonode {
				t.Errorf("a pod that comes later is asked for by the policy %q, want the nodes to be shared as before", p.Policy)
			}
		})
	}
}

// A group that was given whole nodes keeps them, even if the annotation goes.
func TestExclusivityOutlivesItsAnnotation(t *testing.T) {
	changes := map[string]func(*story){
		"the pod that asked is deleted": func(s *story) { s.DropPod("0") },
		"it ends":                       func(s *story) { s.update("0", objects.InPhase(corev1.PodSucceeded)) },
		"it does not say so any more":   func(s *story) { s.update("0", annotated(group.ExclusiveAnnotation, "")) },
		"the PodGroup says otherwise": func(s *story) {
			s.PutPodGroup(key, pgOf(2, func(pg *PodGroup) { pg.Topology.Exclusive = "false" }))
		},
		"the namespace may not any more": func(s *story) {
			s.SetExclusiveRules(ExclusiveRules{WhyDenied: func(string) string { return "no" }})
			s.NamespaceChanged(key.Namespace)
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.MarkSynced()
			s.PutPodGroup(key, pgOf(2))
			s.add("0", exclusive)
			s.add("1")
			s.run("0", "1")
			if p := s.Placed(); len(p) != 1 || !p[0].Exclusive || p[0].LateAnnotation != "" {
				t.Errorf("placed: %+v, want whole nodes", p)
			}
			change(s)
			if got := s.HolderOf(s.pods["1"]); got != key.String() {
				t.Errorf("the nodes are of %q, want the group", got)
			}
			s.add("2")
			p, _ := s.Plan("2", s.now)
			if name == "the namespace may not any more" {
				if p.Wait.Reason != reason.NotAllowed {
					t.Errorf("a pod that comes later asks by %q (%+v), want it to get no more whole nodes", p.Policy, p.Wait)
				}
				return
			}
			if p.Policy != match.PolicyLonodex {
				t.Errorf("a pod that comes later is asked for by the policy %q (%+v), want whole nodes as before", p.Policy, p.Wait)
			}
		})
	}
}

// After a restart the status says whether nodes are exclusive. Without it the annotations
// say so, if the namespace may have whole nodes and no foreign pod is on the node.
func TestWholeNodesAfterARestart(t *testing.T) {
	yes := func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = Exclusive, noon.Add(time.Hour) }
	no := func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = Shared, noon.Add(time.Hour) }
	stale := func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = Exclusive, noon.Add(-time.Hour) }
	staleNo := func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = Shared, noon.Add(-time.Hour) }
	denied := func(string) string { return "no" }
	onFirst := func(node, namespace string) bool { return node == "n-0" && namespace == key.Namespace }
	cases := map[string]struct {
		says   func(*corev1.Pod)
		status func(*PodGroup)
		rules  ExclusiveRules
		whole  string // the pods whose nodes are exclusive
	}{
		"nothing is said":                      {says: objects.OnNode("n-0")},
		"an annotation":                        {says: exclusive, whole: "01"},
		"a policy":                             {says: annotated(group.MatchPolicyAnnotation, match.PolicyLonodex), whole: "01"},
		"an annotation that the namespace may": {says: exclusive, rules: ExclusiveRules{WhyDenied: func(string) string { return "" }}, whole: "01"},
		"one that it may not":                  {says: exclusive, rules: ExclusiveRules{WhyDenied: denied}},
		"others are on one node":               {says: exclusive, rules: ExclusiveRules{HasForeignPods: onFirst}, whole: "1"},
		"the status says so":                   {says: exclusive, status: yes, rules: ExclusiveRules{WhyDenied: denied}, whole: "01"},
		"the status says so, beside others":    {says: exclusive, status: yes, rules: ExclusiveRules{HasForeignPods: onFirst}, whole: "1"},
		"the status of another incarnation":    {says: objects.OnNode("n-0"), status: stale, rules: ExclusiveRules{WhyDenied: denied}},
		"that one, which said otherwise":       {says: exclusive, status: staleNo, whole: "01"},
		"the status alone says so":             {says: objects.OnNode("n-0"), status: yes, whole: "01"},
		"the status says otherwise":            {says: exclusive, status: no},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.SetExclusiveRules(tc.rules)
			pg := pgOf(2)
			if tc.status != nil {
				tc.status(&pg)
			}
			s.PutPodGroup(key, pg)
			s.add("0", objects.OnNode("n-0"), tc.says)
			s.add("1", objects.OnNode("n-1"))
			e := s.MarkSynced()
			slices.Sort(e.Recheck)
			if !slices.Equal(e.Recheck, []types.UID{"0", "1"}) {
				t.Errorf("booked anew are %v, want both pods", e.Recheck)
			}
			held := func() (whole string) {
				for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
					if s.HolderOf(s.pods[uid]) == key.String() {
						whole += uid
					}
				}
				return whole
			}
			if got := held(); got != tc.whole {
				t.Errorf("of the nodes of pods 0 and 1 the group's are those of %q, want %q", got, tc.whole)
			}
			// What comes after that is too late.
			s.update("1", exclusive)
			s.PutPodGroup(key, pgOf(2, func(p *PodGroup) {
				p.Exclusivity, p.ExclusivitySince, p.Policy = pg.Exclusivity, pg.ExclusivitySince, match.PolicyHinodex
			}))
			if got := held(); got != tc.whole {
				t.Errorf("and later those of %q, want %q as before", got, tc.whole)
			}
		})
	}
}

// A standby sees pods come to nodes before the status says whether these are exclusive.
func TestWholeNodesOnAStandby(t *testing.T) {
	s := newStory(t)
	s.MarkSynced()
	s.gang(2, 2)
	s.update("0", objects.OnNode("n-0"))
	if got := s.HolderOf(s.pods["0"]); got != "" {
		t.Errorf("the node is of %q, want nobody", got)
	}
	e := s.PutPodGroup(key, pgOf(2, func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = Exclusive, noon.Add(time.Hour) }))
	if got := s.HolderOf(s.pods["0"]); got != key.String() || !slices.Equal(e.Recheck, []types.UID{"0"}) {
		t.Errorf("the node is of %q, booked anew are %v; want it to be the group's, by its status", got, e.Recheck)
	}
	e = s.PutPodGroup(key, pgOf(2))
	if got := s.HolderOf(s.pods["0"]); got != "" || !slices.Equal(e.Recheck, []types.UID{"0"}) {
		t.Errorf("the node is of %q, booked anew are %v; want it shared, since the status was taken back", got, e.Recheck)
	}
}

// A pod that is put onto a node by its name, or into a group that
// has whole nodes, gets no exclusive node if foreign pods are there.
func TestPreplacedPodGetsNoExclusiveNodeBesideForeignPods(t *testing.T) {
	cases := map[string]func(*story) Output{
		"by name": func(s *story) Output { return s.add("2", objects.OnNode("busy")) },
		"by a label": func(s *story) Output {
			s.add("2", objects.OnNode("busy"), func(p *corev1.Pod) { p.Labels = nil })
			return s.update("2", objects.InGroup(key.Name))
		},
	}
	for name, join := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.SetExclusiveRules(ExclusiveRules{HasForeignPods: func(node, _ string) bool { return node == "busy" }})
			s.MarkSynced()
			s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Topology.Exclusive = "true" }))
			s.add("0")
			s.run("0")
			e := join(s)
			if got := s.HolderOf(s.pods["2"]); got != "" || !slices.Contains(e.Recheck, "2") {
				t.Errorf("the node is of %q, booked anew are %v; want it shared", got, e.Recheck)
			}
			if got := s.HolderOf(s.pods["0"]); got != key.String() {
				t.Errorf("the matched node is of %q, want the group", got)
			}
		})
	}
}

// An incarnation does not settle the exclusivity of the next one.
func TestTheNextIncarnationIsSettledByItsOwnMatch(t *testing.T) {
	s := newStory(t)
	s.MarkSynced()
	s.PutPodGroup(key, pgOf(1))
	s.add("0", exclusive)
	s.run("0")
	if got := s.HolderOf(s.pods["0"]); got != key.String() {
		t.Fatalf("the node is of %q, want the group", got)
	}
	s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = Exclusive, noon.Add(time.Second) }))
	s.update("0", objects.InPhase(corev1.PodSucceeded))
	s.DropPod("0")
	delete(s.pods, "0")
	s.now = noon.Add(time.Hour)
	s.add("1", func(p *corev1.Pod) { p.CreationTimestamp.Time = s.now })
	if p := s.run("1"); p.Policy != match.PolicyLonode {
		t.Errorf("it is asked for by the policy %q, want shared nodes", p.Policy)
	}
	if got := s.HolderOf(s.pods["1"]); got != "" {
		t.Errorf("the node is of %q, want nobody", got)
	}
}

func TestANamespaceThatMayNotHaveWholeNodes(t *testing.T) {
	why := `namespace "ns" may not`
	cases := map[string]struct {
		edit func(*corev1.Pod)
		pg   func(*PodGroup)
		def  string
		want string // what the message begins with; empty if the group may be placed
	}{
		"shared":                      {edit: annotated(group.ExclusiveAnnotation, "false")},
		"exclusive":                   {edit: exclusive, want: `annotation fluence.flux-framework.org/exclusive: "true": ` + why},
		"a policy":                    {edit: annotated(group.MatchPolicyAnnotation, match.PolicyHinodex), want: `annotation fluence.flux-framework.org/match-policy: "hinodex": ` + why},
		"the PodGroup":                {pg: func(pg *PodGroup) { pg.Topology.Exclusive = "true" }, want: `annotation fluence.flux-framework.org/exclusive: "true": ` + why},
		"the PodGroup's policy":       {pg: func(pg *PodGroup) { pg.Policy = match.PolicyLonodex }, want: `annotation fluence.flux-framework.org/match-policy: "lonodex": ` + why},
		"the scheduler's own is none": {edit: exclusive, def: match.PolicyLonodex},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			if tc.def != "" {
				s.Groups = New(seenOwners{}, tc.def)
			}
			may := false
			s.SetExclusiveRules(ExclusiveRules{WhyDenied: func(ns string) string {
				if may || ns != key.Namespace {
					return ""
				}
				return why
			}})
			pg := pgOf(2)
			if tc.pg != nil {
				tc.pg(&pg)
			}
			s.PutPodGroup(key, pg)
			s.add("0")
			s.add("1", func(p *corev1.Pod) {
				if tc.edit != nil {
					tc.edit(p)
				}
			})
			v := s.PreEnqueue("0", s.now)
			if tc.want == "" {
				if !v.Pass {
					t.Errorf("verdict %+v, want it to ask", v)
				}
				return
			}
			if v.Pass || v.Reason != reason.NotAllowed || !strings.HasPrefix(v.Message, tc.want) {
				t.Errorf("verdict %+v, want the reason %s and %q", v, reason.NotAllowed, tc.want)
			}
			may = true
			if got := s.NamespaceChanged("elsewhere").Activate; len(got) != 0 {
				t.Errorf("the change of another namespace is one for %v", got)
			}
			if got := s.NamespaceChanged(key.Namespace).Activate; !slices.Equal(got, []types.NamespacedName{key}) {
				t.Errorf("the change of the namespace is one for %v, want the group", got)
			}
			if v := s.PreEnqueue("0", s.now); !v.Pass {
				t.Errorf("verdict %+v once the namespace may", v)
			}
		})
	}
}

// A node that was matched as exclusive stays so, even if between the match and the
// bind a user puts a pod onto it by its name, or takes the label from the namespace.
func TestMatchedNodeStaysExclusiveDespiteForeignPods(t *testing.T) {
	s := newStory(t)
	rules := ExclusiveRules{WhyDenied: func(string) string { return "" }, HasForeignPods: func(string, string) bool { return false }}
	s.SetExclusiveRules(rules)
	s.MarkSynced()
	s.PutPodGroup(key, pgOf(1))
	s.add("0", exclusive)
	s.match("0")
	if err := s.Reserve("0", "n-0"); err != nil {
		t.Fatal(err)
	}
	s.Permit("0")
	s.sendBinds("0")
	s.SetExclusiveRules(ExclusiveRules{WhyDenied: func(string) string { return "no" }, HasForeignPods: func(string, string) bool { return true }})
	s.ObserveBind("0")
	if e := s.update("0", objects.OnNode("n-0")); len(e.Recheck) != 0 {
		t.Errorf("booked anew are %v, want nothing: it was booked by the match", e.Recheck)
	}
	if got := s.HolderOf(s.pods["0"]); got != key.String() {
		t.Errorf("the node is of %q, want the group", got)
	}
}

// A namespace that may not have whole nodes any more gets no more of them by
// pods that are put onto nodes by name, into a group that has whole nodes.
func TestPreplacedPodGetsNoExclusiveNodeInDeniedNamespace(t *testing.T) {
	s := newStory(t)
	why := ""
	s.SetExclusiveRules(ExclusiveRules{WhyDenied: func(string) string { return why }})
	s.MarkSynced()
	s.PutPodGroup(key, pgOf(1))
	s.add("0", exclusive)
	s.run("0")
	s.add("1", objects.OnNode("n-1"))
	why = "no"
	s.add("2", objects.OnNode("n-2"))
	for pod, want := range map[string]string{"0": key.String(), "1": key.String(), "2": ""} {
		if got := s.HolderOf(s.pods[pod]); got != want {
			t.Errorf("the node of pod %s is of %q, want %q", pod, got, want)
		}
	}
}

// A node that is settled as exclusive stays so, even if a foreign pod comes to it later.
func TestForeignPodThatComesLaterDoesNotChangeExclusivity(t *testing.T) {
	s := newStory(t)
	shared := false
	s.SetExclusiveRules(ExclusiveRules{HasForeignPods: func(string, string) bool { return shared }})
	s.PutPodGroup(key, pgOf(1))
	s.add("0", objects.OnNode("n-0"), exclusive)
	s.MarkSynced()
	shared = true
	if e := s.update("0", annotated("other", "thing")); len(e.Recheck) != 0 || s.HolderOf(s.pods["0"]) != key.String() {
		t.Errorf("the node is of %q, booked anew are %v; want it to stay the group's", s.HolderOf(s.pods["0"]), e.Recheck)
	}
}

// The status decides for a process that did not match the group, and not for one that did.
func TestStatusDoesNotOverrideOwnMatch(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*corev1.Pod)
		says  Exclusivity
		owner string
	}{
		"shared, and it says whole": {func(*corev1.Pod) {}, Exclusive, ""},
		"whole, and it says shared": {exclusive, Shared, key.String()},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.MarkSynced()
			s.PutPodGroup(key, pgOf(1))
			s.add("0", tc.edit)
			s.run("0")
			e := s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = tc.says, noon.Add(time.Hour) }))
			if got := s.HolderOf(s.pods["0"]); got != tc.owner || len(e.Recheck) != 0 {
				t.Errorf("the node is of %q, booked anew are %v; want %q", got, e.Recheck, tc.owner)
			}
		})
	}
}

// If this process matched one incarnation, others may have matched the next.
func TestStatusDecidesForIncarnationMatchedElsewhere(t *testing.T) {
	s := newStory(t)
	s.MarkSynced()
	s.PutPodGroup(key, pgOf(1))
	s.add("0")
	s.run("0")
	s.DropPod("0")
	s.add("1", objects.OnNode("n-1"))
	s.PutPodGroup(key, pgOf(1, func(pg *PodGroup) { pg.Exclusivity, pg.ExclusivitySince = Exclusive, noon.Add(time.Hour) }))
	if got := s.HolderOf(s.pods["1"]); got != key.String() {
		t.Errorf("the node is of %q, want the group, by its status", got)
	}
}

// Once a group is matched, an annotation changes none of its nodes,
// bound or not. Nothing is reported about its nodes before it runs.
func TestAnAnnotationBetweenTheMatchAndTheBindIsTooLate(t *testing.T) {
	for name, tc := range map[string]struct {
		first, then func(*corev1.Pod)
		owner       string
	}{
		"shared": {func(*corev1.Pod) {}, exclusive, ""},
		"whole":  {exclusive, annotated(group.ExclusiveAnnotation, "false"), key.String()},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.MarkSynced()
			s.PutPodGroup(key, pgOf(1))
			s.add("0", tc.first)
			s.match("0")
			s.update("0", tc.then)
			if got := s.HolderOf(s.pods["0"]); got != tc.owner {
				t.Errorf("the node is of %q, want %q", got, tc.owner)
			}
			if whole, inVain, _ := s.ExclusivityOf(key); whole || inVain != "" {
				t.Errorf("told of a group that has not started: %t, %q", whole, inVain)
			}
		})
	}
}

// If the namespace may not have whole nodes, annotations of pods on unsettled nodes give them none.
func TestDeniedAnnotationGivesNoExclusiveNodes(t *testing.T) {
	s := newStory(t)
	s.SetExclusiveRules(ExclusiveRules{WhyDenied: func(string) string { return "no" }})
	s.PutPodGroup(key, pgOf(1))
	s.add("0", objects.OnNode("n-0"), exclusive)
	if got := s.HolderOf(s.pods["0"]); got != "" {
		t.Errorf("before all is listed the node is of %q, want nobody", got)
	}
	s.MarkSynced()
	if whole, inVain, _ := s.ExclusivityOf(key); whole || inVain != group.ExclusiveAnnotation {
		t.Errorf("the group is told to have whole nodes: %t, in vain: %q", whole, inVain)
	}
}

// The scheduler's own policy does not depend on the namespace.
func TestDenialDoesNotApplyToSchedulerPolicy(t *testing.T) {
	s := newStory(t)
	s.Groups = New(seenOwners{}, match.PolicyLonodex)
	s.SetExclusiveRules(ExclusiveRules{WhyDenied: func(string) string { return "no" }})
	s.MarkSynced()
	s.PutPodGroup(key, pgOf(1))
	s.add("0")
	s.run("0")
	s.add("1")
	if p, _ := s.Plan("1", s.now); p.Policy != match.PolicyLonodex {
		t.Errorf("a pod that comes later is asked for by %q (%+v), want whole nodes as before", p.Policy, p.Wait)
	}
}

// The annotation of a pod that has ended does not keep other pods from being placed.
func TestAPodThatHasEndedIsNotDenied(t *testing.T) {
	s := newStory(t)
	s.SetExclusiveRules(ExclusiveRules{WhyDenied: func(string) string { return "no" }})
	s.gang(1, 1)
	s.add("ended", annotated(group.MatchPolicyAnnotation, match.PolicyHinodex), objects.InPhase(corev1.PodFailed))
	if v := s.PreEnqueue("0", s.now); !v.Pass {
		t.Errorf("verdict %+v, want it to ask", v)
	}
}

// A group does not wait for room while its namespace denies it what it asks for.
func TestDeniedGroupDoesNotWaitForRoom(t *testing.T) {
	s := newStory(t)
	why := ""
	s.SetExclusiveRules(ExclusiveRules{WhyDenied: func(string) string { return why }})
	s.PutPodGroup(key, pgOf(1))
	s.add("0", exclusive)
	s.refuse("0", noRoom)
	s.now = s.now.Add(minute)
	s.wantStarving("g")
	why = "no"
	s.NamespaceChanged(key.Namespace)
	s.wantStarving()
}

// More exclusive nodes, or more shared ones, are matched in the same order.
func TestPoliciesOfTheSameOrder(t *testing.T) {
	for policy, want := range map[string][2]string{
		match.PolicyFirst: {match.PolicyFirstnodex, match.PolicyFirst}, match.PolicyFirstnodex: {match.PolicyFirstnodex, match.PolicyFirst},
		match.PolicyHigh: {match.PolicyHinodex, match.PolicyHigh}, match.PolicyHinode: {match.PolicyHinodex, match.PolicyHinode},
		match.PolicyHinodex: {match.PolicyHinodex, match.PolicyHinode},
		match.PolicyLow:     {match.PolicyLonodex, match.PolicyLow}, match.PolicyLonode: {match.PolicyLonodex, match.PolicyLonode},
		match.PolicyLonodex: {match.PolicyLonodex, match.PolicyLonode}, "": {match.PolicyLonodex, ""},
	} {
		if got := [2]string{exclusivePolicy(policy), sharedPolicy(policy)}; got != want {
			t.Errorf("whole and shared of %q: %q, want %q", policy, got, want)
		}
	}
}

// A pod that goes to another group is booked anew, even before all is known.
func TestPodThatChangesItsGroupIsRechecked(t *testing.T) {
	s := newStory(t)
	s.add("0", objects.OnNode("n-0"))
	if e := s.update("0", func(p *corev1.Pod) { p.Labels[group.Label] = "other" }); !slices.Contains(e.Recheck, "0") {
		t.Errorf("booked anew are %v, want the pod", e.Recheck)
	}
}
