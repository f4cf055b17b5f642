package fluence

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// A pod that has gone counts as ending until the matcher has its room, even if it was overdue before.
func TestAPodThatWasOverdueCountsOnceItHasGone(t *testing.T) {
	due := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := objects.Pod("a", objects.CreatedOn("n1"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: due} })
	var ending endingPods
	ending.update(pod, due)
	wantCounted := func(when string, at time.Time, want int) {
		t.Helper()
		if got := len(ending.list(at, nil)); got != want {
			t.Errorf("%s, %d pods count as ending, want %d", when, got, want)
		}
	}
	wantCounted("when it is due", due, 1)
	late := due.Add(10 * time.Minute)
	wantCounted("when it is overdue", late, 0)
	ending.gone(pod.UID, late)
	wantCounted("when it has gone", late.Add(time.Second), 1)
}
