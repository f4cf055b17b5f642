package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// jobOf returns the job of a pod that was matched for no group.
func jobOf(uid string) match.JobID { return match.NewJobID("pod", uid) }

var group = match.NewJobID("group")

// holding books a slot in the engine that the inventory does not know.
func (w *world) holding(job match.JobID, key, node, cores string, edits ...func(*match.Slot)) {
	w.t.Helper()
	s := translate.HeldSlot(pod("", types.UID(key), node, cores))
	for _, edit := range edits {
		edit(&s)
	}
	w.behind(w.fake.Update(w.t.Context(), w.Epoch(), match.Job{ID: job, Slots: []match.Slot{s}}))
}

func (w *world) releasing(job match.JobID, keys ...string) {
	w.t.Helper()
	w.behind(w.fake.Release(w.t.Context(), w.Epoch(), job, keys...))
}

func (w *world) putting(node *corev1.Node) {
	w.t.Helper()
	g := translate.Node(node, []translate.Level{{Type: "rack", Key: "rack"}})
	w.behind(w.fake.PutNode(w.t.Context(), w.Epoch(), g))
}

// behind fails if a call that the inventory does not know has failed.
func (w *world) behind(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("behind the inventory's back: %v", err)
	}
}

// portrait is all that the engine has, in words.
func (w *world) portrait() []string {
	w.t.Helper()
	nodes, err := w.fake.Nodes(w.t.Context(), w.Epoch(), "", match.MaxNodesPerPage)
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, n := range nodes {
		lines = append(lines, n.Name+" "+describeNode(n.Graph))
		for _, h := range holdsOf(n.Jobs) {
			lines = append(lines, h.slot.Key+" "+describeHolds([]hold{normalize(h, []translate.Level{{Type: "rack"}})}))
		}
	}
	return lines
}

// audited begins with two nodes, a pod on each, and an
// assignment on n1 that a source lists, in the real engine.
func audited(t *testing.T, test func(w *world, seats *source)) {
	t.Helper()
	seats := &source{}
	run(t, embedded, func(c *Config) { c.Sources = []Source{seats} }, func(w *world) {
		seats.set(hold{job: group, slot: seat("u3")})
		w.nodes.add(node("n1", "8"), node("n2", "8"))
		w.pods.add(pod("a", "u1", "n1", "2"), pod("b", "u2", "n2", "3"))
		w.begin()
		time.Sleep(2*DefaultAuditEvery + time.Millisecond) // it was compared while all was well
		test(w, seats)
	})
}

// seat is a held slot of one core on n1.
func seat(key string) match.Slot { return translate.HeldSlot(pod("", types.UID(key), "n1", "1")) }

