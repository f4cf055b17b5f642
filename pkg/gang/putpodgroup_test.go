package gang

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The PodGroup's time is known to the microsecond only once its status
// is written. That orders the group, and is no other request.
func TestATimeThatBecomesKnownEndsNoRefusal(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*PodGroup)
		ends   bool
	}{
		"its time":     {func(pg *PodGroup) { pg.Created = noon.Add(time.Microsecond) }, false},
		"its minimum":  {func(pg *PodGroup) { pg.MinMember = 1 }, true},
		"its duration": {func(pg *PodGroup) { pg.Duration = "1h" }, true},
		"its delay":    {func(pg *PodGroup) { pg.PreemptionDelay = "0s" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := New(seenOwners{}, match.PolicyLonode)
			key, pg := types.NamespacedName{Namespace: "ns", Name: "g"}, PodGroup{UID: "g", MinMember: 2, Created: noon}
			g.PutPodGroup(key, pg)
			pods := []*corev1.Pod{benchPod("g", 0), benchPod("g", 1)}
			for _, p := range pods {
				g.PutPod(p, noon)
			}
			plan, _ := g.Plan(g.Enqueueable(noon)[0].UID, noon)
			g.Refuse(plan, Refusal{Reason: "NoRoom", RetryOn: AllEvents(), WaitsFor: WaitsForRoom}, noon)
			tc.change(&pg)
			g.PutPodGroup(key, pg)
			if got := len(g.Enqueueable(noon.Add(time.Minute))) > 0; got != tc.ends {
				t.Errorf("the group may retry: %t, want %t", got, tc.ends)
			}
		})
	}
}
