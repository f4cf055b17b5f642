package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/test/objects"
)

// An answer is what the matcher says to one request with units.
type answer struct {
	// nodes are those of the slots, and displaced the pods that are in the way.
	nodes, displaced []string
	err              error
}

// fits answers with slots on nodes, for which pods have to go.
func fits(nodes string, displaced ...string) answer {
	return answer{nodes: strings.Fields(nodes), displaced: displaced}
}

func refuses(r match.Reason) answer {
	return answer{err: &match.Refusal{Err: match.ErrBusy, Reason: r}}
}

// allocation returns the allocation that answers a request.
func (a answer) allocation(r match.Request) (*match.Allocation, error) {
	if a.err != nil {
		return nil, a.err
	}
	out := &match.Allocation{ID: r.ID}
	for i, node := range a.nodes {
		out.Slots = append(out.Slots, match.Slot{Key: r.Keys[i], Label: "shape0", Node: node})
	}
	for i, u := range r.Displace {
		if len(u.Slots) > 0 && slices.ContainsFunc(a.displaced, func(pod string) bool { return u.Slots[0].Job == jobOf(pod) }) {
			out.Displaced = append(out.Displaced, i)
		}
	}
	return out, nil
}

func jobOf(pod string) match.JobID { return match.NewJobID("pod", pod) }

// victimsOf returns each pod as a victim, in this order.
func victimsOf(pods []*corev1.Pod) []preemption.Victim {
	var victims []preemption.Victim
	for _, pod := range pods {
		victims = append(victims, preemption.Victim{
			Kind: preemption.Pod, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Pods: []preemption.VictimPod{{Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Slot: match.SlotRef{Job: jobOf(string(pod.UID))}}},
		})
	}
	return victims
}

// A preemptionCase is a search for victims with a matcher whose answers are written down.
type preemptionCase struct {
	nodes []*corev1.Node
	// others are the pods on nodes. All of them may be evicted, but for those in ending and stay.
	others       []*corev1.Pod
	ending, stay []string
	required     []*corev1.Pod
	optional     []*corev1.Pod
	left         int
	// candidatesTake is how long it takes to find the candidates.
	candidatesTake time.Duration
	answers        []answer
	// want is the reason why there is no plan, or the victims and the nodes.
	want string
	// check looks at the requests.
	check func(*testing.T, []match.Request)
}

func (tc preemptionCase) run(t *testing.T) {
	inProfile(t, tc.nodes, tc.others, func(p *profile) {
		m := matchtest.NewFake()
		epoch, _ := m.Reset(p.ctx)
		p.Matcher, p.MatchTimeout = m, time.Second
		p.ClusterState = func(gang.Plan) ClusterState { return ClusterState{At: time.Now(), Epoch: epoch} }
		p.BlockerOf = func(match.Reason, types.NamespacedName) string { return "" }
		passed := time.Duration(0)
		p.Now = func() time.Time { return time.Now().Add(passed) }
		m.OnMatch(refuses(match.Reason{Code: match.TooFew, WaitingHelps: true}).allocation)
		for _, pod := range tc.others {
			p.UpdatePod(pod)
		}
		plan := gang.Plan{Key: types.NamespacedName{Namespace: objects.Namespace, Name: "urgent"}, Job: 1, Required: tc.required, Optional: tc.optional}
		result := p.Place(p.ctx, unlimitedBudget(p.ctx), plan, p.nodes)
		if result.Refusal == nil {
			t.Fatal("the group is placed")
		}
		m.Forget()
		answers := tc.answers
		m.OnMatch(func(r match.Request) (*match.Allocation, error) {
			if len(answers) == 0 {
				return nil, fmt.Errorf("one request too many")
			}
			a := answers[0]
			answers = answers[1:]
			return a.allocation(r)
		})
		r := PreemptionRequest{MaxTime: time.Second, Candidates: func(usable func(string) bool) ([]preemption.Victim, int) {
			passed += tc.candidatesTake
			candidates := slices.DeleteFunc(slices.Clone(tc.others), func(pod *corev1.Pod) bool {
				return !usable(pod.Spec.NodeName) || slices.Contains(tc.ending, pod.Name) || slices.Contains(tc.stay, pod.Name)
			})
			return victimsOf(candidates), tc.left
		}}
		for _, pod := range tc.ending {
			r.Ending = append(r.Ending, match.SlotRef{Job: jobOf(pod), Keys: []string{pod}})
		}
		found := p.FindByPreemption(p.ctx, result, r)
		got := found.Why
		if found.Plan != nil {
			var victims, nodes []string
			for _, v := range found.Plan.Victims {
				victims = append(victims, v.Name)
			}
			for _, s := range found.Plan.Slots {
				nodes = append(nodes, s.Node)
			}
			got += fmt.Sprintf("evicts %v for %v", victims, nodes)
		}
		if got != tc.want || found.LeftOut != tc.left {
			t.Errorf("%q, and %d are left out, want %q", got, found.LeftOut, tc.want)
		}
		if len(answers) > 0 {
			t.Errorf("%d answers are not asked for", len(answers))
		}
		if tc.check != nil {
			var requests []match.Request
			for _, c := range m.Calls(matchtest.Match) {
				requests = append(requests, c.Request)
			}
			tc.check(t, requests)
		}
	})
}