// State 8 of the lessons of earlier systems: drift between
// graph and cluster is measured continuously and repaired.
func TestDriftBetweenGraphAndClusterIsMeasuredContinuouslyAndHeals(t *testing.T) {
	pair := func(job match.JobID, holds string) string { return fmt.Sprintf("%s for job %d", holds, job) }
	a := pair(jobOf("u1"), "core=2000m pods=1 on n1")
	cases := map[string]struct {
		plant func(*world)
		want  Drift
	}{
		"a slot was released": {
			plant: func(w *world) { w.releasing(jobOf("u1")) },
			want:  Drift{Kind: SlotMissing, Node: "n1", Key: "u1", Cluster: a, Engine: nothing},
		},
		"a slot stands that nobody asked for": {
			plant: func(w *world) { w.holding(99, "x", "n1", "1") },
			want:  Drift{Kind: SlotSurplus, Node: "n1", Key: "x", Cluster: nothing, Engine: "core=1000m pods=1 on n1 for job 99"},
		},
		"a slot stands where no node is": {
			plant: func(w *world) { w.holding(99, "x", "nowhere", "1") },
			want:  Drift{Kind: SlotSurplus, Node: "nowhere", Key: "x", Cluster: nothing, Engine: "core=1000m pods=1 on nowhere for job 99"},
		},
		"a slot has other amounts": {
			plant: func(w *world) { w.holding(jobOf("u1"), "u1", "n1", "5") },
			want:  Drift{Kind: SlotDiffers, Node: "n1", Key: "u1", Cluster: a, Engine: pair(jobOf("u1"), "core=5000m pods=1 on n1")},
		},
		"a slot stands on another node": {
			plant: func(w *world) { w.holding(jobOf("u1"), "u1", "n2", "2") },
			want:  Drift{Kind: SlotDiffers, Node: "n1", Key: "u1", Cluster: a, Engine: pair(jobOf("u1"), "core=2000m pods=1 on n2")},
		},
		"a slot has a holder": {
			plant: func(w *world) {
				w.holding(jobOf("u1"), "u1", "n1", "2", func(s *match.Slot) { s.Holder = "ns/g" })
			},
			want: Drift{Kind: SlotDiffers, Node: "n1", Key: "u1", Cluster: a, Engine: a + " of ns/g"},
		},
		"a slot is shared": {
			plant: func(w *world) {
				w.holding(jobOf("u1"), "u1", "n1", "2", func(s *match.Slot) { s.Shared = true })
			},
			want: Drift{Kind: SlotDiffers, Node: "n1", Key: "u1", Cluster: a, Engine: a + ", shared"},
		},
		"a slot is of another job": {
			plant: func(w *world) {
				w.releasing(jobOf("u1"))
				w.holding(99, "u1", "n1", "2")
			},
			want: Drift{Kind: SlotDiffers, Node: "n1", Key: "u1", Cluster: a, Engine: "core=2000m pods=1 on n1 for job 99"},
		},
		"a slot is there twice": {
			plant: func(w *world) { w.holding(99, "u1", "n1", "2") },
			want:  Drift{Kind: SlotDiffers, Node: "n1", Key: "u1", Cluster: a, Engine: "core=2000m pods=1 on n1 for job 99; " + a},
		},
		"a seat was released": {
			plant: func(w *world) { w.releasing(group, "u3") },
			want:  Drift{Kind: SlotMissing, Node: "n1", Key: "u3", Cluster: pair(group, "core=1000m pods=1 on n1"), Engine: nothing},
		},
		"a seat is another": {
			plant: func(w *world) { w.holding(group, "u3", "n2", "2") },
			want: Drift{
				Kind: SlotDiffers, Node: "n1", Key: "u3",
				Cluster: pair(group, "core=1000m pods=1 on n1"), Engine: pair(group, "core=2000m pods=1 on n2"),
			},
		},
		"a node has other pools": {
			plant: func(w *world) { w.putting(node("n1", "9")) },
			want: Drift{
				Kind: NodeDiffers, Node: "n1",
				Cluster: "up cluster:cluster0 rack:r1 core=8000m memory=0B pods=110 properties=map[rack:r1]",
				Engine:  "up cluster:cluster0 rack:r1 core=9000m memory=0B pods=110 properties=map[rack:r1]",
			},
		},
		"a node stands in another rack": {
			plant: func(w *world) { w.putting(node("n1", "8", inRack("r2"))) },
			want: Drift{
				Kind: NodeDiffers, Node: "n1",
				Cluster: "up cluster:cluster0 rack:r1 core=8000m memory=0B pods=110 properties=map[rack:r1]",
				Engine:  "up cluster:cluster0 rack:r2 core=8000m memory=0B pods=110 properties=map[rack:r2]",
			},
		},
		"a node is down": {
			plant: func(w *world) { w.behind(w.fake.SetStatus(w.t.Context(), w.Epoch(), "n1", resource.Down)) },
			want: Drift{
				Kind: NodeDiffers, Node: "n1",
				Cluster: "up cluster:cluster0 rack:r1 core=8000m memory=0B pods=110 properties=map[rack:r1]",
				Engine:  "down cluster:cluster0 rack:r1 core=8000m memory=0B pods=110 properties=map[rack:r1]",
			},
		},
		"a node is missing": {
			plant: func(w *world) { w.behind(w.fake.RemoveNode(w.t.Context(), w.Epoch(), "n1")) },
			want: Drift{
				Kind: NodeMissing, Node: "n1",
				Cluster: "up cluster:cluster0 rack:r1 core=8000m memory=0B pods=110 properties=map[rack:r1]", Engine: nothing,
			},
		},
		"a node is there that the cluster has not": {
			plant: func(w *world) { w.putting(node("n0", "8")) },
			want: Drift{
				Kind: NodeSurplus, Node: "n0",
				Cluster: nothing, Engine: "up cluster:cluster0 rack:r1 core=8000m memory=0B pods=110 properties=map[rack:r1]",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			audited(t, func(w *world, _ *source) {
				before := w.portrait()
				if tc.want.Key == "u1" {
					tc.want.Pod.Namespace, tc.want.Pod.Name = "default", "a"
				}
				tc.plant(w)
				if cmp.Equal(w.portrait(), before) {
					t.Fatal("nothing is planted")
				}
				time.Sleep(w.cfg.DriftAfter)
				if len(w.found()) > 0 {
					t.Errorf("found before it has lasted: %+v", w.found())
				}
				w.within(2*w.cfg.AuditEvery, "found", func() bool { return len(w.found()) > 0 })
				synctest.Wait()
				if diff := cmp.Diff([]Drift{tc.want}, w.found()); diff != "" {
					t.Errorf("drift (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(before, w.portrait()); diff != "" {
					t.Errorf("it does not repair itself (-before +after):\n%s", diff)
				}
				w.saysOnce("The engine differs from the cluster", tc.want.Cluster, tc.want.Engine)
				time.Sleep(time.Minute)
				if len(w.found()) > 1 || w.Epoch() != 1 {
					t.Errorf("found again, in epoch %d: %+v", w.Epoch(), w.found())
				}
			})
		})
	}
}

// saysOnce fails unless one line of the log has all these words.
func (w *world) saysOnce(words ...string) {
	w.t.Helper()
	n := 0
	for line := range strings.Lines(w.log()) {
		has := true
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		if has {
			n++
		}
	}
	if n != 1 {
		w.t.Errorf("%d lines of the log have %q, want 1:\n%s", n, words, w.log())
	}
}

// TestAnEventThatWasLostShows lets the informers' stores differ from the events.
func TestAnEventThatWasLostShows(t *testing.T) {
	cases := map[string]struct {
		change func(nodes, pods *informer)
		want   DriftKind
	}{
		"of a pod that went": {
			change: func(_, pods *informer) { done(pods.store.Delete(pod("a", "u1", "n1", "2"))) },
			want:   SlotSurplus,
		},
		"of a pod that ended": {
			change: func(_, pods *informer) {
				done(pods.store.Update(pod("a", "u1", "n1", "2", objects.InPhase(corev1.PodFailed))))
			},
			want: SlotSurplus,
		},
		"of a pod that was bound": {
			change: func(_, pods *informer) { done(pods.store.Add(pod("c", "u9", "n2", "1"))) },
			want:   SlotMissing,
		},
		"of a pod that was resized": {
			change: func(_, pods *informer) { done(pods.store.Update(pod("a", "u1", "n1", "4"))) },
			want:   SlotDiffers,
		},
		"of a node that came": {
			change: func(nodes, _ *informer) { done(nodes.store.Add(node("n3", "8"))) },
			want:   NodeMissing,
		},
		"of a node that changed": {
			change: func(nodes, _ *informer) { done(nodes.store.Update(node("n1", "8", notReady))) },
			want:   NodeDiffers,
		},
		"of a node that went": {
			change: func(nodes, _ *informer) { done(nodes.store.Delete(node("n1", "8"))) },
			want:   NodeSurplus,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			audited(t, func(w *world, seats *source) {
				seats.set()
				w.releasing(group)
				tc.change(w.nodes, w.pods)
				w.within(w.cfg.DriftAfter+2*w.cfg.AuditEvery, "found", func() bool { return len(w.found()) > 0 })
				synctest.Wait()
				if len(w.found()) != 1 || w.found()[0].Kind != tc.want {
					t.Errorf("found %+v, want one of kind %s", w.found(), tc.want)
				}
				diff, err := compared(w)
				if err != nil || diff != "" {
					t.Errorf("it does not repair itself: %v\n%s", err, diff)
				}
			})
		})
	}
}

