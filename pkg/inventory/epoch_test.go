package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestTheGraphIsFilledOnceAllIsKnown(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.pods.add(pod("a", "u1", "n1", "2"), pod("b", "u2", "", "1"), pod("c", "u3", "n1", "1", objects.InPhase(corev1.PodFailed)))
		close(w.nodes.synced)
		w.expect("pods are missing")

		resume := w.fake.Hold(matchtest.Ready)
		close(w.pods.synced)
		w.expect("all is known", "Reset", "PutNode n1", "Update pod: u1@n1 core=2000m", "Ready")
		if e := w.Epoch(); e != 0 {
			t.Errorf("the engine is not ready, and yet there is the epoch %d", e)
		}
		w.expectChanges("not ready")
		resume()
		synctest.Wait()
		if e := w.Epoch(); e != 1 {
			t.Errorf("the epoch is %d, want 1", e)
		}
		w.expectChanges("ready", "Loaded")
	})
}

func TestWhatIsToldDuringTheLoadFollows(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"), node("n2", "8"))
		w.pods.add(pod("a", "u1", "n1", "2"))
		resume := w.fake.Hold(matchtest.Ready)
		w.begin()
		w.step()
		w.pods.remove(pod("a", "u1", "n1", "2"))
		w.pods.add(pod("b", "u2", "n2", "2"))
		w.nodes.remove(node("n1", "8"))
		resume()
		w.expect("after the load", "Update pod: u2@n2 core=2000m", "RemoveNode n1", "Release pod: u1")
		w.expectChanges("after the load", "Loaded", "NodeRemoved n1", "Freed n1 core=2000m pods=1")
	})
}

func TestAnEngineThatLostItsGraphIsFilledAnew(t *testing.T) {
	cases := map[string]struct {
		fails  matchtest.Method
		notice func(*world) // shows the loss
		within time.Duration
	}{
		"seen by a change": {
			fails:  matchtest.Release,
			notice: func(w *world) { w.pods.remove(pod("a", "u1", "n1", "2")) },
			within: 60 * time.Millisecond,
		},
		"seen by who matches": {
			fails:  matchtest.Update,
			notice: func(w *world) { w.Resync() },
			within: 60 * time.Millisecond,
		},
		"seen by nobody": {
			fails:  matchtest.Update,
			notice: func(*world) {},
			within: time.Second,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, matchtest.NewFake, nil, func(w *world) {
				w.nodes.add(node("n1", "8"))
				w.pods.add(pod("a", "u1", "n1", "2"), pod("b", "u2", "n1", "1"))
				w.begin()
				w.step()

				w.fake.FailNext(tc.fails, match.ErrStale)
				tc.notice(w)
				w.within(tc.within, "a new epoch", func() bool { return w.Epoch() == 2 })
				got := w.step()
				for _, line := range []string{"Reset", "PutNode n1", "u2@n1 core=1000m", "Ready"} {
					if !strings.Contains(got, line) {
						t.Errorf("the engine was not told %q:\n%s", line, got)
					}
				}
				kinds := make([]ChangeKind, 0, len(w.changes))
				for _, c := range w.changes {
					kinds = append(kinds, c.Kind)
				}
				if !slices.Contains(kinds, Lost) || kinds[len(kinds)-1] != Loaded {
					t.Errorf("told of %v", kinds)
				}
			})
		})
	}
}