func nodesNamed(names ...string) []*corev1.Node {
	var nodes []*corev1.Node
	for _, name := range names {
		nodes = append(nodes, objects.ReadyNode(name, 8))
	}
	return nodes
}

func text(t *testing.T, r match.Request) string {
	t.Helper()
	js, err := r.Jobspec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(js)
}

func TestFindByPreemption(t *testing.T) {
	pod, on := objects.Pod, objects.OnNode
	one := []*corev1.Pod{pod("urgent")}
	tooFew := match.Reason{Code: match.TooFew, Wanted: 2, Found: 1, AllDisplaced: true}
	port := objects.HostPort(80)
	zone := func(name, zone string) *corev1.Node { return objects.ReadyNode(name, 8, objects.InZone(zone)) }
	spread := objects.All(objects.OfApp("urgent"), objects.SpreadOver(corev1.LabelTopologyZone, "urgent", 1))
	zoned := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{objects.TermOn(corev1.LabelTopologyZone, "urgent")},
		}}
	}
	cases := map[string]preemptionCase{
		"the victims are those that the matcher names": {
			nodes: nodesNamed("n1", "n2"), others: []*corev1.Pod{pod("a", on("n1")), pod("b", on("n2"))}, required: one,
			answers: []answer{fits("n2", "b")}, want: "evicts [b] for [n2]",
			check: func(t *testing.T, rs []match.Request) {
				if r := rs[0]; r.Op != match.WithoutAllocating || len(r.Displace) != 2 || r.ID != 1 {
					t.Errorf("the request is %+v", r)
				}
			},
		},
		"the search has its time, however long the candidates took": {
			nodes: nodesNamed("n1", "n2"), others: []*corev1.Pod{pod("a", on("n1")), pod("b", on("n2"))}, required: one, candidatesTake: time.Minute,
			answers: []answer{fits("n2", "b")}, want: "evicts [b] for [n2]",
		},
		"nobody is evicted if pods that are ending make enough room": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, ending: []string{"a"}, required: one,
			answers: []answer{fits("n1")}, want: "evicts [] for [n1]",
			check: func(t *testing.T, rs []match.Request) {
				if len(rs[0].Ending) != 1 || rs[0].Ending[0].Keys[0] != "a" || len(rs[0].Displace) != 0 {
					t.Errorf("the request has %v as ending, and %d units", rs[0].Ending, len(rs[0].Displace))
				}
			},
		},
		"nobody is evicted for pods that are not required": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, required: one, optional: []*corev1.Pod{pod("more")},
			answers: []answer{fits("n1", "a")}, want: "evicts [a] for [n1]",
			check: func(t *testing.T, rs []match.Request) {
				if len(rs[0].Keys) != 1 || strings.Contains(text(t, rs[0]), `"max"`) {
					t.Errorf("the request is for %v: %s", rs[0].Keys, text(t, rs[0]))
				}
			},
		},
		"there is nobody to evict": {
			nodes: nodesNamed("n1"), required: one, want: "there are no pods of lower priority that may be evicted",
		},
		"pods on nodes that the group may never use stay": {
			nodes:  []*corev1.Node{objects.ReadyNode("n1", 8, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} })},
			others: []*corev1.Pod{pod("a", on("n1"))}, required: one, want: "there are no pods of lower priority that may be evicted",
		},
		"there is no room even without all": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, required: []*corev1.Pod{pod("u1"), pod("u2")},
			answers: []answer{refuses(tooFew)}, want: "room for 1 even without all of lower priority",
		},
		"there is no room without as many as are considered": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, required: []*corev1.Pod{pod("u1"), pod("u2")}, left: 3,
			answers: []answer{refuses(tooFew)}, want: "room for 1 even without 1 of 4 of lower priority",
		},
		"the matcher does not take units": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, required: one,
			answers: []answer{{err: fmt.Errorf("displace: %w", match.ErrInvalid)}}, want: "the matcher cannot plan evictions",
		},
		"the matcher does not know of units": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, required: one,
			answers: []answer{refuses(match.Reason{Code: match.TooFew})}, want: "the matcher cannot plan evictions",
		},
		"the matcher takes too many steps": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, required: one,
			answers: []answer{refuses(match.Reason{Code: match.TooHard, AllDisplaced: true})}, want: "the search for pods to evict takes more steps than the matcher may take for one request",
		},
		"the matcher does not answer": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, required: one, answers: []answer{{err: context.DeadlineExceeded}},
		},
		"the graph has changed": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1"))}, required: one, answers: []answer{{err: match.ErrStale}},
		},
		"a node that the filters reject is left out of the next request": {
			nodes: nodesNamed("n1", "n2"), others: []*corev1.Pod{pod("friend", on("n1"), objects.OfApp("friend")), pod("second", on("n2"), objects.OfApp("friend")), pod("b", on("n2"))},
			required: []*corev1.Pod{pod("urgent", objects.NextTo(corev1.LabelHostname, "friend"))},
			answers:  []answer{fits("n1", "friend"), fits("n2", "b")}, want: "evicts [b] for [n2]",
			check: func(t *testing.T, rs []match.Request) {
				if strings.Contains(text(t, rs[0]), `"n1"`) || !strings.Contains(text(t, rs[1]), `"n1"`) {
					t.Errorf("the requests are\n%s\n%s", text(t, rs[0]), text(t, rs[1]))
				}
			},
		},
		"a plan that the filters reject evicts nobody": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("friend", on("n1"), objects.OfApp("friend"))},
			required: []*corev1.Pod{pod("urgent", objects.NextTo(corev1.LabelHostname, "friend"))},
			answers:  []answer{fits("n1", "friend"), fits("n1", "friend"), fits("n1", "friend"), fits("n1", "friend")},
			want:     "evictions do not help: pod urgent was rejected on node n1 by InterPodAffinity: node(s) didn't match pod affinity rules",
		},
		"of the pods on a node, the one that has the port has to go": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1")), pod("b", on("n1"), port), pod("c", on("n1"))}, required: []*corev1.Pod{pod("urgent", port)},
			answers: []answer{refuses(match.Reason{Code: match.NoNode, AllDisplaced: true}), fits("n1")}, want: "evicts [b] for [n1]",
		},
		"a pod that has the port and may not be evicted stays": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1")), pod("b", on("n1"), port)}, stay: []string{"b"}, required: []*corev1.Pod{pod("urgent", port)},
			answers: []answer{refuses(match.Reason{Code: match.NoNode, AllDisplaced: true}), refuses(match.Reason{Code: match.NoNode, AllDisplaced: true})},
			want:    "room for 0 even without all of lower priority",
			check: func(t *testing.T, rs []match.Request) {
				if !strings.Contains(text(t, rs[1]), `"n1"`) {
					t.Errorf("the second request allows the node: %s", text(t, rs[1]))
				}
			},
		},
		"the port's pod is ending": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("b", on("n1"), port)}, ending: []string{"b"}, required: []*corev1.Pod{pod("urgent", port)},
			answers: []answer{refuses(match.Reason{Code: match.NoNode, AllDisplaced: true}), fits("n1")}, want: "evicts [] for [n1]",
		},
		"what keeps a pod from a node is elsewhere in the zone": {
			nodes: []*corev1.Node{zone("n1", "x"), zone("n2", "x"), zone("n3", "y")},
			others: []*corev1.Pod{
				pod("a", on("n1")), pod("shuns", on("n2"), zoned), pod("b", on("n2")), pod("c", on("n3")),
			},
			required: []*corev1.Pod{pod("urgent", objects.OfApp("urgent"))},
			answers:  []answer{refuses(match.Reason{Code: match.TooFew, AllDisplaced: true}), fits("n1", "a"), fits("n1", "a")},
			want:     "evicts [a shuns] for [n1]",
		},
		"spread constraints do not count the pods that go": {
			nodes:    []*corev1.Node{zone("n1", "x"), zone("n2", "y")},
			others:   []*corev1.Pod{pod("a", on("n1"), objects.OfApp("urgent")), pod("b", on("n1"), objects.OfApp("urgent"))},
			required: []*corev1.Pod{pod("u1", spread), pod("u2", spread)},
			answers:  []answer{fits("n1 n2", "a", "b")}, want: "evicts [a b] for [n1 n2]",
		},
		"room of the pod that has the port may be enough": {
			nodes: nodesNamed("n1"), others: []*corev1.Pod{pod("a", on("n1")), pod("b", on("n1"), port)}, required: []*corev1.Pod{pod("urgent", port)},
			answers: []answer{refuses(match.Reason{Code: match.NoNode, AllDisplaced: true}), fits("n1", "a"), fits("n1")}, want: "evicts [b] for [n1]",
		},
	}
	for name, tc := range cases {
		t.Run(name, tc.run)
	}
}
