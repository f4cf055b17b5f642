package report

import "testing"

// The clause about whose end would help comes and goes with other pods, so it makes no new message.
func TestStableTextDoesNotDependOnWhoseEndWouldHelp(t *testing.T) {
	for _, rest := range []string{"", "; of 10 nodes, 1 is not ready", " (2 node(s) had untolerated taint(s))"} {
		const text = "needs 12 pods with cpu 8; room for 9"
		for _, short := range []string{"", ": cpu is short on 3 of 9 nodes (at most 2 free on each)"} {
			without, with := StableText(text+short+rest), StableText(text+short+"; room for 3 more if group ns/x ends"+rest)
			if without != with {
				t.Errorf("the texts differ:\n%q\n%q", without, with)
			}
		}
	}
}

// Nodes that are reserved for other groups make no new message: all groups that wait would have to
// be told whenever another group has its turn. What concerns the group itself does.
func TestStableTextDoesNotDependOnOthersReservations(t *testing.T) {
	const text = "needs 8 pods with cpu 1; room for 0: none of the 999 nodes has free cpu"
	for _, more := range []string{
		"; of 1000 nodes, 1 is excluded",
		"; of 1000 nodes, 2 are not ready",
		"; of 1000 nodes, 1 is not ready and 2 are excluded",
		"; 1 node is reserved for ns/big, which has waited 10m",
		"; the room of 1 pod that ended is kept until 14:05:00Z for ns/big, which restarts",
		"; 1 node is reserved for ns/big, which has waited 10m; the room of 8 pods that ended is kept until 2026-11-26T14:05:00Z for a group of another namespace (priority 5), which restarts, and for 2 other groups",
		"; of 1000 nodes, 1 is excluded; 1 node is reserved for ns/big, which has waited 10m",
		"; 2 nodes are reserved for a group of another namespace (priority 5), which has waited 3h4m",
		"; room for 3 more is promised to ns/big from 14:05:00Z; of 1000 nodes, 2 are excluded; 2 nodes are reserved for ns/other, which has waited 10m",
		"; evicts nobody before 14:05:00Z: 1 pod evicted for it should have gone at 14:04:00Z; of 1000 nodes, 2 are excluded",
		"; of 9 nodes, 3 are excluded; 1 node is reserved for ns/a, which has waited 10m; 2 nodes are reserved for ns/b, which has waited 1h",
		"; evicts nobody before 2026-11-27T00:03:00Z: 1 pod evicted for it should have gone at 23:58:00Z",
		"; room for 1 more is promised to ns/big from 14:05:00Z",
		"; room for 1 more is promised to ns/big from 2026-11-26T14:05:00Z",
		"; evicts nobody before it is known whom an earlier scheduler has evicted for it",
		"; 4 pods of lower priority should have gone already",
	} {
		if got, want := StableText(text+more), StableText(text); got != want {
			t.Errorf("the texts differ:\n%q\n%q", got, want)
		}
	}
	for _, more := range []string{"; 2 nodes are reserved for it", "; no nodes are reserved for it: 1 node is reserved for other groups", "; 1 node is in use, but whole nodes are requested"} {
		if StableText(text+more) == StableText(text) {
			t.Errorf("%q is not told", more)
		}
	}
}

// What changes when pods of others come and go makes no new message, names of racks and nodes included.
func TestStableTextDoesNotDependOnTheStateOfTheCluster(t *testing.T) {
	cases := map[string][]string{
		"how many nodes are short, and of how much": {
			"needs 4 pods with cpu 2; room for 3: cpu is short on 12 of 16 nodes (at most 1500m free on each)",
			"needs 4 pods with cpu 2; room for 1: cpu is short on 1 of 16 nodes (1 free); room for 2 more if group ns/a ends",
			"needs 4 pods with cpu 2; room for 0: cpu is not enough for all pods (at most 3 free on a node)",
			"needs 4 pods with cpu 2; room for 0: none of the 16 nodes has free cpu; room for 2 more if group ns/a ends",
		},
		"nodes without room for a pod": {
			"needs 4 pods; room for 3: the number of pods is short on 1 of 16 nodes (0 free)",
			"needs 4 pods; room for 0: none of the 16 nodes takes another pod",
		},
		"the nodes that have a resource": {
			"needs 4 pods with example.com/gpu 2; room for 3: example.com/gpu is short on 2 of 3 nodes that have it (at most 1 free on each)",
			"needs 4 pods with example.com/gpu 2; room for 0: both nodes with example.com/gpu are full",
			"needs 4 pods with example.com/gpu 2; room for 0: all 3 nodes with example.com/gpu are full; room for 1 more if group ns/a ends",
			"needs 4 pods with example.com/gpu 2; room for 0: the only node with example.com/gpu is full",
		},
		"the rack with the most room": {
			"needs 4 pods with cpu 2 in one rack; room in east-a for 3: cpu is short on 2 nodes there (at most 1 free on each)",
			"needs 4 pods with cpu 2 in one rack; room in rack 7b for 3: cpu is short on 1 node there (1500m free)",
			"needs 4 pods with cpu 2 in one rack; room outside of any rack for 1: cpu is not enough for all pods (at most 3 free on a node)",
		},
		"the rack that could hold the most": {
			"needs 5 pods with cpu 8 in one rack; rack0 could hold 4 if it were empty: cpu is not enough for all pods (at most 8 on a node)",
			"needs 5 pods with cpu 8 in one rack; rack east could hold 3 if it were empty: cpu is short on 1 node there (7)",
		},
		"the constraint, and its domain": {
			"needs 16 pods with cpu 2; room for 3: spread over rack, maxSkew 1: rack0 has room for 0, so at most 1 in each of the 4; cpu is short on 1 of 4 nodes (0 free)",
			"needs 16 pods with cpu 2; room for 3: spread over rack, maxSkew 1: east has 2 and room for 1, so at most 4 in each of the 4; cpu is short on 2 of 4 nodes (none free); room for 2 more if pod ns/x ends",
			"needs 16 pods with cpu 2; room for 3: at most one to a node (podAntiAffinity on kubernetes.io/hostname), room on 3 of 4 nodes; cpu is short on 1 of 4 nodes (0 free)",
			"needs 16 pods with cpu 2; room for 3: all in one rack (podAffinity on example.com/rack), east has room for 2; cpu is short on 1 of 4 nodes (0 free)",
			"needs 16 pods with cpu 2; room for 3: cpu is short on 1 of 4 nodes (0 free)",
		},
	}
	for name, texts := range cases {
		t.Run(name, func(t *testing.T) {
			for _, text := range texts[1:] {
				if got, want := StableText(text), StableText(texts[0]); got != want {
					t.Errorf("the texts differ:\n%q\n%q", got, want)
				}
			}
		})
	}
	for _, other := range []string{
		"needs 4 pods with memory 2Gi; room for 3: memory is short on 12 of 16 nodes (at most 1Gi free on each)",
		"needs 4 pods with cpu 2 in one rack; room in east-a for 3: cpu is short on 2 nodes there (at most 1 free on each)",
	} {
		if StableText(other) == StableText(cases["how many nodes are short, and of how much"][0]) {
			t.Errorf("%q counts as the same", other)
		}
	}
}