func TestNothingIsLostWhileTheEngineIsAway(t *testing.T) {
	for _, outage := range []error{match.ErrUnavailable, fmt.Errorf("connection refused: %w", errors.New("unexpected"))} {
		t.Run(outage.Error(), func(t *testing.T) {
			run(t, matchtest.NewFake, nil, func(w *world) {
				w.nodes.add(node("n1", "8"))
				w.pods.add(pod("a", "u1", "n1", "1"), pod("b", "u2", "n1", "2"))
				w.begin()
				w.step()
				w.expectChanges("load", "Loaded")

				for _, m := range []matchtest.Method{matchtest.Reset, matchtest.Update, matchtest.PutNode, matchtest.Release} {
					w.fake.Fail(m, outage)
				}
				w.pods.remove(pod("a", "u1", "n1", "1"))
				w.nodes.add(node("n2", "8"))
				w.within(100*time.Millisecond, "the loss", func() bool { return !w.loaded() })
				w.pods.update(pod("b", "u2", "n1", "3"))
				time.Sleep(time.Minute) // in the bubble's time
				tries := len(w.fake.Calls(matchtest.Reset))
				if tries < 60 || tries > 130 {
					t.Errorf("the engine was tried %d times in a minute", tries)
				}
				w.expectChanges("outage", "Lost")
				for _, m := range []matchtest.Method{matchtest.Reset, matchtest.Update, matchtest.PutNode, matchtest.Release} {
					w.fake.Fail(m, nil)
				}
				w.step()
				w.within(time.Second, "the engine is back", w.loaded)
				got := strings.Split(w.step(), "\n")
				if len(got) == 4 && strings.HasSuffix(got[1], "n2 n1") {
					got[1] = "PutNode n1 n2" // the engine decides their order
				}
				if want := []string{"Reset", "PutNode n1 n2", "Update pod: u2@n1 core=3000m", "Ready"}; !slices.Equal(got, want) {
					t.Errorf("the engine was called\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		})
	}
}

func TestALongOutageDoesNotSlowTheNextRecovery(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.begin()
		w.fake.Fail(matchtest.Reset, match.ErrUnavailable)
		w.fake.FailNext(matchtest.Update, match.ErrStale)
		time.Sleep(time.Minute) // in the bubble's time
		w.fake.Fail(matchtest.Reset, nil)
		w.within(time.Second, "the end of the outage", w.loaded)

		w.fake.FailNext(matchtest.Update, match.ErrStale)
		w.Resync()
		synctest.Wait()
		if w.loaded() {
			t.Fatal("the loss was not seen")
		}
		w.within(minRetryBackoff, "the next recovery", w.loaded)
	})
}

func TestALoadThatFailsHalfWayBeginsAgain(t *testing.T) {
	for _, m := range []matchtest.Method{matchtest.Reset, matchtest.PutNode, matchtest.Update, matchtest.Ready} {
		t.Run(string(m), func(t *testing.T) {
			run(t, matchtest.NewFake, nil, func(w *world) {
				w.nodes.add(node("n1", "8"))
				w.pods.add(pod("a", "u1", "n1", "1"))
				w.fake.FailNext(m, match.ErrUnavailable, match.ErrStale)
				w.begin()
				w.within(time.Second, "the graph is loaded", w.loaded)
				got := strings.Split(w.step(), "\n")
				want := []string{"Reset", "PutNode n1", "Update pod: u1@n1 core=1000m", "Ready"}
				if len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
					t.Errorf("the last load was\n%s", strings.Join(got, "\n"))
				}
				w.expectChanges("one load", "Loaded")
			})
		})
	}
}

func TestEveryCallHasADeadline(t *testing.T) {
	for m, limit := range map[matchtest.Method]time.Duration{
		matchtest.Reset: 3 * time.Second, matchtest.PutNode: 15 * time.Second, matchtest.Update: 15 * time.Second, matchtest.Ready: 15 * time.Second,
	} {
		t.Run("load, "+string(m), func(t *testing.T) {
			run(t, matchtest.NewFake, func(c *Config) { c.Timeout = 3 * time.Second }, func(w *world) {
				w.nodes.add(node("n1", "8"))
				w.pods.add(pod("a", "u1", "n1", "1"))
				resume := w.fake.Hold(m)
				start := time.Now()
				w.begin()
				w.within(time.Minute, "another try", func() bool { return len(w.fake.Calls(m)) == 2 })
				if took := time.Since(start); took < limit || took > limit+100*time.Millisecond {
					t.Errorf("%s was given up after %v, want %v", m, took, limit)
				}
				resume()
				w.within(time.Second, "the engine answers", w.loaded)
			})
		})
	}
	for m, change := range map[matchtest.Method]func(*world){
		matchtest.PutNode:    func(w *world) { w.nodes.add(node("n2", "8")) },
		matchtest.RemoveNode: func(w *world) { w.nodes.remove(node("n1", "8")) },
		matchtest.Update:     func(w *world) { w.pods.add(pod("b", "u2", "n1", "1")) },
		matchtest.Release:    func(w *world) { w.pods.remove(pod("a", "u1", "n1", "1")) },
	} {
		t.Run("afterwards, "+string(m), func(t *testing.T) {
			run(t, matchtest.NewFake, nil, func(w *world) {
				w.nodes.add(node("n1", "8"))
				w.pods.add(pod("a", "u1", "n1", "1"))
				w.begin()
				resume := w.fake.Hold(m)
				start := time.Now()
				change(w)
				w.within(time.Minute, "the loss", func() bool { return !w.loaded() })
				if took := time.Since(start); took != DefaultTimeout {
					t.Errorf("%s was given up after %v, want %v", m, took, DefaultTimeout)
				}
				resume()
				w.within(time.Second, "the engine answers", w.loaded)
			})
		})
	}
}

func TestALoadIsSentInBatches(t *testing.T) {
	const nodes, pods = 2*batch + 1, 3*batch + 1
	run(t, matchtest.NewFake, nil, func(w *world) {
		for n := range nodes {
			w.nodes.add(node(fmt.Sprintf("n%d", n), "8"))
		}
		for n := range pods {
			uid := types.UID(fmt.Sprintf("uid%d", n))
			w.jobs[uid] = match.NewJobID("group")
			w.pods.add(pod(fmt.Sprintf("p%d", n), uid, "n0", "1"))
		}
		w.begin()
		put, charged := map[string]bool{}, map[string]bool{}
		for _, c := range w.fake.Calls(matchtest.PutNode) {
			if len(c.Nodes) > batch {
				t.Errorf("%d nodes in one call", len(c.Nodes))
			}
			for _, g := range c.Nodes {
				put[nodeOf(g).Name] = true
			}
		}
		for _, c := range w.fake.Calls(matchtest.Update) {
			if len(c.Jobs) != 1 || len(c.Jobs[0].Slots) > batch {
				t.Errorf("%d jobs in one call, want one of at most %d slots", len(c.Jobs), batch)
			}
			for _, s := range c.Jobs[0].Slots {
				charged[s.Key] = true
			}
		}
		if len(put) != nodes || len(charged) != pods {
			t.Errorf("%d nodes and %d pods were sent, want %d and %d", len(put), len(charged), nodes, pods)
		}
	})
}

func TestWhatTheEngineRefusesKeepsNothingElseOut(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"), node("n2", "8"))
		w.pods.add(pod("a", "u1", "n1", "1"), pod("b", "u2", "n1", "1"))
		// The batch fails, then its first node alone. The engine takes the second.
		w.fake.FailNext(matchtest.PutNode, match.ErrInvalid, match.ErrInvalid)
		w.fake.FailNext(matchtest.Update, match.ErrInvalid, match.ErrInvalid)
		w.begin()
		if !w.loaded() {
			t.Fatal("one invalid object keeps the graph from being loaded")
		}
		if puts := w.fake.Calls(matchtest.PutNode); len(puts) != 3 || len(puts[1].Nodes) != 1 || len(puts[2].Nodes) != 1 {
			t.Errorf("nodes were put in %d calls", len(puts))
		}
		if updates := w.fake.Calls(matchtest.Update); len(updates) != 3 || len(updates[1].Jobs) != 1 || len(updates[2].Jobs) != 1 {
			t.Errorf("pods were booked in %d calls", len(updates))
		}
	})
}

// What the engine has of a node that it rejects is outdated, so pods must not be placed there.
func TestANodeThatTheEngineRejectsIsTakenFromIt(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"), node("n2", "8"))
		w.begin()
		w.step()
		w.fake.FailNext(matchtest.PutNode, match.ErrInvalid, match.ErrInvalid)
		w.nodes.update(node("n1", "9"))
		w.expect("an update that is rejected", "PutNode n1", "PutNode n1", "RemoveNode n1")
		w.fake.FailNext(matchtest.PutNode, match.ErrInvalid, match.ErrInvalid)
		w.nodes.add(node("n3", "8"))
		w.expect("a new node that is rejected", "PutNode n3", "PutNode n3")
		w.nodes.update(node("n1", "10"))
		w.expect("an update that is accepted", "PutNode n1")
	})
}

