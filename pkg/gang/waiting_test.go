package gang

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/objects"
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

// Late members that were refused together are siblings. Members with other requests have another text.
func TestWaitingSiblingsOfAStartedGroup(t *testing.T) {
	s := newStory(t)
	s.start(2)
	for _, name := range []string{"2", "3", "4", "5"} {
		s.add(name)
	}
	if all := s.WaitingSiblings(s.now); len(all) != 0 {
		t.Errorf("siblings %+v, want none before a refusal", all)
	}
	plan, _ := s.Plan("2", s.now)
	s.Refuse(plan, Refusal{Reason: "NoRoom", Message: "small", AlsoRefused: []types.UID{"4"}}, s.now)
	plan, _ = s.Plan("3", s.now)
	s.Refuse(plan, Refusal{Reason: "NoRoom", Message: "large"}, s.now)
	look := func(when string, want ...string) (all []WaitingSiblings) {
		t.Helper()
		all = s.WaitingSiblings(s.now)
		var got []string
		for _, w := range all {
			got = append(got, w.Message+": "+strings.Join(names(w.Pods), " "))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: siblings %q, want %q", when, got, want)
		}
		return all
	}
	for _, w := range look("refused", "large: 3", "small: 2 4") {
		if w.Message == "small" {
			s.Told(w)
		}
	}
	look("some were told", "large: 3", "small: ")
}

// Where many groups wait, the first in the queue are told first.
func TestWaitingSiblingsComeInTheOrderOfTheQueue(t *testing.T) {
	s := newStory(t)
	var want []string
	for i := range 20 {
		k := types.NamespacedName{Namespace: key.Namespace, Name: fmt.Sprintf("group-%02d", i)}
		s.PutPodGroup(k, PodGroup{UID: types.UID(k.Name), MinMember: 3, Created: noon.Add(time.Duration(i) * time.Minute)})
		for n := range 2 {
			s.add(fmt.Sprintf("%s-%d", k.Name, n), objects.InGroup(k.Name), objects.Created(noon.Add(time.Duration(i)*time.Minute)))
		}
		want = append(want, k.Name)
	}
	var got []string
	for _, w := range s.WaitingSiblings(s.now) {
		got = append(got, w.Key.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("siblings of %v, want the order of the queue, %v", got, want)
	}
}
