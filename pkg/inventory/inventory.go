// Package inventory keeps an engine's graph equal to a Kubernetes cluster: its
// nodes, and what is held on them.
//
// The cluster is the only store. An inventory remembers what each object of the
// cluster calls for and brings the engine there, one object at a time and only
// where something changed. An engine that was restarted, reset or out of reach
// is emptied and filled anew in another epoch, so nothing that happened
// meanwhile can be missed.
package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// The times that hold unless the configuration says otherwise.
const (
	// DefaultTimeout bounds a call of the engine.
	DefaultTimeout = 2 * time.Second
	// DefaultAuditEvery is the time between two pages of an audit.
	DefaultAuditEvery = time.Second
	// DefaultAuditRound is the time for the whole graph.
	DefaultAuditRound = time.Minute
)

// Config is what an inventory is made of.
type Config struct {
	// Engine is the engine to keep. Nobody else resets it, puts nodes into it or
	// releases what pods with a node hold. Required.
	Engine match.Engine
	// Nodes and Pods tell of all *corev1.Node and *corev1.Pod. Required.
	Nodes, Pods Informer
	// JobOf names the job that a pod was matched for, or 0. It is called for pods
	// with a node whenever they change and whenever they are compared, and must not
	// block. What it answers otherwise than before is booked so after a Recheck. A pod of no job counts
	// as one of its own, match.NewJobID("pod", UID). nil knows no pod.
	JobOf func(*corev1.Pod) match.JobID
	// HolderOf names the one whose a pod's node is as a whole, empty for nobody. It
	// is called as JobOf is, and for the pods of a Recheck. That of a pod that runs
	// on every node does not count. nil names nobody.
	HolderOf func(*corev1.Pod) string
	// Sources list what is held beside.
	Sources []Source
	// Levels are the layers of the graph between the cluster and its nodes.
	Levels []translate.Level
	// OnChange, if set, is called with each Change once the engine has taken it:
	// in order, by one goroutine, without locks held. The engine is not brought
	// up to date while it runs.
	OnChange func(Change)
	// OnDrift, if set, is called with each Drift, as OnChange is.
	OnDrift func(Drift)
	// OnAudit, if set, is called each time a page of the graph was compared with
	// the cluster, as OnChange is: with the number of nodes on it, and whether it
	// was the last of its round.
	OnAudit func(nodes int, round bool)
	// IsReleasing says that a slot is about to be given back to the engine by whose it
	// was: while it waits for that it is no Drift. It must not block. nil is never.
	IsReleasing func(job match.JobID, key string) bool
	// AuditEvery is the time from one page to the next; more where the engine is
	// slow. Defaults to DefaultAuditEvery.
	AuditEvery time.Duration
	// AuditRound is about how long it takes to compare the whole graph; a small one
	// is done sooner, and one of more than 1,024 nodes a page later. Defaults to
	// DefaultAuditRound.
	AuditRound time.Duration
	// Settle is how long a difference must last to be a Drift. It has to be longer
	// than any call that is under way: a Match and a Release of the caller's, and
	// an event of the cluster. Defaults to two Timeouts and a second.
	Settle time.Duration
	// Timeout bounds one call of the engine. A call that fills an empty graph may
	// take five times as long. Defaults to DefaultTimeout.
	Timeout time.Duration
}

// A Source lists what is held beside what pods with a node hold, for instance
// what was matched for pods that are not bound yet.
type Source interface {
	// Jobs is called each time the graph is filled and each time a page of it is
	// compared, without locks held. Between two fillings the source's owner itself
	// matches and releases. While there is no epoch it cannot: what it then gives up
	// it releases as soon as there is one, for it may have been listed before. Where
	// a pod holds a slot of the same job and key, the pod prevails.
	Jobs() []match.Job
}

// An Inventory keeps one engine. Its methods are safe for concurrent use.
type Inventory struct {
	cfg   Config
	wake  chan struct{} // holds a token when there is something to send
	check chan struct{} // holds a token when the engine's epoch is in doubt

	// readMu is held while what a pod holds is read and noted, so that what was
	// read first is not noted last. It comes before mu.
	readMu sync.Mutex

	// auditNext is where the next page of the audit begins. Only the worker has it.
	auditNext string

	mu        sync.Mutex
	pods      map[types.UID]*corev1.Pod // those that hold
	toRecheck map[types.UID]struct{}    // pods to read once more
	nodes     ledger[string, *resource.Graph]
	holds     ledger[types.NamespacedName, []hold] // by pod
	// podsOn names the pods that hold something on each node, and sent are the binds that were
	// sent for pods which do not yet.
	podsOn    map[string]sets.Set[types.NamespacedName]
	sentBinds map[types.UID]sentBind

	epoch      match.Epoch // 0: not loaded
	generation uint64

	// What follows is the worker's alone.

	// invalid lists what the engine found invalid when it was last sent.
	invalid map[subject]struct{}
	// unfixable lists the differences that were there again after the graph had been
	// filled anew because of them.
	unfixable map[subject]*unfixable
}

