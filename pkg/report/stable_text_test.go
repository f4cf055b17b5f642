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
