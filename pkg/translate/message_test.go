package translate

import (
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

func TestMessage(t *testing.T) {
	cpu := func(wanted, most, nodes int64) match.Shortage {
		return match.Shortage{Type: "core", Unit: "m", Wanted: wanted, MaxOnNode: most, Nodes: nodes}
	}
	memory := match.Shortage{Type: "memory", Unit: "B", Wanted: gi, MaxOnNode: 512 * mi, Nodes: 2}
	cases := map[string]struct {
		reason match.Reason
		want   string
	}{
		"there is no node": {
			match.Reason{Code: match.NoNode, Wanted: 4},
			"needs 4 pods: the cluster has no nodes",
		},
		"there is no node yet": {
			match.Reason{Code: match.NoNode, Wanted: 1, WaitingHelps: true},
			"needs 1 pod: the cluster has no nodes; waiting may help",
		},
		"no node may be used": {
			match.Reason{Code: match.NoNode, Wanted: 4, Nodes: 16, Down: 3, Excluded: 13, WaitingHelps: true},
			"needs 4 pods: none of 16 nodes may be used; of 16 nodes, 3 are not ready and 13 are excluded; waiting may help",
		},
		"no node is large enough": {
			match.Reason{Code: match.TooLarge, Level: "node", Wanted: 2, Nodes: 16, Shortages: []match.Shortage{
				{Type: "nvidia.com/gpu", Wanted: 9, MaxOnNode: 8, Nodes: 16},
			}},
			"no node is large enough: nvidia.com/gpu 9 wanted, largest node has 8",
		},
		"no node is large enough in two ways": {
			match.Reason{Code: match.TooLarge, Level: "node", Wanted: 2, Nodes: 16, Down: 1, Excluded: 2, Shortages: []match.Shortage{
				cpu(64_500, 64_000, 13), memory,
			}},
			"no node is large enough: cpu 64500m wanted, largest node has 64, memory 1Gi wanted, 2 of 13 nodes have less; of 16 nodes, 1 is not ready and 2 are excluded",
		},
		"no node that may be used now is large enough": {
			match.Reason{Code: match.TooLarge, Level: "node", Wanted: 1, Nodes: 3, Excluded: 2, WaitingHelps: true, Shortages: []match.Shortage{cpu(2000, 1000, 1)}},
			"no node is large enough: cpu 2 wanted, largest node has 1; of 3 nodes, 2 are excluded; waiting may help",
		},
		"too few, one resource": {
			match.Reason{Code: match.TooFew, Level: "node", Wanted: 4, Found: 3, Nodes: 16, WaitingHelps: true, Shortages: []match.Shortage{cpu(1000, 500, 16)}},
			"needs 4 pods with cpu 1; room for 3: cpu is short on 16 of 16 nodes (at most 500m free on each)",
		},
		"too few, two resources, some nodes not to be used": {
			match.Reason{Code: match.TooFew, Level: "node", Wanted: 4, Found: 0, Nodes: 4, Down: 1, Excluded: 1, WaitingHelps: true, Shortages: []match.Shortage{cpu(1000, 0, 2), memory}},
			"needs 4 pods with cpu 1, memory 1Gi; room for 0: none of the 2 nodes has free cpu, memory is short on 2 of 2 nodes (at most 512Mi free on each); of 4 nodes, 1 is not ready and 1 is excluded",
		},
		"too few for the limit of pods": {
			match.Reason{Code: match.TooFew, Wanted: 1, Nodes: 1, WaitingHelps: true, Shortages: []match.Shortage{{Type: "pods", Wanted: 1, Nodes: 1}}},
			"needs 1 pod; room for 0: the number of pods is short on 1 of 1 node (0 free)",
		},
		"too few, though each node by itself has enough": {
			match.Reason{Code: match.TooFew, Wanted: 4, Found: 3, Nodes: 1, WaitingHelps: true, Shortages: []match.Shortage{cpu(1000, 3000, 0)}},
			"needs 4 pods with cpu 1; room for 3: cpu is not enough for all pods (at most 3 free on a node)",
		},
		"too few for good counts nodes that are not ready": {
			match.Reason{Code: match.TooFew, Wanted: 4, Found: 0, Nodes: 3, Down: 1, Shortages: []match.Shortage{cpu(8000, 6000, 3)}},
			"needs 4 pods with cpu 8; room for 0: cpu is short on 3 of 3 nodes (at most 6 on each); of 3 nodes, 1 is not ready; does not fit even when other pods end",
		},
		"too few and nothing short on a node": {
			match.Reason{Code: match.TooFew, Wanted: 40, Found: 8, Nodes: 4},
			"needs 40 pods; room for 8; does not fit even when other pods end",
		},
		"too few in a rack": {
			match.Reason{Code: match.TooFew, Level: "rack", Vertex: "r7", Wanted: 4, Found: 3, Nodes: 8, WaitingHelps: true},
			"needs 4 pods in one rack; room in rack r7 for 3",
		},
		"too few outside of the racks": {
			match.Reason{Code: match.TooFew, Level: "rack", Vertex: Unlabelled, Wanted: 4, Found: 3, Nodes: 8, WaitingHelps: true},
			"needs 4 pods in one rack; room outside of any rack for 3",
		},
		"too few in a rack, and whose end would help": {
			match.Reason{
				Code: match.TooFew, Level: "rack", Vertex: "r3", Wanted: 12, Found: 9, Nodes: 16, WaitingHelps: true,
				Shortages: []match.Shortage{{Type: "nvidia.com/gpu", Wanted: 8, MaxOnNode: 2, Nodes: 3}}, Blocker: &match.Blocker{Job: 7, MoreSlots: 3},
			},
			"needs 12 pods with nvidia.com/gpu 8 in one rack; room in rack r3 for 9: nvidia.com/gpu is short on 3 nodes there (at most 2 free on each); room for 3 more if job ns/long ends",
		},
		"no placement was found in a rack": {
			match.Reason{Code: match.NotFound, Level: "rack", Vertex: "r3", Wanted: 4, Nodes: 8, WaitingHelps: true},
			"needs 4 pods in one rack: no placement was found, although the free amounts in rack r3 would be enough",
		},
		"too few whole nodes": {
			match.Reason{Code: match.TooFew, Level: "cluster", Wanted: 4, Found: 2, Nodes: 10, Down: 1, Excluded: 1, InUse: 6, WaitingHelps: true, Shortages: []match.Shortage{cpu(1000, 500, 1)}},
			"needs 4 pods with cpu 1; room for 2: cpu is short on 1 of 2 nodes (500m free); of 10 nodes, 1 is not ready and 1 is excluded; 6 nodes are in use, but whole nodes are requested",
		},
		"too few nodes that are nobody's": {
			match.Reason{Code: match.TooFew, Level: "cluster", Wanted: 4, Nodes: 4, OtherHolder: 2, WaitingHelps: true, Shortages: []match.Shortage{cpu(1000, 500, 2)}},
			"needs 4 pods with cpu 1; room for 0: cpu is short on 2 of 2 nodes (at most 500m free on each); 2 nodes are used exclusively by other groups",
		},
		"one node in use and one that is others'": {
			match.Reason{Code: match.TooFew, Level: "cluster", Wanted: 1, Nodes: 2, OtherHolder: 1, InUse: 1, WaitingHelps: true},
			"needs 1 pod; room for 0; 1 node is in use, but whole nodes are requested; 1 node is used exclusively by another group",
		},
		"no placement was found": {
			match.Reason{Code: match.NotFound, Level: "cluster", Wanted: 4, Nodes: 8, WaitingHelps: true},
			"needs 4 pods: no placement was found, although the free amounts would be enough",
		},
		"no placement was found and none will be": {
			match.Reason{Code: match.NotFound, Level: "cluster", Wanted: 4, Nodes: 8},
			"needs 4 pods: no placement was found, although the amounts of the nodes would be enough; does not fit even when other pods end",
		},
		"a code of a newer matcher speaks for itself": {
			match.Reason{Code: "Other", Nodes: 8},
			" (8 nodes)",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Message(tc.reason, Background{Blocker: "job ns/long", Pods: tc.reason.Wanted}); got != tc.want {
				t.Errorf("Message =\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// A leader and its workers are two kinds of pods. The reason of the matcher is about one of them.
func TestAMessageBeginsWithAllPodsOfTheGroup(t *testing.T) {
	cpu := []match.Shortage{{Type: "core", Unit: "m", Wanted: 4000, MaxOnNode: 2000, Nodes: 3}}
	cases := map[string]struct {
		reason match.Reason
		want   string
	}{
		"too few": {
			match.Reason{Code: match.TooFew, Level: "cluster", Wanted: 6, Found: 2, Nodes: 8, Shortages: cpu, WaitingHelps: true},
			"needs 7 pods, 6 of one kind with cpu 4; room for 2: cpu is short on 3 of 8 nodes (at most 2 free on each)",
		},
		"too few in a rack": {
			match.Reason{Code: match.TooFew, Level: "rack", Vertex: "r1", Wanted: 1, Nodes: 8, Shortages: cpu, WaitingHelps: true},
			"needs 7 pods, 1 of one kind with cpu 4 in one rack; room in rack r1 for 0: cpu is short on 3 nodes there (at most 2 free on each)",
		},
		"no node": {
			match.Reason{Code: match.NoNode, Wanted: 6, Nodes: 8, Excluded: 8},
			"needs 7 pods, 6 of one kind: none of 8 nodes may be used; of 8 nodes, 8 are excluded",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Message(tc.reason, Background{Pods: 7}); got != tc.want {
				t.Errorf("Message =\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestALongMessageIsCutBetweenResources(t *testing.T) {
	for _, code := range []match.Code{match.TooLarge, match.TooFew, "Other"} {
		r := match.Reason{Code: code, Wanted: 4, Found: 1, Nodes: 9, WaitingHelps: true}
		for n := range 30 {
			r.Shortages = append(r.Shortages, match.Shortage{
				Type: strings.Repeat("x", 200+n) + ".example.com/device", Wanted: 1, Nodes: 9,
			})
		}
		m := Message(r, Background{Pods: r.Wanted})
		if len(m) >= 1024 || strings.ContainsAny(m, "\n\r") {
			t.Errorf("%s: %d bytes: %s", code, len(m), m)
		}
		if code != "Other" && !strings.Contains(m, "more resources") {
			t.Errorf("%s: the message does not say that something was left out: %s", code, m)
		}
	}
}

func TestLackingSaysWhatThereIsTooLittleOf(t *testing.T) {
	cases := map[string]struct {
		asked, held, room Amounts
		want              string
	}{
		"enough":             {Amounts{TypeCore: 1000, TypePods: 1}, Amounts{TypeCore: 1000}, Amounts{TypeCore: 2000, TypePods: 1}, ""},
		"nothing is free":    {Amounts{TypeCore: 1500}, Amounts{TypeCore: 2000}, Amounts{TypeCore: 2000}, "cpu 1500m wanted, 0 of 2 free"},
		"more than all held": {Amounts{TypePods: 2}, Amounts{TypePods: 5}, Amounts{TypePods: 4}, "pods 2 wanted, 0 of 4 free"},
		"no such pool":       {Amounts{"nvidia.com/gpu": 1}, nil, Amounts{TypeCore: 2000}, "nvidia.com/gpu 1 wanted, 0 of 0 free"},
		"several": {
			Amounts{TypeCore: 1000, TypeMemory: 1 << 30, TypePods: 1}, Amounts{TypeCore: 1500, TypeMemory: 1 << 29},
			Amounts{TypeCore: 2000, TypeMemory: 1 << 30, TypePods: 1}, "cpu 1 wanted, 500m of 2 free, memory 1Gi wanted, 512Mi of 1Gi free",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := WhyNoRoom(tc.asked, tc.held, tc.room); got != tc.want {
				t.Errorf("Lacking = %q, want %q", got, tc.want)
			}
		})
	}
}
