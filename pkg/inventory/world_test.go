package inventory

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
)

// An informer passes what a test does to its one handler.
type informer struct {
	handler cache.ResourceEventHandler
	synced  chan struct{}
	store   cache.Indexer
}

func newInformer() *informer {
	return &informer{synced: make(chan struct{}), store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
}

func (i *informer) GetStore() cache.Store { return i.store }

func (i *informer) GetIndexer() cache.Indexer { return i.store }

func (i *informer) AddIndexers(indexers cache.Indexers) error { return i.store.AddIndexers(indexers) }

func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = h
	return registration{i}, nil
}

func (i *informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error {
	i.handler = nil
	return nil
}

type registration struct{ *informer }

func (r registration) HasSynced() bool                     { return cache.IsDone(r) }
func (r registration) HasSyncedChecker() cache.DoneChecker { return r }
func (r registration) Name() string                        { return "test" }
func (r registration) Done() <-chan struct{}               { return r.synced }
func (i *informer) add(objs ...any) {
	for _, obj := range objs {
		done(i.store.Add(obj))
		i.handler.OnAdd(obj, false)
	}
}
func (i *informer) update(obj any) {
	old, _, _ := i.store.Get(obj)
	done(i.store.Update(obj))
	i.handler.OnUpdate(old, obj)
}
func (i *informer) remove(obj any) {
	done(i.store.Delete(obj))
	i.handler.OnDelete(obj)
}
func (i *informer) lose(key string) {
	if obj, ok, _ := i.store.GetByKey(key); ok {
		done(i.store.Delete(obj))
	}
	i.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: key})
}

// done is for what cannot fail: every object of a test has a name.
func done(err error) {
	if err != nil {
		panic(err)
	}
}

// A world is an inventory that runs between a cluster and an engine,
// both controlled by the test. When step returns nothing in it runs.
type world struct {
	*Inventory
	t           *testing.T
	nodes, pods *informer
	fake        *matchtest.Fake
	changes     []Change
	log         func() string
	entries     func() ktesting.Log
	ready       match.Epoch // the last one for which step has seen a Ready

	mu      sync.Mutex                // the worker may read jobs and holders meanwhile
	jobs    map[types.UID]match.JobID // what JobOf returns
	holders map[types.UID]string      // what HolderOf returns
	ends    map[types.UID]time.Time   // what EndOf returns
	drifts  []Drift
	ended   []string // "u1@n1" for a slot of which OnEnd was called, "u1@n1 late" if the engine was updated before
	audited []string // "3" for a page of three nodes, "3." for the last of a round
}

// run runs test in a bubble with its own clock. The objects
// of the world are known, but not complete until begin.
func run(t *testing.T, fake func() *matchtest.Fake, configure func(*Config), test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, nodes: newInformer(), pods: newInformer(), fake: fake(), jobs: map[types.UID]match.JobID{}, holders: map[types.UID]string{}, ends: map[types.UID]time.Time{}}
		cfg := Config{
			Engine:   w.fake,
			Nodes:    w.nodes,
			Pods:     w.pods,
			JobOf:    func(pod *corev1.Pod) match.JobID { return locked(w, w.jobs, pod.UID) },
			HolderOf: func(pod *corev1.Pod) string { return locked(w, w.holders, pod.UID) },
			EndOf:    func(pod *corev1.Pod) time.Time { return locked(w, w.ends, pod.UID) },
			Levels:   []translate.Level{{Type: "rack", Key: "rack"}},
			OnEnd: func(s match.Slot) {
				w.mu.Lock()
				defer w.mu.Unlock()
				end := s.Key + "@" + s.Node
				if len(w.fake.Calls(matchtest.Update)) > 0 {
					end += " late"
				}
				w.ended = append(w.ended, end)
			},
			OnChange: func(c Change) { w.changes = append(w.changes, c) },
			OnDrift: func(d Drift) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.drifts = append(w.drifts, d)
			},
			OnAudit: func(nodes int, round bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.audited = append(w.audited, strconv.Itoa(nodes)+map[bool]string{true: "."}[round])
			},
		}
		if configure != nil {
			configure(&cfg)
		}
		inventory, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.Inventory = inventory
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		w.log = func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
		w.entries = func() ktesting.Log { return logger.GetSink().(ktesting.Underlier).GetBuffer().Data() }
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		defer func() { // also if the test gives up
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
			synctest.Wait() // for the watches to end
			if w.nodes.handler != nil || w.pods.handler != nil {
				t.Error("Run has ended and still watches")
			}
		}()
		synctest.Wait() // for the handlers
		test(w)
	})
}

// found returns what the audit has found once nothing runs any more.
func (w *world) found() []Drift {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.drifts)
}

// pages returns the pages that the audit has compared.
func (w *world) pages() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.audited)
}

