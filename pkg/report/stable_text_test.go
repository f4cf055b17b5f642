package report

import "testing"

// The clause about whose end would help comes and goes with other pods, so it makes no new message.
func TestStableTextDoesNotDependOnWhoseEndWouldHelp(t *testing.T) {
	for _, rest := range []string{"", "; of 10 nodes, 1 is not ready", " (2 node(s) had untolerated taint(s))"} {
		const text = "needs 12 pods with cpu 8; room for 9"
		for _, short := range []string{"", ": cpu is short on 3 of 9 nodes (at most 2 free on a node)"} {
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
	const text = "needs 8 pods with cpu 1; room for 0: cpu is short on 999 of 999 nodes (at most 0 free on a node)"
	for _, more := range []string{
		"; of 1000 nodes, 1 is excluded",
		"; of 1000 nodes, 2 are not ready",
		"; of 1000 nodes, 1 is not ready and 2 are excluded",
		"; 1 node is reserved for ns/big, which has waited 10m",
		"; the room of 1 pod that ended is kept until 2026-11-26T14:05:00Z for ns/big, which restarts",
		"; 1 node is reserved for ns/big, which has waited 10m; the room of 8 pods that ended is kept until 2026-11-26T14:05:00Z for a group of another namespace (priority 5), which restarts, and for 2 other groups",
		"; of 1000 nodes, 1 is excluded; 1 node is reserved for ns/big, which has waited 10m",
		"; 2 nodes are reserved for a group of another namespace (priority 5), which has waited 3h4m",
		"; of 9 nodes, 3 are excluded; 1 node is reserved for ns/a, which has waited 10m; 2 nodes are reserved for ns/b, which has waited 1h",
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
