package gang

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/trials"
)

// Whatever happens to pods that wait for room, a result that
// Starving has kept is what it would find by looking at them again.
func TestStarvingKeepsWhatItFound(t *testing.T) {
	const minWait = 3 * time.Second
	kept, found := 0, 0
	for seed := range trials.Seeds(60) {
		s, r := newStory(t), rand.New(rand.NewPCG(seed, 0))
		for step := range 150 {
			name := fmt.Sprint(r.IntN(8))
			pod := s.pods[name]
			switch n := r.IntN(10); {
			case pod == nil:
				s.addLonePod(name, int32(r.IntN(2)))
			case n == 0:
				delete(s.pods, name)
				s.DropPod(pod.UID)
			case n == 1:
				s.update(name, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: s.now} })
			case n == 2:
				s.Yield(lonePodKey(name), []string{"", "something is in the way"}[r.IntN(2)], nil, s.now)
			case n == 3:
				s.RetryNow(lonePodKey(name))
			case n == 4:
				s.now = s.now.Add(time.Duration(r.IntN(2500)) * time.Millisecond)
			default:
				s.RetryNow(lonePodKey(name))
				p, _ := s.Plan(pod.UID, s.now)
				if refusal := []Refusal{noRoom, noRoom, noRoom, never, noAnswer}[r.IntN(5)]; p.Job != 0 {
					s.Refuse(p, refusal, s.now)
				}
			}
			if s.Turns.starving.holds(s.now, minWait) {
				kept++
			}
			got := s.Starving(s.now, minWait)
			s.Turns.starving.forget()
			want := s.Starving(s.now, minWait)
			found += len(want)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: Starving kept %v, and finds %v", seed, step, got, want)
			}
		}
	}
	if kept == 0 || found == 0 {
		t.Errorf("%d results were kept, and %d groups were found: the histories show nothing", kept, found)
	}
}
