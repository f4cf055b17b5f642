package gang

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// levels are the levels in the stories about topology.
var levels = []group.Level{{Type: "zone", Key: "topology.kubernetes.io/zone"}, {Type: "rack", Key: "example.com/rack"}}

// annotated sets an annotation of a pod.
func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

func newLevelStory(t *testing.T) *story {
	s := newStory(t)
	s.Groups = New(seenOwners{}, match.PolicyHinode, levels...)
	return s
}

func TestUnknownLevelHoldsGroup(t *testing.T) {
	s := newLevelStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Created: noon})
	s.add("0", annotated(group.TopologyRequiredAnnotation, "row"))
	s.add("1")
	s.wantEnqueueable()
	if v := s.PreEnqueue("0", s.now); v.Reason != reason.InvalidTopology || !strings.Contains(v.Message, `"row"`) {
		t.Errorf("verdict = %+v, want %s by name", v, reason.InvalidTopology)
	}
	// The PodGroup's annotation goes before the pods'.
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 2, Created: noon, Topology: group.TopologyAnnotations{Required: "rack"}})
	s.wantEnqueueable("0")
	if p, _ := s.Plan("0", s.now); p.Topology == nil || p.Topology.Required != "rack" {
		t.Errorf("topology of the plan = %+v, want rack", p.Topology)
	}
}

func TestPodsPerNode(t *testing.T) {
	s := newLevelStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 3, Created: noon})
	s.add("0", annotated(group.PodsPerNodeAnnotation, "2"))
	s.add("1")
	s.add("2", annotated(group.PodsPerNodeAnnotation, "none"))
	if v := s.PreEnqueue("0", s.now); v.Reason != reason.InvalidTopology || !strings.Contains(v.Message, `("2", "none")`) {
		t.Errorf("verdict = %+v, want %s with both values", v, reason.InvalidTopology)
	}
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 3, Created: noon, Topology: group.TopologyAnnotations{PodsPerNode: "1"}})
	if p, _ := s.Plan("0", s.now); p.PodsPerNode != 1 || len(p.Occupied) > 0 {
		t.Errorf("the plan has %d pods per node and pods on %v, want 1 and none", p.PodsPerNode, p.Occupied)
	}
}

func TestAWrongNumberOfPodsPerNodeIsNamed(t *testing.T) {
	const want = "annotation " + group.PodsPerNodeAnnotation + `: "none": must be a whole number from 1 to 100000`
	for name, podGroup := range map[string]group.TopologyAnnotations{"of the pods": {}, "of the PodGroup": {PodsPerNode: "none"}} {
		t.Run(name, func(t *testing.T) {
			s := newLevelStory(t)
			s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Topology: podGroup})
			s.add("0", annotated(group.PodsPerNodeAnnotation, "none"))
			if v := s.PreEnqueue("0", s.now); v.Reason != reason.InvalidTopology || v.Message != want {
				t.Errorf("verdict = %+v, want %s: %s", v, reason.InvalidTopology, want)
			}
		})
	}
}

func TestPodsPerNodeCountPodsThatAreThere(t *testing.T) {
	s := newLevelStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
	// Only the pods that run have the annotation, as with a leader's template.
	asks := annotated(group.PodsPerNodeAnnotation, "2")
	for i, edit := range []func(*corev1.Pod){
		func(*corev1.Pod) {}, func(*corev1.Pod) {},
		func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} },
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
	} {
		s.add(strconv.Itoa(i), asks, func(p *corev1.Pod) { p.Spec.NodeName = "n-" + strconv.Itoa(min(i, 1)) }, edit)
	}
	s.add("4")
	p, _ := s.Plan("4", s.now)
	slices.Sort(p.Occupied)
	if p.PodsPerNode != 2 || !slices.Equal(p.Occupied, []string{"n-0", "n-1", "n-1"}) {
		t.Errorf("the plan has %d pods per node and pods on %v, want 2 and all that have not ended", p.PodsPerNode, p.Occupied)
	}
}