// compared compares the engine with the stores.
func compared(w *world) (string, error) {
	var nodes []*corev1.Node
	for _, obj := range w.nodes.store.List() {
		nodes = append(nodes, obj.(*corev1.Node))
	}
	var pods []*corev1.Pod
	for _, obj := range w.pods.store.List() {
		pods = append(pods, obj.(*corev1.Pod))
	}
	diff, err := difference(w.t.Context(), w.Epoch(), w.fake, nodes, pods, w.jobs, w.holders, w.ends)
	return diff + misplaced(w.Inventory, pods), err
}

func TestAMatchWhoseAnswerComesLateIsNoDrift(t *testing.T) {
	audited(t, func(w *world, seats *source) {
		_, err := w.fake.Match(t.Context(), match.Request{
			Epoch: w.Epoch(), ID: 7, Keys: []string{"u7"},
			Jobspec: matchtest.Jobspec(matchtest.Slot("a", jobspec.Exactly(1), matchtest.Cores(1), matchtest.Pods(1))),
		})
		if err != nil {
			t.Fatal(err)
		}
		// The answer takes as long as a match may. Then the
		// slot is released, which may take as long once more.
		time.Sleep(2 * w.cfg.Timeout)
		seats.set(hold{job: group, slot: seat("u3")}, hold{job: 7, slot: seat("u7")})
		time.Sleep(time.Minute)
		if len(w.found()) > 0 {
			t.Errorf("found %+v", w.found())
		}
		seats.set(hold{job: group, slot: seat("u3")})
		w.within(w.cfg.DriftAfter+2*w.cfg.AuditEvery, "given up by everybody", func() bool { return len(w.found()) == 1 })
	})
}

