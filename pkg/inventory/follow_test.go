package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/objects"
)

// following begins with the node n1 of 8 cores and forgets the load.
func following(t *testing.T, test func(*world)) {
	t.Helper()
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.begin()
		w.expect("load", "Reset", "PutNode n1", "Ready")
		w.expectChanges("load", "Loaded")
		test(w)
	})
}

// State 6 of the lessons of earlier systems: a pod that has ended without an event is gone, too.
func TestAPodIsChargedFromItsNodeToItsEnd(t *testing.T) {
	cases := map[string]struct {
		end  func(*world)
		want string
	}{
		"succeeded":              {end: func(w *world) { w.pods.update(pod("a", "u1", "n1", "2", objects.InPhase(corev1.PodSucceeded))) }},
		"failed":                 {end: func(w *world) { w.pods.update(pod("a", "u1", "n1", "2", objects.InPhase(corev1.PodFailed))) }},
		"deleted":                {end: func(w *world) { w.pods.remove(pod("a", "u1", "n1", "2")) }},
		"its last state unknown": {end: func(w *world) { w.pods.lose("default/a") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			following(t, func(w *world) {
				w.pods.add(pod("a", "u1", "", "2", objects.InPhase(corev1.PodPending)))
				w.expect("a pod without a node")

				w.pods.update(pod("a", "u1", "n1", "2", objects.InPhase(corev1.PodPending)))
				w.expect("bound", "Update pod: u1@n1 core=2000m")
				w.expectChanges("bound")

				w.pods.update(pod("a", "u1", "n1", "2", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }))
				w.expect("terminating")

				w.expectEnds("not ended")
				tc.end(w)
				w.expectEnds("ended", "u1@n1")
				w.expect("ended", "Release pod: u1")
				w.expectChanges("ended", "Freed n1 core=2000m pods=1")

				w.pods.lose("default/a")
				w.expect("gone once more")
				w.expectEnds("gone once more")
			})
		})
	}
}

func TestAPodThatWasNeverBoundIsNoneOfTheInventory(t *testing.T) {
	following(t, func(w *world) {
		w.pods.add(pod("a", "u1", "", "2"))
		w.pods.update(pod("a", "u1", "", "2", objects.InPhase(corev1.PodFailed)))
		w.pods.remove(pod("a", "u1", "", "2"))
		w.expect("came and went")
		w.expectChanges("came and went")
	})
}

func TestAPodIsChargedToTheJobItWasMatchedFor(t *testing.T) {
	following(t, func(w *world) {
		w.jobs["u1"] = match.NewJobID("group")
		w.pods.add(pod("a", "u1", "n1", "2"))
		w.expect("matched", "Update group: u1@n1 core=2000m")

		w.jobs["u1"] = match.NewJobID("other")
		w.pods.update(pod("a", "u1", "n1", "2"))
		w.expect("another job: booked before it is released", "Update other: u1@n1 core=2000m", "Release group: u1")
		w.expectChanges("another job: nothing is free by that")

		delete(w.jobs, "u1")
		w.pods.update(pod("a", "u1", "n1", "2"))
		w.expect("its job is forgotten", "Update pod: u1@n1 core=2000m", "Release other: u1")

		w.pods.remove(pod("a", "u1", "n1", "2"))
		w.expect("deleted", "Release pod: u1")
	})
}

func TestAResizeInPlaceIsAnUpdate(t *testing.T) {
	following(t, func(w *world) {
		w.pods.add(pod("a", "u1", "n1", "2"))
		w.step()
		w.pods.update(pod("a", "u1", "n1", "3"))
		w.expect("larger", "Update pod: u1@n1 core=3000m")
		w.expectChanges("larger")
		w.pods.update(pod("a", "u1", "n1", "1"))
		w.expect("smaller", "Update pod: u1@n1 core=1000m")
		w.expectChanges("smaller", "Freed n1 core=2000m")
	})
}