func TestPodsPerNodeOfPodsWithDifferentValues(t *testing.T) {
	for name, tc := range map[string]struct {
		running []string
		waiting string
		want    int64
	}{
		"the waiting pod asks for fewer":                      {[]string{"2", "2"}, "1", 1},
		"the waiting pod asks for more":                       {[]string{"2", "2"}, "10", 10},
		"the smallest number of the running pods":             {[]string{"10", "9"}, "", 9},
		"an invalid value of a running pod is no bound":       {[]string{"many"}, "", 0},
		"an invalid value of a running pod drops no bound":    {[]string{"many", "2"}, "", 2},
		"an invalid value does not replace the waiting pod's": {[]string{"many"}, "2", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLevelStory(t)
			s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
			for i, value := range tc.running {
				s.add(strconv.Itoa(i), annotated(group.PodsPerNodeAnnotation, value), func(p *corev1.Pod) { p.Spec.NodeName = "n" })
			}
			s.add("late", annotated(group.PodsPerNodeAnnotation, tc.waiting))
			if p, ok := s.Plan("late", s.now); p.PodsPerNode != tc.want {
				t.Errorf("the plan (%v) has %d pods per node, want %d", ok, p.PodsPerNode, tc.want)
			}
		})
	}
}

func TestTopologyOfOnePodAppliesToGroup(t *testing.T) {
	cases := map[string]struct {
		said []func(*corev1.Pod) // of pods 0, 1 and 2
		want *jobspec.Topology
		// wantErr lists parts of what is reported of the group.
		wantErr []string
	}{
		"the one that asks says nothing": {said: []func(*corev1.Pod){nil, annotated(group.TopologyRequiredAnnotation, "rack"), nil}, want: &jobspec.Topology{Required: "rack"}},
		"all say the same": {said: []func(*corev1.Pod){
			annotated(group.TopologyRequiredAnnotation, "rack"), annotated(group.TopologyRequiredAnnotation, "rack"), annotated(group.TopologyRequiredAnnotation, "rack"),
		}, want: &jobspec.Topology{Required: "rack"}},
		"each says another thing": {said: []func(*corev1.Pod){annotated(group.TopologyRequiredAnnotation, "zone"), annotated(group.TopologyPreferredAnnotation, "rack"), nil}, want: &jobspec.Topology{Required: "zone", Preferred: []string{"rack"}}},
		"they differ":             {said: []func(*corev1.Pod){annotated(group.TopologyRequiredAnnotation, "zone"), annotated(group.TopologyRequiredAnnotation, "rack"), nil}, wantErr: []string{group.TopologyRequiredAnnotation, `("rack", "zone")`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newLevelStory(t)
			s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 3, Created: noon})
			for i, say := range tc.said {
				if say == nil {
					say = func(*corev1.Pod) {}
				}
				s.add(strconv.Itoa(i), say)
			}
			v := s.PreEnqueue("0", s.now)
			p, _ := s.Plan("0", s.now)
			if v.Pass != (tc.wantErr == nil) || !reflect.DeepEqual(p.Topology, tc.want) {
				t.Errorf("verdict %+v, topology %+v; want %+v", v, p.Topology, tc.want)
			}
			for _, part := range tc.wantErr {
				if v.Reason != reason.InvalidTopology || !strings.Contains(v.Message, part) {
					t.Errorf("verdict %+v, want %s with %s", v, reason.InvalidTopology, part)
				}
			}
		})
	}
}

// Pods that run do not count: otherwise a new template would wait for the pods of the old one.
func TestTopologyOfRunningPodsIsIgnored(t *testing.T) {
	s := newLevelStory(t)
	s.start(2)
	s.update("0", annotated(group.TopologyRequiredAnnotation, "zone"))
	s.add("2", annotated(group.TopologyRequiredAnnotation, "rack"))
	if v := s.PreEnqueue("2", s.now); !v.Pass {
		t.Errorf("verdict = %+v, want that it may ask", v)
	}
}

func TestALateMemberWithABadTopologyIsHeld(t *testing.T) {
	s := newLevelStory(t)
	s.start(2)
	s.add("2", annotated(group.ExclusiveAnnotation, "perhaps"))
	if v := s.PreEnqueue("2", s.now); v.Pass || v.Reason != reason.InvalidAnnotation {
		t.Errorf("verdict = %+v, want %s", v, reason.InvalidAnnotation)
	}
}