// TestAProcessThatStoodStillHasNotWaited compares no
// page for a while in which nothing else runs either.
func TestAProcessThatStoodStillHasNotWaited(t *testing.T) {
	stand := func(Change) {}
	run(t, embedded, func(c *Config) { c.OnChange = func(change Change) { stand(change) } }, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.pods.add(pod("a", "u1", "n1", "2"), pod("b", "u2", "n1", "2"))
		w.begin()
		time.Sleep(time.Millisecond)
		stand = func(c Change) {
			if c.Kind == Freed {
				time.Sleep(time.Minute)
			}
		}
		w.releasing(jobOf("u1"))
		time.Sleep(2 * w.cfg.AuditEvery) // it is suspect
		w.pods.remove(pod("b", "u2", "n1", "2"))
		time.Sleep(time.Minute + w.cfg.AuditEvery)
		if found := w.found(); len(found) > 0 {
			t.Errorf("found %+v", found)
		}
		w.within(w.cfg.DriftAfter, "found", func() bool { return len(w.found()) == 1 })
	})
}

func TestADifferenceThatTurnsIntoAnotherHasNotLasted(t *testing.T) {
	audited(t, func(w *world, _ *source) {
		for _, cores := range []string{"5", "6", "7"} {
			w.holding(jobOf("u1"), "u1", "n1", cores)
			time.Sleep(w.cfg.DriftAfter - w.cfg.AuditEvery)
		}
		if found := w.found(); len(found) > 0 {
			t.Errorf("found %+v", found)
		}
		w.within(3*w.cfg.AuditEvery, "found", func() bool { return len(w.found()) == 1 })
	})
}

