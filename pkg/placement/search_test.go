package placement

import (
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// Reserved nodes are in the way of a group, too, whose pods the filters object to on the others. It
// asks again when they are others' again.
func TestReservedNodesAreToldToWhomTheFiltersObjectTo(t *testing.T) {
	turns := []gang.Turn{{Namespace: "first"}}
	q := &enquiry{outside: Outside{Reserved: Reserved{Nodes: []string{"n1"}, Words: []string{"1 node is reserved"}, Turns: turns}}}
	refused := q.objected("the filters say no")
	if refused.Message != "the filters say no; 1 node is reserved" || !slices.Contains(refused.Until, gang.Unreserved) {
		t.Errorf("it is refused %+v", refused)
	}
	if !slices.Equal(q.contested, turns) {
		t.Errorf("contested is what is reserved for %v, want %v", q.contested, turns)
	}
}
