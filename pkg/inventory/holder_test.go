package inventory

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/objects"
)

func ofDaemonSet(p *corev1.Pod) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: &yes}}
}

func TestAPodIsChargedToWhomItsNodeIsAsAWhole(t *testing.T) {
	following(t, func(w *world) {
		w.holders["u1"], w.holders["u2"] = "ns/g", "ns/g"
		w.pods.add(pod("a", "u1", "n1", "1"))
		w.expect("of a holder", "Update pod: u1@n1 core=1000m of ns/g")
		w.pods.add(pod("b", "u2", "n1", "1", ofDaemonSet))
		w.expect("on every node", "Update pod: u2@n1 core=1000m shared")
		w.expectChanges("bound")
		delete(w.holders, "u2")
		w.pods.update(pod("b", "u2", "n1", "1"))
		w.expect("orphaned", "Update pod: u2@n1 core=1000m")
		w.expectChanges("orphaned", "Freed n1")
	})
}

func TestAHolderThatBecomesKnownLateIsToldAfterARecheck(t *testing.T) {
	following(t, func(w *world) {
		w.pods.add(pod("a", "u1", "n1", "1"), pod("b", "u2", "n1", "1"))
		w.expect("of nobody", "Update pod: u1@n1 core=1000m pod: u2@n1 core=1000m")

		w.holders["u1"] = "ns/g"
		w.expect("nobody rechecks")
		w.Recheck("u1", "u2", "unknown")
		w.expect("rechecked", "Update pod: u1@n1 core=1000m of ns/g")
		w.expectChanges("others than before are kept off", "Freed n1")

		w.Recheck("u1")
		w.expect("nothing is new")
		w.expectChanges("nothing is new")

		w.jobs["u1"], w.holders["u1"] = match.NewJobID("group"), ""
		w.Recheck("u1")
		w.expect("of a job", "Update group: u1@n1 core=1000m", "Release pod: u1")
	})
}

func TestARecheckMayComeFromWhereTheHolderOfAPodIsGuarded(t *testing.T) {
	var guard chan struct{} // held by whoever took its one token
	configure := func(c *Config) {
		guard = make(chan struct{}, 1)
		guard <- struct{}{}
		inner := c.HolderOf
		c.HolderOf = func(p *corev1.Pod) string {
			<-guard
			defer func() { guard <- struct{}{} }()
			return inner(p)
		}
	}
	run(t, matchtest.NewFake, configure, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.pods.add(pod("a", "u1", "n1", "1"))
		w.begin()
		w.step()
		resume := w.fake.Hold(matchtest.Update)
		w.pods.add(pod("b", "u2", "n1", "1"))
		synctest.Wait() // the engine is busy with it
		<-guard
		w.holders["u1"] = "ns/g"
		w.Recheck("u1")
		guard <- struct{}{}
		resume()
		w.expect("rechecked", "Update pod: u2@n1 core=1000m", "Update pod: u1@n1 core=1000m of ns/g")
	})
}

func TestARecheckOfAPodThatIsGoneIsNothing(t *testing.T) {
	cases := map[string]func(*world){
		"deleted":   func(w *world) { w.pods.remove(pod("a", "u1", "n1", "1")) },
		"succeeded": func(w *world) { w.pods.update(pod("a", "u1", "n1", "1", objects.InPhase(corev1.PodSucceeded))) },
		"replaced":  func(w *world) { w.pods.update(pod("a", "u2", "n1", "1")) },
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			following(t, func(w *world) {
				w.pods.add(pod("a", "u1", "n1", "1"))
				w.step()
				end(w)
				w.step()
				w.holders["u1"] = "ns/g"
				w.Recheck("u1")
				w.expect("gone")
				if len(w.toRecheck) > 0 {
					t.Errorf("pods are doubted for ever: %v", w.toRecheck)
				}
				if len(w.Inventory.pods) > 1 || w.Inventory.pods["u1"] != nil {
					t.Errorf("pods that hold nothing are kept: %v", w.Inventory.pods)
				}
			})
		})
	}
}