func TestExclusiveTakesTheWholeNodesOfTheSameOrder(t *testing.T) {
	want := map[string]string{
		"":                     match.PolicyHinodex, // the default of these stories is hinode
		match.PolicyFirst:      match.PolicyFirstnodex,
		match.PolicyLow:        match.PolicyLonodex,
		match.PolicyLonode:     match.PolicyLonodex,
		match.PolicyHigh:       match.PolicyHinodex,
		match.PolicyHinode:     match.PolicyHinodex,
		match.PolicyFirstnodex: match.PolicyFirstnodex,
		match.PolicyLonodex:    match.PolicyLonodex,
		match.PolicyHinodex:    match.PolicyHinodex,
	}
	for policy, whole := range want {
		s := newLevelStory(t)
		s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon, Policy: policy, Topology: group.TopologyAnnotations{Exclusive: "true"}})
		s.add("0")
		if p, _ := s.Plan("0", s.now); p.Policy != whole {
			t.Errorf("policy %q, exclusive: %q, want %q", policy, p.Policy, whole)
		}
		if got := s.HolderOf(s.pods["0"]); got != key.String() {
			t.Errorf("policy %q, exclusive: the nodes are held by %q, want the group", policy, got)
		}
	}
	if len(want) != len(match.Policies())+1 {
		t.Errorf("%d policies were looked at of %d", len(want)-1, len(match.Policies()))
	}
}

// assignInOrder assigns nodes to a gang of n pods in an order, by the names of its pods.
func (s *story) assignInOrder(names ...string) {
	s.Helper()
	s.gang(int32(len(names)), len(names))
	p, _ := s.Plan("0", s.now)
	p.InOrder = true
	var slots []match.Slot
	for _, name := range names {
		slots = append(slots, match.Slot{Key: name, Node: "n-" + name})
	}
	if _, _, _, err := s.Assign(p, slots, s.now.Add(time.Minute)); err != nil {
		s.Fatal(err)
	}
	s.Unclaim("0")
}

func TestAssignmentsInOrderAreTakenUpOneAfterAnother(t *testing.T) {
	s := newStory(t)
	s.assignInOrder("2", "0", "1")
	for i, name := range []string{"2", "0", "1"} {
		admitted := []string{"2", "0", "1"}[:i+1]
		s.wantEnqueueable(slices.Sorted(slices.Values(admitted))...)
		s.reserve(name)
		want := []string{"0", "1", ""}[i]
		if got := s.Next(types.UID(name)); want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].Name != want) {
			t.Errorf("after pod %s comes %v, want %q", name, names(got), want)
		}
	}
}

func TestAssignmentsWithoutAnOrderAreTakenUpAtOnce(t *testing.T) {
	s := newStory(t)
	s.gang(3, 3)
	s.match("0")
	s.Unclaim("0")
	s.wantEnqueueable("0", "1", "2")
	s.reserve("1")
	if got := s.Next("1"); len(got) != 0 {
		t.Errorf("after pod 1 comes %v, want nobody in particular", names(got))
	}
}

func TestNextAssignmentFollowsADroppedOne(t *testing.T) {
	s := newStory(t)
	s.assignInOrder("0", "1", "2")
	s.reserve("0")
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
	s.wantEnqueueable("0", "1")
	s.DropPod("1")
	delete(s.pods, "1")
	s.wantEnqueueable("0", "2")
}

// A value that is not "true" or "false" says nothing about levels, so it has another reason.
func TestAWrongExclusiveAnnotationIsNoTopology(t *testing.T) {
	s := newLevelStory(t)
	s.PutPodGroup(key, PodGroup{UID: "pg", MinMember: 1, Created: noon})
	s.add("0", annotated(group.ExclusiveAnnotation, "yes"))
	if v := s.PreEnqueue("0", s.now); v.Pass || v.Reason != reason.InvalidAnnotation || !strings.Contains(v.Message, `"yes"`) {
		t.Errorf("verdict %+v, want %s with the value", v, reason.InvalidAnnotation)
	}
}
