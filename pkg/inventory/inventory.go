// Package inventory keeps an engine's graph equal to a Kubernetes
// cluster: its nodes, and the slots that are held on them.
//
// The cluster is the only store. An inventory records what each node and pod means for the graph,
// and sends the engine the differences, one object at a time. After the engine was restarted, reset
// or out of reach, the graph is emptied and loaded again in another epoch, so that no change is
// missed.
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

// Default times of a Config.
const (
	// DefaultTimeout bounds a call of the engine.
	DefaultTimeout = 2 * time.Second
	// DefaultAuditEvery is the time between two pages of an audit.
	DefaultAuditEvery = time.Second
	// DefaultAuditRound is the time in which an audit compares the whole graph once.
	DefaultAuditRound = time.Minute
)

// Config is the configuration of an inventory.
type Config struct {
	// Engine is the engine whose graph is kept up to date. No other code may reset it, put nodes
	// into it or release slots of bound pods. Required.
	Engine match.Engine
	// Nodes and Pods are the informers of all *corev1.Node and *corev1.Pod. Required.
	// New adds an index to the informer of the pods.
	Nodes Informer
	Pods  IndexInformer
	// JobOf returns the job that a pod was matched for, or 0. It is called for pods with a
	// node whenever they change and whenever they are compared, and for the pods of a Recheck.
	// It must not block. If its answer for a pod changes, call Recheck. A pod without a job
	// gets a job of its own, match.NewJobID("pod", UID). If JobOf is nil no pod has a job.
	JobOf func(*corev1.Pod) match.JobID
	// HolderOf returns the holder of the pod's node if the node is held whole, or "". It is called
	// at the same times as JobOf, except for pods that run on every node. If HolderOf is nil no
	// node has a holder.
	HolderOf func(*corev1.Pod) string
	// EndOf returns when the room of a pod is expected to be free again, or the zero time if that is not known. It is
	// called at the same times as JobOf. If it is nil no pod has an end.
	EndOf func(*corev1.Pod) time.Time
	// MatchedAs returns the job and the slot that a Match of the caller booked for a pod on its
	// node, and the epoch of the graph in which it did. The epoch is 0 if there is none. A pod that
	// comes to its node with such a slot of the present epoch costs no Update. A slot whose key is not
	// the pod's UID was held for the pod before the pod existed: it is released once the pod is booked. MatchedAs must not
	// block. If the caller releases the slot, it has to call Recheck. If MatchedAs is nil, every slot
	// is sent.
	MatchedAs func(*corev1.Pod) (match.JobID, match.Slot, match.Epoch)
	// Sources list slots that are held in addition to the slots of bound pods, such as assignments.
	Sources []Source
	// Levels are the layers of the graph between the cluster and its nodes.
	Levels []translate.Level
	// OnEnd, if set, is called with the slot of each pod that has ended or is gone,
	// before the engine gets to know that. It must not block or call the inventory.
	OnEnd func(match.Slot)
	// OnChange, if set, is called with each Change once the engine has taken it: in order, by one
	// goroutine, without locks held. While it runs, the engine gets no changes.
	OnChange func(Change)
	// OnDrift, if set, is called with each Drift, in the same way as OnChange.
	OnDrift func(Drift)
	// OnAudit, if set, is called each time a page of the graph was compared with the cluster, in
	// the same way as OnChange. nodes is the number of nodes on the page.
	OnAudit func(nodes int, lastOfRound bool)
	// IsReleasing reports whether the owner of a slot is about to release it. While it returns true,
	// the slot is not reported as a Drift. It must not block. If it is nil no slot is being released.
	IsReleasing func(job match.JobID, key string) bool
	// AuditEvery is the time from one page to the next. It is
	// longer if the engine is slow. Defaults to DefaultAuditEvery.
	AuditEvery time.Duration
	// AuditRound is about the time that it takes to compare the whole graph once. A small graph
	// takes less time. A graph that would need more than 1,024 nodes on a page takes more. Defaults
	// to DefaultAuditRound.
	AuditRound time.Duration
	// DriftAfter is the time after which a difference is a Drift. It has to be longer than each of
	// these takes: a Match of the caller with the Release that follows it, and the delivery of an
	// event of the cluster. It is also the pause after a failed audit. Defaults to two Timeouts and a
	// second.
	DriftAfter time.Duration
	// Timeout bounds one call of the engine. A call that loads the graph may take five times as
	// long. Defaults to DefaultTimeout.
	Timeout time.Duration
}

// A Source lists slots that are held in addition to the slots of bound pods, for instance the
// assignments of pods that are not bound yet.
type Source interface {
	// Jobs is called each time the graph is loaded and each time a page of it is compared, without
	// locks held. Once the graph is loaded, and until the epoch ends, the owner of the source calls
	// Match and Release itself. While there is no epoch, it cannot call Release. If the owner gives up a job while
	// there is no epoch, it must release the job in the next epoch, because Jobs may have listed
	// the job already. Reservations (match.Job.Reserved) are booked when the graph is loaded, and are not compared. If a pod holds a slot of the same job and key, the pod's slot counts.
	Jobs() []match.Job
}