// TestWhatStandsInLineIsNoDrift ends far more pods at once than are sent in the time to settle.
func TestWhatStandsInLineIsNoDrift(t *testing.T) {
	freed := func() {}
	run(t, embedded, func(c *Config) {
		c.OnChange = func(change Change) {
			if change.Kind == Freed {
				freed()
			}
		}
	}, func(w *world) {
		const batches = 20
		pods := make([]*corev1.Pod, batches*batch)
		for n := range pods {
			name := fmt.Sprintf("p%04d", n)
			pods[n] = pod(name, types.UID(name), "n1", "1")
			w.pods.add(pods[n])
		}
		w.begin()
		freed = func() { time.Sleep(w.cfg.AuditEvery) }
		// The pods that the audit meets first are last in the queue.
		for _, p := range slices.Backward(pods) {
			w.pods.remove(p)
		}
		time.Sleep(2 * batches * w.cfg.AuditEvery)
		if found := w.found(); len(found) > 0 {
			t.Errorf("%d found, the first is %+v", len(found), found[0])
		}
		if n := len(w.pages()); n < batches {
			t.Errorf("%d pages were compared, want one a second also while there is much to send", n)
		}
		if left := w.portrait(); len(left) > 0 {
			t.Errorf("the engine has still %q", left)
		}
	})
}

// afterList is an engine that calls a function as soon as it has listed its nodes.
type afterList struct {
	*matchtest.Fake
	then *atomic.Pointer[func()]
}

func (l afterList) Nodes(ctx context.Context, e match.Epoch, from string, limit int) ([]match.Node, error) {
	nodes, err := l.Fake.Nodes(ctx, e, from, limit)
	if then := l.then.Swap(nil); then != nil {
		(*then)()
	}
	return nodes, err
}

func TestWhatIsGivenBackDuringALookIsNoDrift(t *testing.T) {
	var returned atomic.Bool
	var then atomic.Pointer[func()]
	run(t, embedded, func(c *Config) {
		c.IsReleasing = func(match.JobID, string) bool { return returned.Load() }
		c.Engine = afterList{c.Engine.(*matchtest.Fake), &then}
	}, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.begin()
		w.within(time.Minute, "the graph is filled", w.loaded)
		returned.Store(true)
		w.holding(99, "x", "n1", "1")
		time.Sleep(2 * w.cfg.DriftAfter)
		if found := w.found(); len(found) > 0 {
			t.Fatalf("found %+v while it waits to be given back", found)
		}
		given := make(chan struct{})
		give := func() {
			w.releasing(99)
			returned.Store(false)
			close(given)
		}
		then.Store(&give)
		<-given
		time.Sleep(2 * w.cfg.DriftAfter)
		if found := w.found(); len(found) > 0 {
			t.Errorf("found %+v, which was given back", found)
		}
		w.holding(99, "x", "n1", "1")
		w.within(w.cfg.DriftAfter+2*w.cfg.AuditEvery, "found", func() bool { return len(w.found()) == 1 })
	})
}

func TestWhatTheEngineRefusesIsNoDrift(t *testing.T) {
	run(t, embedded, nil, func(w *world) {
		w.fake.FailNext(matchtest.PutNode, match.ErrInvalid, match.ErrInvalid, nil) // both, one, the other
		w.fake.FailNext(matchtest.Update, match.ErrInvalid, match.ErrInvalid, nil)
		w.nodes.add(node("n1", "8"), node("n2", "8"))
		w.pods.add(pod("a", "u1", "n3", "2"), pod("b", "u2", "n3", "3"))
		w.begin()
		time.Sleep(time.Minute)
		if len(w.found()) > 0 {
			t.Errorf("found %+v", w.found())
		}
		if got := w.portrait(); len(got) != 3 {
			t.Fatalf("the engine has\n%s\nwant a node, and a slot where no node is", strings.Join(got, "\n"))
		}
		w.saysOnce("The engine rejected a node as invalid")
		w.saysOnce("The engine rejected the slot of a pod as invalid")

		// Once the engine has taken it, it is compared like all else.
		w.nodes.update(node("n1", "9"))
		w.nodes.update(node("n2", "9"))
		w.pods.update(pod("a", "u1", "n3", "1"))
		w.pods.update(pod("b", "u2", "n3", "1"))
		synctest.Wait()
		w.releasing(jobOf("u1"))
		w.releasing(jobOf("u2"))
		for _, name := range []string{"n1", "n2"} {
			w.behind(w.fake.RemoveNode(t.Context(), w.Epoch(), name))
		}
		w.within(w.cfg.DriftAfter+2*w.cfg.AuditEvery, "found", func() bool { return len(w.found()) == 4 })
	})
}