func TestAPodThatGoesWhileItIsRecheckedIsGone(t *testing.T) {
	var w *world
	configure := func(c *Config) {
		inner := c.HolderOf
		c.HolderOf = func(p *corev1.Pod) string {
			holder := inner(p)
			if holder != "" {
				w.pods.remove(p)
			}
			return holder
		}
	}
	run(t, matchtest.NewFake, configure, func(world *world) {
		w = world
		w.nodes.add(node("n1", "8"))
		w.pods.add(pod("a", "u1", "n1", "1"))
		w.begin()
		w.step()
		w.holders["u1"] = "ns/g"
		w.Recheck("u1")
		w.expect("gone", "Release pod: u1")
	})
}

func TestARecheckGoesBehindAnEventThatIsBeingRead(t *testing.T) {
	var mu sync.Mutex
	holder, calls := "", 0
	reading, goOn := make(chan struct{}), make(chan struct{})
	configure := func(c *Config) {
		reading, goOn = make(chan struct{}), make(chan struct{}) // of the bubble
		c.HolderOf = func(*corev1.Pod) string {
			mu.Lock()
			calls++
			said, nth := holder, calls
			mu.Unlock()
			if nth == 2 { // the event
				close(reading)
				<-goOn
			}
			return said
		}
	}
	asked := func() int {
		mu.Lock()
		defer mu.Unlock()
		return calls
	}
	run(t, matchtest.NewFake, configure, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.pods.add(pod("a", "u1", "n1", "1"))
		w.begin()
		w.step()
		go w.pods.update(pod("a", "u1", "n1", "2"))
		<-reading // it has read that the node has no holder
		mu.Lock()
		holder = "ns/g"
		mu.Unlock()
		w.Recheck("u1")
		// A recheck that did not wait for the event would have time to pass it.
		for range 10_000 {
			if asked() > 2 {
				break
			}
			runtime.Gosched()
		}
		close(goOn)
		w.step()
		for _, h := range w.holds.desired(types.NamespacedName{Namespace: "default", Name: "a"}) {
			if h.slot.Holder != "ns/g" {
				t.Errorf("the slot is of %q, want ns/g", h.slot.Holder)
			}
		}
	})
}

func TestWhatWasRecheckedWhileTheEngineWasAwayIsInTheNextFilling(t *testing.T) {
	following(t, func(w *world) {
		w.pods.add(pod("a", "u1", "n1", "1"))
		w.step()
		w.fake.Fail(matchtest.Update, match.ErrUnavailable)
		w.fake.Fail(matchtest.Reset, match.ErrUnavailable)
		w.within(maxRetryBackoff, "lost", func() bool { return !w.loaded() })
		w.holders["u1"] = "ns/g"
		w.Recheck("u1")
		w.step()
		w.fake.Fail(matchtest.Update, nil)
		w.fake.Fail(matchtest.Reset, nil)
		w.within(2*maxRetryBackoff, "loaded", w.loaded)
		w.expect("filled", "Reset", "PutNode n1", "Update pod: u1@n1 core=1000m of ns/g", "Ready")
	})
}

// TestManyRechecksWhilePodsComeAndGo changes the holders of pods between
// events of the pods, from another goroutine, and compares in the end.
func TestManyRechecksWhilePodsComeAndGo(t *testing.T) {
	run(t, embedded, func(c *Config) {
		c.HolderOf = func(p *corev1.Pod) string { return p.Labels["holder"] }
	}, func(w *world) {
		w.nodes.add(node("n1", "64"))
		w.begin()
		uids := make([]types.UID, 20)
		for i := range uids {
			uids[i] = types.UID(fmt.Sprintf("uid%d", i))
		}
		go func() {
			for range 50 {
				w.Recheck(uids...)
			}
		}()
		for round := range 10 {
			for i, uid := range uids {
				p := pod(fmt.Sprintf("p%d", i), uid, "n1", "1")
				p.Labels = map[string]string{"holder": fmt.Sprintf("ns/%d", round)}
				w.pods.update(p)
			}
		}
		synctest.Wait()
		jobs, err := w.fake.Jobs(t.Context(), w.Epoch())
		if err != nil || len(jobs) != len(uids) {
			t.Fatalf("%d jobs, %v, want %d", len(jobs), err, len(uids))
		}
		for _, j := range jobs {
			if got := j.Slots[0].Holder; got != "ns/9" {
				t.Errorf("slot %s is of %q, want ns/9", j.Slots[0].Key, got)
			}
		}
	})
}