// locked reads what a world has of a pod.
func locked[V any](w *world, m map[types.UID]V, uid types.UID) V {
	w.mu.Lock()
	defer w.mu.Unlock()
	return m[uid]
}

// set changes what is known of a pod.
func set[V any](w *world, m map[types.UID]V, uid types.UID, v V) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m[uid] = v
}

// begin marks all objects as known, and waits for what follows.
func (w *world) begin() {
	close(w.nodes.synced)
	close(w.pods.synced)
	synctest.Wait()
}

// step waits until the inventory has done all it can. Then it returns
// the calls meanwhile as lines of text, without probes and audits.
func (w *world) step() string {
	synctest.Wait()
	var lines []string
	for _, c := range w.fake.Calls() {
		switch {
		case c.Method == matchtest.Nodes, c.Method == matchtest.Update && len(c.Jobs) == 0:
			continue // an audit or a probe
		case c.Method == matchtest.Ready && c.Epoch == w.ready:
			continue // a check of the epoch that is loaded
		case c.Method == matchtest.Ready:
			w.ready = c.Epoch
		}
		lines = append(lines, render(c))
	}
	w.fake.Forget()
	return strings.Join(lines, "\n")
}

// expect compares the calls since the last time, a line each.
func (w *world) expect(what string, lines ...string) {
	w.t.Helper()
	if got, want := w.step(), strings.Join(lines, "\n"); got != want {
		w.t.Errorf("%s: the engine was called\n%s\nwant\n%s", what, got, want)
	}
}

// expectChanges compares the changes since the last time, a line each.
func (w *world) expectChanges(what string, lines ...string) {
	w.t.Helper()
	synctest.Wait()
	var got []string
	for _, c := range w.changes {
		got = append(got, strings.TrimSpace(strings.Join([]string{string(c.Kind), c.Node, string(c.Gain.Key())}, " ")))
	}
	w.changes = nil
	if !slices.Equal(got, lines) {
		w.t.Errorf("%s: told of\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// expectEnds fails the test unless OnEnd was called for these slots before the engine was updated.
func (w *world) expectEnds(what string, slots ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.ended, slots) {
		w.t.Errorf("%s: ended are %v, want %v", what, w.ended, slots)
	}
	w.ended = nil
}

// within waits until done, in the bubble's time, and fails after a limit.
func (w *world) within(limit time.Duration, what string, done func() bool) {
	w.t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		if done() {
			return
		}
		if time.Since(start) > limit {
			w.t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

func (w *world) loaded() bool { return w.Epoch() != 0 }

// render writes a call in one line.
func render(c matchtest.Call) string {
	words := []string{string(c.Method)}
	for _, g := range c.Nodes {
		words = append(words, nodeOf(g).Name)
	}
	if c.Name != "" {
		words = append(words, c.Name)
	}
	for _, j := range c.Jobs {
		words = append(words, jobName(j.ID)+":")
		for _, s := range j.Slots {
			amounts := amountsOf(hold{slot: s})
			delete(amounts, translate.TypePods)
			words = append(words, strings.TrimSpace(s.Key+"@"+s.Node+" "+string(amounts.Key())))
			if s.Holder != "" {
				words = append(words, "of "+s.Holder)
			}
			if end := s.R.Expiration; !end.IsZero() {
				words = append(words, "until "+end.Format(time.TimeOnly))
			}
			if s.Shared {
				words = append(words, "shared")
			}
		}
	}
	if c.ID != 0 {
		words = append(words, jobName(c.ID)+":", strings.Join(c.Keys, " "))
	}
	return strings.Join(words, " ")
}

// jobName names the jobs that tests use.
func jobName(id match.JobID) string {
	for _, name := range []string{"group", "other"} {
		if id == match.NewJobID(name) {
			return name
		}
	}
	for _, uid := range []string{"u1", "u2", "u3"} {
		if id == match.NewJobID("pod", uid) {
			return "pod"
		}
	}
	return "?"
}

func node(name string, cores string, edits ...func(*corev1.Node)) *corev1.Node {
	return objects.ReadyNode(name, 0, objects.Having("cpu", cores, "pods", "110"), inRack("r1"), objects.All(edits...))
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func inRack(rack string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels["rack"] = rack }
}

// pod builds a pod that runs on a node, or waits where that is "".
func pod(name string, uid types.UID, node, cores string, edits ...func(*corev1.Pod)) *corev1.Pod {
	return objects.Pod(name, objects.In("default"), objects.CPU(cores), objects.CreatedOn(node), objects.InPhase(corev1.PodRunning),
		func(p *corev1.Pod) { p.UID, p.Spec.SchedulerName = uid, "" }, objects.All(edits...))
}

// A source lists what a test has it list.
type source struct {
	mu    sync.Mutex
	seats []hold
}

// Jobs implements Source.
func (s *source) Jobs() []match.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return jobsOf(s.seats)
}

func (s *source) set(seats ...hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seats = seats
}