// New returns an inventory, which does nothing until it is Run. It fails where
// the configuration lacks something required or has a negative timeout.
func New(cfg Config) (*Inventory, error) {
	switch {
	case cfg.Engine == nil:
		return nil, errors.New("inventory: no engine")
	case cfg.Nodes == nil || cfg.Pods == nil:
		return nil, errors.New("inventory: nodes or pods have no informer")
	}
	if err := cfg.setTimes(); err != nil {
		return nil, err
	}
	if cfg.JobOf == nil {
		cfg.JobOf = func(*corev1.Pod) match.JobID { return 0 }
	}
	if cfg.HolderOf == nil {
		cfg.HolderOf = func(*corev1.Pod) string { return "" }
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func(Change) {}
	}
	if cfg.OnDrift == nil {
		cfg.OnDrift = func(Drift) {}
	}
	if cfg.IsReleasing == nil {
		cfg.IsReleasing = func(match.JobID, string) bool { return false }
	}
	if cfg.OnAudit == nil {
		cfg.OnAudit = func(int, bool) {}
	}
	return &Inventory{
		cfg:       cfg,
		wake:      make(chan struct{}, 1),
		check:     make(chan struct{}, 1),
		pods:      map[types.UID]*corev1.Pod{},
		podsOn:    map[string]sets.Set[types.NamespacedName]{},
		sentBinds: map[types.UID]sentBind{},
		holds:     ledger[types.NamespacedName, []hold]{skipped: addSkipped},
		invalid:   map[subject]struct{}{},
		unfixable: map[subject]*unfixable{},
	}, nil
}

// setTimes sets the times that are left out, and fails for negative ones.
func (c *Config) setTimes() error {
	for _, t := range []struct {
		name string
		time time.Duration
	}{
		{"timeout", c.Timeout}, {"time between audits", c.AuditEvery}, {"time of a round", c.AuditRound}, {"time to settle", c.Settle},
	} {
		if t.time < 0 {
			return fmt.Errorf("inventory: %s %v is negative", t.name, t.time)
		}
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.AuditEvery = cmp.Or(c.AuditEvery, DefaultAuditEvery)
	c.AuditRound = cmp.Or(c.AuditRound, DefaultAuditRound)
	c.Settle = cmp.Or(c.Settle, 2*c.Timeout+time.Second)
	return nil
}

// Epoch returns the epoch that the graph is loaded in, for the caller's own
// calls of the engine; 0 while it is not loaded and no verdict can be had.
func (i *Inventory) Epoch() match.Epoch {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.epoch
}

// Nodes returns how many nodes the graph has, or is to have while it is loaded.
func (i *Inventory) Nodes() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.nodes.size()
}

// Generation rises with every Change, after the engine took it and before
// OnChange is called. A refusal holds for as long as the generation is the one
// that was read before asking.
func (i *Inventory) Generation() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.generation
}

// Resync has the engine asked at once whether it still has the graph, which is
// filled anew if not. It is for callers that were told ErrStale; without it the
// same comes about a little later.
func (i *Inventory) Resync() { signal(i.check) }

// Recheck has JobOf and HolderOf asked about these pods soon, and the engine
// brought up to date where they answer otherwise than before. It does not wait
// for that, and may be called with any lock held that they take. Pods that hold
// nothing, or were not told of yet, are left out.
func (i *Inventory) Recheck(uids ...types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.toRecheck == nil {
		i.toRecheck = make(map[types.UID]struct{}, len(uids))
	}
	for _, uid := range uids {
		i.toRecheck[uid] = struct{}{}
	}
	signal(i.wake)
}

// Run keeps the engine until ctx ends, and then returns nil. It waits for all
// that is in the cluster to be told before it first fills the graph. It fails
// only where it cannot watch the cluster, and may be called once.
func (i *Inventory) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watches

	nodes, err := watch(ctx, i.cfg.Nodes, i.setNode, i.dropNode)
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	pods, err := watch(ctx, i.cfg.Pods, i.setPod, i.dropPod)
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	for _, synced := range []<-chan struct{}{nodes, pods} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	i.loop(ctx)
	return nil
}

// signal leaves a token for the worker, one at most.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