// listed is a source that lists the same at every load.
type listed []match.Job

func (l listed) Jobs() []match.Job { return l }

func TestSourcesAreReplayedAndPodsPrevail(t *testing.T) {
	group := match.NewJobID("group")
	tentative := listed{{ID: group, Slots: []match.Slot{
		matchtest.Held("u1", "n1", matchtest.Cores(2)),
		matchtest.Held("u2", "n1", matchtest.Cores(2)),
	}}}
	configure := func(c *Config) { c.Sources = []Source{tentative} }
	run(t, matchtest.NewFake, configure, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.jobs["u1"] = group
		w.pods.add(pod("a", "u1", "n2", "2"), pod("b", "u2", "", "2"))
		w.begin()
		w.expect("load", "Reset", "PutNode n1",
			"Update group: u1@n1 core=2000m u2@n1 core=2000m",
			"Update group: u1@n2 core=2000m",
			"Ready")
	})
}

func TestAPodThatEndsDuringTheLoadLeavesNothingThatASourceListed(t *testing.T) {
	group := match.NewJobID("group")
	tentative := listed{{ID: group, Slots: []match.Slot{matchtest.Held("u1", "n1", matchtest.Cores(2))}}}
	configure := func(c *Config) { c.Sources = []Source{tentative} }
	run(t, matchtest.NewFake, configure, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.jobs["u1"] = group
		w.pods.add(pod("a", "u1", "n1", "2"))
		resume := w.fake.Hold(matchtest.Update)
		w.begin()
		w.expect("the source's list is on its way", "Reset", "PutNode n1", "Update group: u1@n1 core=2000m")
		w.pods.remove(pod("a", "u1", "n1", "2"))
		resume()
		w.expect("the pod is gone", "Release group: u1", "Ready")
	})
}

func TestNewRefusesAConfigurationThatLacksSomething(t *testing.T) {
	full := Config{Engine: matchtest.NewFake(), Nodes: newInformer(), Pods: newInformer()}
	if _, err := New(full); err != nil {
		t.Errorf("what is required is there, and yet: %v", err)
	}
	cases := map[string]func(*Config){
		"no engine":             func(c *Config) { c.Engine = nil },
		"no nodes":              func(c *Config) { c.Nodes = nil },
		"no pods":               func(c *Config) { c.Pods = nil },
		"a negative timeout":    func(c *Config) { c.Timeout = -1 },
		"audits before time":    func(c *Config) { c.AuditEvery = -1 },
		"a negative round":      func(c *Config) { c.AuditRound = -1 },
		"a negative DriftAfter": func(c *Config) { c.DriftAfter = -1 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := full
			change(&cfg)
			if _, err := New(cfg); err == nil {
				t.Error("New took it")
			}
		})
	}
}