// An Inventory keeps the graph of one engine equal to the cluster. Its methods are safe for
// concurrent use.
type Inventory struct {
	cfg   Config
	wake  chan struct{} // holds a token if there is something to send
	check chan struct{} // holds a token if the engine's epoch is in doubt

	// readMu is held while JobOf, HolderOf and EndOf are called for a pod and their results are recorded.
	// Without it an older result could be recorded after a newer one. It is locked before mu.
	readMu sync.Mutex

	// canon has the sets of all holds, because most pods request the same as others.
	canon resource.Canon

	// auditNext is the name at which the next page of the audit begins. Only the worker uses it.
	auditNext string

	mu        sync.Mutex
	pods      map[types.UID]*corev1.Pod // the pods that hold something
	toRecheck map[types.UID]struct{}    // the pods to read once more
	nodes     ledger[string, *resource.Graph]
	holds     ledger[types.NamespacedName, []hold] // by pod
	// podsOn names the pods that hold something on each node.
	podsOn map[string]sets.Set[types.NamespacedName]
	// sentBinds are the binds that were sent for pods that the cluster does not show on a node yet.
	sentBinds map[types.UID]sentBind

	epoch      match.Epoch // 0: not loaded
	why        string      // why it is not loaded, see WhyNotLoaded
	generation uint64

	// Only the worker uses the fields below.

	// invalid holds the subjects that the engine found invalid when they were last sent.
	invalid map[subject]struct{}
	// unfixable holds the differences that came back although the graph was loaded again to repair
	// them.
	unfixable map[subject]*unfixable
}

// New returns an inventory, which does nothing until Run is called. It
// fails if the configuration lacks a required field or has a negative time.
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
	if cfg.EndOf == nil {
		cfg.EndOf = func(*corev1.Pod) time.Time { return time.Time{} }
	}
	if cfg.MatchedAs == nil {
		cfg.MatchedAs = func(*corev1.Pod) (match.JobID, match.Slot, match.Epoch) { return 0, match.Slot{}, 0 }
	}
	if cfg.OnEnd == nil {
		cfg.OnEnd = func(match.Slot) {}
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
	if err := addNodeIndex(cfg.Pods); err != nil {
		return nil, err
	}
	return &Inventory{
		cfg:       cfg,
		wake:      make(chan struct{}, 1),
		check:     make(chan struct{}, 1),
		pods:      map[types.UID]*corev1.Pod{},
		podsOn:    map[string]sets.Set[types.NamespacedName]{},
		sentBinds: map[types.UID]sentBind{},
		holds:     ledger[types.NamespacedName, []hold]{merge: addSkipped},
		invalid:   map[subject]struct{}{},
		unfixable: map[subject]*unfixable{},
	}, nil
}

// setTimes sets the times that are left out. It fails if one is negative.
func (c *Config) setTimes() error {
	for _, t := range []struct {
		name string
		time time.Duration
	}{
		{"Timeout", c.Timeout}, {"AuditEvery", c.AuditEvery}, {"AuditRound", c.AuditRound}, {"DriftAfter", c.DriftAfter},
	} {
		if t.time < 0 {
			return fmt.Errorf("inventory: %s: %v: must not be negative", t.name, t.time)
		}
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.AuditEvery = cmp.Or(c.AuditEvery, DefaultAuditEvery)
	c.AuditRound = cmp.Or(c.AuditRound, DefaultAuditRound)
	c.DriftAfter = cmp.Or(c.DriftAfter, 2*c.Timeout+time.Second)
	return nil
}

// Epoch returns the epoch in which the graph is loaded, for the caller's own calls
// of the engine. It is 0 while the graph is not loaded and nothing can be matched.
func (i *Inventory) Epoch() match.Epoch {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.epoch
}

// Nodes returns the number of nodes in the graph. While the graph
// is being loaded it is the number that the graph will have.
func (i *Inventory) Nodes() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.nodes.size()
}

// Generation rises with every Change, after the engine took it and before OnChange is called. A
// refusal stays valid while the generation is the same as before the match.
func (i *Inventory) Generation() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.generation
}

// Resync makes the inventory check at once whether the engine still has the graph, and load it
// again if not. It is for callers that got ErrStale. Without it the next probe finds out.
func (i *Inventory) Resync() { signal(i.check) }

// Recheck makes the inventory call JobOf, HolderOf and EndOf for these pods soon, and update the
// engine if the answers have changed. It only queues the pods, so the caller may hold locks
// that these take. Pods that hold nothing, or are not known yet, are ignored.
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

// Run keeps the graph up to date until ctx ends. Then it returns nil. It waits until the informers
// have all objects of the cluster before it first loads the graph. It fails only if it cannot watch
// the cluster. It may be called once.
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

// signal leaves a token for the worker, at most one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
