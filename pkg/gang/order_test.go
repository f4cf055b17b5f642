package gang

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/objects"
)

// The queue is corrupted if its order changes: a pod keeps its rank until it comes again.
// The queue has a separate lock, and does not wait for calls that look through groups.
func TestRankIsFrozenWhileQueued(t *testing.T) {
	other := types.NamespacedName{Namespace: key.Namespace, Name: "other"}
	s := newStory(t)
	s.gang(1, 1)
	if !s.PreEnqueue("0", s.now).Pass {
		t.Fatal("the pod may not enter the queue")
	}
	s.mu.Lock()
	before := s.Rank(s.pods["0"]) // hangs if it needs the lock
	s.mu.Unlock()
	if before.Key != key {
		t.Errorf("its place is %+v, want one of its group", before)
	}
	s.update("0", objects.InGroup("other"))
	if now := s.Rank(s.pods["0"]); now != before {
		t.Errorf("in the queue its place becomes %+v after %+v", now, before)
	}
	s.PutPodGroup(other, PodGroup{UID: "other", MinMember: 1, Created: noon})
	if !s.PreEnqueue("0", s.now).Pass {
		t.Fatal("the pod may not enter the queue in its new group")
	}
	if now := s.Rank(s.pods["0"]); now.Key != other {
		t.Errorf("it comes again with the place %+v, want one of its new group", now)
	}
	s.DropPod("0")
	if len(s.queue.ranks) != 0 {
		t.Errorf("of pods that are gone is kept %v", s.queue.ranks)
	}
}