func TestAPodThatTurnsIntoItsSuccessorInOneUpdate(t *testing.T) {
	following(t, func(w *world) {
		w.nodes.add(node("n2", "8"))
		w.pods.add(pod("a", "u1", "n1", "2"))
		w.step()
		w.expectChanges("before", "NodeAdded n2 core=8000m pods=110")

		w.pods.update(pod("a", "u2", "n2", "1"))
		w.expect("bound", "Update pod: u2@n2 core=1000m", "Release pod: u1")
		w.expectChanges("bound", "Freed n1 core=2000m pods=1")
		w.expectEnds("bound", "u1@n1")

		w.pods.update(pod("a", "u3", "", "1"))
		w.expect("waiting", "Release pod: u2")
		w.expectEnds("waiting", "u2@n2")
	})
}

func TestTheClusterSaysWhereAPodIs(t *testing.T) {
	following(t, func(w *world) {
		// Matched to n1 in the engine, but bound to n2.
		w.jobs["u1"] = match.NewJobID("group")
		w.pods.add(pod("a", "u1", "n2", "2"))
		w.expect("bound elsewhere", "Update group: u1@n2 core=2000m")
	})
}

func TestPodsOfOneJobThatEndTogetherAreReleasedTogether(t *testing.T) {
	following(t, func(w *world) {
		w.jobs["u1"], w.jobs["u2"] = match.NewJobID("group"), match.NewJobID("group")
		resume := w.fake.Hold(matchtest.Update)
		w.pods.add(pod("a", "u1", "n1", "1"), pod("b", "u2", "n1", "1"))
		resume()
		w.step()
		resume = w.fake.Hold(matchtest.PutNode)
		w.nodes.add(node("n2", "1")) // keeps the worker busy while both end
		w.step()
		w.pods.remove(pod("a", "u1", "n1", "1"))
		w.pods.remove(pod("b", "u2", "n1", "1"))
		resume()
		w.expect("ended", "Release group: u1 u2")
	})
}

