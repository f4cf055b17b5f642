package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Siblings that were told why their group waits are not
// returned again, until the reason or one of the pods changes.
func TestWaitingSiblings(t *testing.T) {
	s := newStory(t)
	s.gang(3, 3)
	s.refuse("0", noRoom)
	look := func(want int, when string) WaitingSiblings {
		t.Helper()
		all := s.WaitingSiblings(s.now)
		if len(all) != 1 || all[0].Message == "" || len(all[0].Pods) != want {
			t.Fatalf("%s: %+v, want %d siblings of one group", when, all, want)
		}
		return all[0]
	}
	look(2, "first")
	told := look(2, "not told yet")
	s.Told(told)
	told = look(0, "told")
	s.refuseAgain(Refusal{Reason: "NoRoom", Message: "still no room", WaitsFor: WaitsForRoom})
	before := look(2, "another message")
	s.update("1", func(p *corev1.Pod) { p.Labels["changed"] = "yes" })
	s.Told(before)
	s.Told(told)
	s.Told(look(2, "a pod changed after the look that was told"))
	look(0, "told again")
	s.update("1", func(p *corev1.Pod) { p.Labels["changed"] = "again" })
	look(2, "a pod changed")
}
