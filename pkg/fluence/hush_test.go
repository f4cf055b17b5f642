package fluence

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Flow 16 of the lessons of earlier systems: a pod that is refused again and again
// for the same reason is told once. Its condition has the newest numbers.
func TestAPodIsToldOnceWhyItWaits(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		asked := 0
		r.fake.OnMatch(func(match.Request) (*match.Allocation, error) {
			asked++
			return nil, &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooFew, Level: "node", Wanted: 100, Found: int64(asked), Nodes: 1}}
		})
		r.node("n", 1)
		r.schedule()
		r.pod("waits", cpu("8"))
		for i := range 5 {
			r.updateNode("n", func(n *corev1.Node) { n.Labels["round"] = fmt.Sprint(i) })
			r.pass(10 * time.Second)
		}
		if asked < 3 {
			t.Fatalf("the pod was asked for %d times, too few to tell it anything again", asked)
		}
		if got := r.refusals(); got != 1 {
			t.Errorf("%d events that say why the pod waits, want one; it was asked for %d times", got, asked)
		}
		// Another reason is news, and so is the first one after it.
		r.fake.OnMatch(func(match.Request) (*match.Allocation, error) { return nil, errors.New("out of order") })
		r.updateNode("n", func(n *corev1.Node) { n.Labels["round"] = "other" })
		r.pass(10 * time.Second)
		if got := r.refusals(); got != 2 {
			t.Errorf("%d events after the reason became another, want two", got)
		}
		r.remove("waits")
		r.pass(time.Second)
		if n := len(r.pl.told.last); n != 0 {
			t.Errorf("what %d pods were told is kept, though they are gone", n)
		}
	})
}

// The scheduler tells also of a pod that was deleted during its cycle.
func TestWhatPodsWereToldGoesWithThem(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		const pods = 10
		r.node("n", 1)
		asked := 0
		r.fake.OnMatch(func(match.Request) (*match.Allocation, error) {
			r.must(r.client.CoreV1().Pods(ns).Delete(r.ctx, fmt.Sprintf("w-%d", asked), metav1.DeleteOptions{}))
			asked++
			time.Sleep(10 * time.Millisecond) // in the time of the bubble: the deletion is seen
			return nil, &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooFew, Level: "node", Wanted: 100, Nodes: 1}}
		})
		r.schedule()
		for i := range pods {
			r.pod(fmt.Sprintf("w-%d", i))
			r.pass(time.Second)
		}
		if asked != pods {
			t.Fatalf("%d pods were asked for, want %d", asked, pods)
		}
		if n := len(r.pl.told.last); n != 0 {
			t.Errorf("what %d pods were told is kept, though they are gone", n)
		}
	})
}

func TestToldLeavesNumbersAside(t *testing.T) {
	var all told[types.UID]
	steps := []struct {
		pod  types.UID
		text string
		want bool
	}{
		{"a", "room for 1", true},
		{"a", "room for 2", false},
		{"b", "room for 2", true},
		{"a", "no answer", true},
		{"a", "room for 1", true},
	}
	for i, s := range steps {
		if got := all.isNews(s.pod, s.text); got != s.want {
			t.Errorf("step %d: %q to pod %s is news: %v, want %v", i, s.text, s.pod, got, s.want)
		}
	}
}