func TestNewsOvertakesNews(t *testing.T) {
	following(t, func(w *world) {
		resume := w.fake.Hold(matchtest.Update)
		w.pods.add(pod("a", "u1", "n1", "1"))
		w.expect("the engine is busy", "Update pod: u1@n1 core=1000m")

		for _, cores := range []string{"2", "3", "4"} {
			w.pods.update(pod("a", "u1", "n1", cores))
			w.nodes.update(node("n1", cores+"0"))
		}
		// Booked by a match and bound, but gone before the engine got the event.
		w.jobs["u2"] = match.NewJobID("group")
		w.pods.add(pod("b", "u2", "n1", "5"))
		w.pods.remove(pod("b", "u2", "n1", "5"))
		w.nodes.add(node("n2", "8"))
		w.nodes.remove(node("n2", "8"))
		w.expect("nothing can be sent yet")
		resume()
		w.expect("only the newest is sent, and nothing that may be booked is left",
			"Update pod: u1@n1 core=4000m", "PutNode n1", "Release group: u2")
		w.expectChanges("newest", "NodeChanged n1 core=32000m", "Freed n1 core=5000m pods=1")
	})
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	following(t, func(w *world) {
		for range 3 {
			w.nodes.add(node("n2", "8"))
			w.pods.add(pod("a", "u1", "n1", "1"), pod("b", "u2", "n2", "1"))
			w.step()
			w.pods.remove(pod("a", "u1", "n1", "1"))
			w.pods.update(pod("b", "u2", "n2", "1", objects.InPhase(corev1.PodSucceeded)))
			w.nodes.remove(node("n2", "8"))
			w.step()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if nodes, pods := len(w.Inventory.nodes.entries), len(w.holds.entries); nodes != 1 || pods != 0 {
			t.Errorf("%d nodes and %d pods are remembered, there are 1 and 0", nodes, pods)
		}
		if nodes, pods := cap(w.Inventory.nodes.queue), cap(w.holds.queue); nodes != 0 || pods != 0 {
			t.Errorf("queues for %d nodes and %d pods are kept, and nothing is queued", nodes, pods)
		}
	})
}

func TestNodes(t *testing.T) {
	cases := map[string]struct {
		change      func(*world)
		wantCalls   []string
		wantChanges []string
	}{
		"a heartbeat is no news": {
			change: func(w *world) {
				n := node("n1", "8")
				n.ResourceVersion, n.Annotations = "2", map[string]string{"seen": "now"}
				n.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
				n.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
				w.nodes.update(n)
			},
		},
		"cordon and taints are for the filters": {
			change: func(w *world) {
				w.nodes.update(node("n1", "8", func(n *corev1.Node) {
					n.Spec.Unschedulable = true
					n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
				}))
			},
		},
		"another node": {
			change:      func(w *world) { w.nodes.add(node("n2", "4")) },
			wantCalls:   []string{"PutNode n2"},
			wantChanges: []string{"NodeAdded n2 core=4000m pods=110"},
		},
		"another node, not ready": {
			change:      func(w *world) { w.nodes.add(node("n2", "4", notReady)) },
			wantCalls:   []string{"PutNode n2"},
			wantChanges: []string{"NodeAdded n2"},
		},
		"a device plugin arrives late": {
			change: func(w *world) {
				n := node("n1", "8")
				n.Status.Allocatable["nvidia.com/gpu"] = *node("", "4").Status.Allocatable.Cpu()
				w.nodes.update(n)
			},
			wantCalls:   []string{"PutNode n1"},
			wantChanges: []string{"NodeChanged n1 nvidia.com/gpu=4"},
		},
		"a smaller node": {
			change:      func(w *world) { w.nodes.update(node("n1", "6")) },
			wantCalls:   []string{"PutNode n1"},
			wantChanges: []string{"NodeChanged n1"},
		},
		"another rack": {
			change:      func(w *world) { w.nodes.update(node("n1", "8", inRack("r2"))) },
			wantCalls:   []string{"PutNode n1"},
			wantChanges: []string{"NodeChanged n1 core=8000m pods=110"},
		},
		"no rack": {
			change:      func(w *world) { w.nodes.update(node("n1", "8", func(n *corev1.Node) { n.Labels = nil })) },
			wantCalls:   []string{"PutNode n1"},
			wantChanges: []string{"NodeChanged n1 core=8000m pods=110"},
		},
		"down and up": {
			change: func(w *world) {
				w.nodes.update(node("n1", "8", notReady))
				w.expect("down", "PutNode n1")
				w.expectChanges("down", "NodeChanged n1")
				w.nodes.update(node("n1", "8"))
			},
			wantCalls:   []string{"PutNode n1"},
			wantChanges: []string{"NodeChanged n1 core=8000m pods=110"},
		},
		"gone": {
			change:      func(w *world) { w.nodes.remove(node("n1", "8")) },
			wantCalls:   []string{"RemoveNode n1"},
			wantChanges: []string{"NodeRemoved n1"},
		},
		"gone, its last state unknown, and back": {
			change: func(w *world) {
				w.nodes.lose("n1")
				w.expect("gone", "RemoveNode n1")
				w.expectChanges("gone", "NodeRemoved n1")
				w.nodes.add(node("n1", "8"))
			},
			wantCalls:   []string{"PutNode n1"},
			wantChanges: []string{"NodeAdded n1 core=8000m pods=110"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			following(t, func(w *world) {
				tc.change(w)
				w.expect("change", tc.wantCalls...)
				w.expectChanges("change", tc.wantChanges...)
			})
		})
	}
}

func TestGenerationRisesWithEveryChangeBeforeItIsTold(t *testing.T) {
	var w *world
	var seen []uint64
	configure := func(c *Config) {
		c.OnChange = func(change Change) {
			// This also proves that no lock is held.
			if g := w.Generation(); g != change.Generation {
				t.Errorf("%s carries generation %d in generation %d", change.Kind, change.Generation, g)
			}
			seen = append(seen, change.Generation)
		}
	}
	run(t, matchtest.NewFake, configure, func(world *world) {
		w = world
		w.begin()
		w.nodes.add(node("n1", "8"), node("n2", "8"))
		w.pods.add(pod("a", "u1", "n1", "1"))
		w.step()
		w.pods.remove(pod("a", "u1", "n1", "1"))
		w.step()
	})
	if len(seen) != 5 { // loaded, two nodes, freed, lost at the end
		t.Fatalf("changes had the generations %v", seen)
	}
	for n, g := range seen {
		if g != uint64(n+1) {
			t.Errorf("changes had the generations %v", seen)
		}
	}
}