// deaf is an engine that ignores what it is sent of one slot.
type deaf struct {
	match.Engine
	key string
}

// Update takes all slots except one.
func (d deaf) Update(ctx context.Context, e match.Epoch, jobs ...match.Job) error {
	return d.Engine.Update(ctx, e, slices.DeleteFunc(jobs, func(j match.Job) bool {
		return slices.ContainsFunc(j.Slots, func(s match.Slot) bool { return s.Key == d.key })
	})...)
}

func TestWhatDoesNotHealHasTheGraphFilledAnewOnce(t *testing.T) {
	run(t, func() *matchtest.Fake { return matchtest.Spy(deaf{embedded(), "u1"}) }, nil, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.pods.add(pod("a", "u1", "n1", "2"))
		w.begin()
		time.Sleep(maxRepairs * w.cfg.DriftAfter)
		if w.Epoch() != 1 {
			t.Errorf("loaded again before it was repaired %d times", maxRepairs)
		}
		time.Sleep(10 * time.Minute)
		if w.Epoch() != 2 {
			t.Errorf("the epoch is %d, want 2", w.Epoch())
		}
		if len(w.found()) != maxRepairs+1 {
			t.Errorf("told %d times, want once for each time that it was repaired and once when that had not helped", len(w.found()))
		}
	})
}

func TestAnEngineThatCannotBeListedIsNotFilledAnew(t *testing.T) {
	audited(t, func(w *world, _ *source) {
		w.fake.Fail(matchtest.Nodes, match.ErrUnavailable)
		w.releasing(jobOf("u1"))
		time.Sleep(time.Minute)
		if w.Epoch() != 1 || len(w.found()) > 0 {
			t.Errorf("the epoch is %d and %+v was found", w.Epoch(), w.found())
		}
		w.fake.Fail(matchtest.Nodes, nil)
		w.within(2*w.cfg.DriftAfter+3*w.cfg.AuditEvery, "found", func() bool { return len(w.found()) == 1 })
	})
}

func TestASuspectOfALostEpochIsDropped(t *testing.T) {
	audited(t, func(w *world, _ *source) {
		w.releasing(jobOf("u1"))
		time.Sleep(w.cfg.DriftAfter - time.Second)
		w.fake.FailNext(matchtest.Update, match.ErrUnavailable)
		time.Sleep(time.Minute)
		if w.Epoch() != 2 || len(w.found()) > 0 {
			t.Errorf("the epoch is %d and %+v was found", w.Epoch(), w.found())
		}
	})
}

func TestARoundGoesThroughTheGraphPageByPage(t *testing.T) {
	cases := map[string]struct {
		nodes int
		round time.Duration
		want  []string
	}{
		"a small graph is one page":           {nodes: 3, want: []string{"3.", "3."}},
		"an empty one too":                    {nodes: 0, want: []string{"0.", "0."}},
		"a page is not too small":             {nodes: 40, want: []string{"16", "16", "8.", "16"}},
		"nor is a round too long":             {nodes: 40, round: 2 * time.Second, want: []string{"20", "20", "0.", "20"}},
		"or longer than a page allows":        {nodes: 1100, round: time.Second, want: []string{"1024", "76.", "1024"}},
		"a page that is just full is not all": {nodes: 16, want: []string{"16", "0.", "16"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, embedded, func(c *Config) { c.AuditRound = tc.round }, func(w *world) {
				for n := range tc.nodes {
					w.nodes.add(node(fmt.Sprintf("n%d", n), "8"))
				}
				w.begin()
				time.Sleep(time.Duration(len(tc.want)) * w.cfg.AuditEvery)
				synctest.Wait()
				if !slices.Equal(w.pages(), tc.want) {
					t.Errorf("compared %q, want %q", w.pages(), tc.want)
				}
			})
		})
	}
}

