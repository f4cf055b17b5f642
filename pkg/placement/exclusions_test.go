package placement

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
)

func TestExclusionsHoldForASetOfMembersUntilAnEvent(t *testing.T) {
	k, shapes := types.NamespacedName{Name: "k"}, map[types.UID]string{"p": "s"}
	var e exclusions
	e.limitsFor(k, "set", shapes)
	e.add(k, "p", "n0", nil, []gang.Event{gang.PodChanged})
	e.add(k, "p", "n1", nil, []gang.Event{gang.NodeChanged})
	e.add(k, "stranger", "n2", nil, []gang.Event{gang.NodeChanged})
	e.add(types.NamespacedName{Name: "other"}, "p", "n3", nil, nil)
	want := func(step string, nodes ...string) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(e.limitsFor(k, "set", shapes)["s"])); !slices.Equal(got, nodes) {
			t.Errorf("%s: excluded %v, want %v", step, got, nodes)
		}
	}
	want("noted", "n0", "n1")
	e.observe(gang.Released)
	want("an event that changes nothing", "n0", "n1")
	e.observe(gang.PodChanged)
	want("an event for one of them", "n1")
	if got := e.limitsFor(k, "another set", shapes); len(got) != 0 {
		t.Errorf("another set of members: excluded %v, want nothing", got)
	}
	want("the first set again")
}