func TestDriftIsFoundOnEveryPage(t *testing.T) {
	run(t, embedded, nil, func(w *world) {
		for n := range 200 {
			w.nodes.add(node(fmt.Sprintf("n%03d", n), "4"))
		}
		w.pods.add(pod("a", "u1", "n000", "1"), pod("b", "u2", "n070", "1"), pod("c", "u3", "n199", "1"))
		w.begin()
		w.holding(jobOf("u1"), "u1", "n150", "1") // moved to another page
		w.releasing(jobOf("u2"))
		w.putting(node("n199", "1"))
		before := w.cfg.DriftAfter + 15*w.cfg.AuditEvery
		w.within(before, "all found", func() bool { return len(w.found()) == 3 })
		time.Sleep(time.Minute)
		if len(w.found()) != 3 {
			t.Errorf("found %+v, want each once", w.found())
		}
		if diff, err := compared(w); err != nil || diff != "" {
			t.Errorf("it does not repair itself: %v\n%s", err, diff)
		}
	})
}

func TestAResetBySomebodyElseIsSaid(t *testing.T) {
	const message = "The engine has another epoch although it kept answering"
	audited(t, func(w *world, _ *source) {
		for _, method := range []matchtest.Method{matchtest.Update, matchtest.Reset} {
			w.fake.FailNext(method, match.ErrUnavailable)
		}
		time.Sleep(time.Minute)
		if strings.Contains(w.log(), message) {
			t.Errorf("an engine that did not answer was not reset by anybody:\n%s", w.log())
		}
		if _, err := w.fake.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.saysOnce(message, `lostEpoch=2`)
		if w.Epoch() != 4 {
			t.Errorf("the epoch is %d, want 4: two of the inventory's, one of somebody else's, one more", w.Epoch())
		}
	})
}

// slowList is an engine that is slow to list its nodes.
type slowList struct {
	*matchtest.Fake
	takes *atomic.Int64 // nanoseconds
}

func (s slowList) Nodes(ctx context.Context, e match.Epoch, from string, limit int) ([]match.Node, error) {
	select {
	case <-time.After(time.Duration(s.takes.Load())):
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", match.ErrUnavailable, ctx.Err())
	}
	return s.Fake.Nodes(ctx, e, from, limit)
}

// With an engine that lists slowly, changes of the cluster are
// still sent, and differences that lie far apart are still found.
func TestTheAuditKeepsNothingUp(t *testing.T) {
	var takes atomic.Int64
	const suspects = 64
	run(t, embedded, func(c *Config) {
		c.Engine = slowList{c.Engine.(*matchtest.Fake), &takes}
	}, func(w *world) {
		for i := range 2000 {
			w.nodes.add(node(fmt.Sprintf("n%04d", i), "4"))
		}
		w.begin()
		w.within(time.Minute, "the graph is filled", w.loaded)
		takes.Store(int64(300 * time.Millisecond))
		// These are in the cluster, but no event was sent.
		for i := range suspects {
			done(w.pods.store.Add(pod(fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("x%d", i)), fmt.Sprintf("n%04d", i), "1")))
		}
		time.Sleep(5 * time.Second)
		start := time.Now()
		w.pods.add(pod("late", "u1", "n1999", "1"))
		w.within(10*time.Minute, "the pod is booked", func() bool {
			return slices.ContainsFunc(w.fake.Calls(), func(c matchtest.Call) bool {
				return slices.ContainsFunc(c.Jobs, func(j match.Job) bool {
					return slices.ContainsFunc(j.Slots, func(s match.Slot) bool { return s.Key == "u1" })
				})
			})
		})
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("a pod that came was booked after %v", took)
		}
		w.within(2*time.Hour, "every difference is found", func() bool { return len(w.found()) >= suspects })
	})
}
