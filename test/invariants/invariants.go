// Package invariants checks the rules that a cluster scheduled by Fluence
// must keep, whatever happens to the cluster. It reads the Kubernetes API
// and the API server's audit log. It reads nothing of Fluence itself.
//
// The rules (judge) are a core without I/O and without a clock. The core is
// given each change and the time at which the change was seen. The watches,
// the audit log and the last probe are its edges. A rule that cannot be
// decided from what was seen reports no violation, and Stats counts the case.
package invariants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Config is what a Checker watches, and with which limits.
type Config struct {
	// REST is the connection to the API server. It
	// needs every right, and no client-side rate limit.
	REST *rest.Config
	// Audit is the path of the API server's audit log: JSON,
	// one event a line. The API server may still be writing it.
	Audit string
	// Levels are the label keys of the topology levels in
	// the scheduler's configuration, the outermost first.
	Levels []string
	// Scheduler is the schedulerName of Fluence's pods. Defaults to fluence.
	Scheduler string
	// Accounts are the users whose binds, deletes and evictions of pods are
	// Fluence's. Defaults to the service accounts of scheduler and controller.
	Accounts []string
	// IncompleteTimeout is the controller's default timeout of incomplete groups. Defaults to 5m.
	IncompleteTimeout time.Duration
	// Slack is how late a reason, a condition or the effect of a policy may be. Defaults to 15s.
	Slack time.Duration
	// StartWithin is the longest time from a group's first bind until all pods
	// it needs are on nodes, if nothing explains a delay. Defaults to 10s.
	StartWithin time.Duration
	// Linger is how long the PodGroup of bare pods may
	// stay after the last of its pods. Defaults to 60s.
	Linger time.Duration
	// Log receives each violation when it is found. Defaults to io.Discard.
	Log io.Writer
}

func (c *Config) validate() error {
	switch {
	case c.REST == nil:
		return errors.New("invariants: REST: nil: must say how to reach the API server")
	case c.Audit == "":
		return errors.New(`invariants: Audit: "": must be the path of the audit log`)
	}
	for name, d := range map[string]time.Duration{"IncompleteTimeout": c.IncompleteTimeout, "Slack": c.Slack, "StartWithin": c.StartWithin, "Linger": c.Linger} {
		if d < 0 {
			return fmt.Errorf("invariants: %s: %v: must not be negative", name, d)
		}
	}
	c.setDefaults()
	return nil
}

func (c *Config) setDefaults() {
	if c.Scheduler == "" {
		c.Scheduler = schedulerName
	}
	if c.Accounts == nil {
		c.Accounts = []string{schedulerAccount, controllerUser}
	}
	if c.IncompleteTimeout == 0 {
		c.IncompleteTimeout = 5 * time.Minute
	}
	if c.Slack == 0 {
		c.Slack = 15 * time.Second
	}
	if c.StartWithin == 0 {
		c.StartWithin = 10 * time.Second
	}
	if c.Linger == 0 {
		c.Linger = time.Minute
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
}

// A Violation is a breach of one rule.
type Violation struct {
	// Rule is one of the Rule constants.
	Rule string
	// Object is namespace/name of the group, the pod or the event's subject.
	Object string
	// At is the time when the violation was noticed. For a bind it is the time of the request.
	At time.Time
	// Message tells what was expected and what was seen, with numbers.
	Message string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s %s: %s", v.At.UTC().Format("15:04:05.000"), v.Rule, v.Object, v.Message)
}

// Stats counts what was checked, so that "no violation" means something.
type Stats struct {
	// Facts is the number of changes of objects that were seen. Pods, Groups and Nodes are
	// the numbers of such objects. Relists is the number of watches that had to begin anew.
	Facts, Pods, Groups, Nodes, Relists int
	// Binds is the number of Fluence's binds that FullNode and NodeClosed judged.
	// BindsExcused is the number of its binds not judged because of an excuse or a relist.
	// BindsForeign is the number of pods that got their node from somebody else. BindsUnknown
	// is the number of Fluence's pods that got a node without a request in the audit log.
	Binds, BindsExcused, BindsForeign, BindsUnknown int
	// Stands is the number of binds that were judged by the pods near
	// them. Spreads is the number of spread constraints that were judged.
	Stands, Spreads int
	// Started is the number of groups that became complete. Together is the number of
	// those groups that have several pods and had no disturbance to excuse a late start.
	// Partial is the number of times that a group with pods on nodes had too few of them.
	Started, Together, Partial int
	// LongestPartial is the longest time that a group had too few pods on nodes, excuses included.
	LongestPartial time.Duration
	// LongestStart is the longest time from a group's first
	// bind until the group was complete, without excused time.
	LongestStart time.Duration
	// Removals is the number of Fluence's deletes and evictions that were judged.
	Removals int
	// Evicted is the number of groups and pods alone that were seen to be evicted for others. Helped is the
	// number of preemptors of which it was judged whether that helped.
	Evicted, Helped int
	// Promised is the number of promises of room that were seen. PromisesMoved is how often one came later,
	// PromisesKept how many groups started in time, and PromisesEnded how many promises were told no more.
	Promised, PromisesMoved, PromisesKept, PromisesEnded int
	// Admitted is how often a job in a queue was given room and that was judged by the limits. AdmittedExcused is how often it was not
	// judged. QueueBinds is the number of judged binds of pods of queues.
	Admitted, AdmittedExcused, QueueBinds int
	// Waited is the number of times that a group or a lone pod began
	// to wait. Told is the number of times that it then got a reason.
	Waited, Told int
	// Events is the number of Fluence's events that were compared.
	Events int
	// Excuses is the number of excuses.
	Excuses int
	// Excused is the time that the excuses lasted
	// together. Watched is the time of the whole watch.
	Excused, Watched time.Duration
	// Probed is the number of pods of the last probe.
	Probed int
}

func (s Stats) String() string {
	return fmt.Sprintf("facts %d (pods %d, groups %d, nodes %d, relists %d); binds judged %d, excused %d, others' %d, unknown %d, beside others %d, spread %d; "+
		"groups started %d, %d of several pods undisturbed, longest start %.1fs, partial %d, longest %.1fs; removals %d; evicted %d, for %d judged preemptors; promised %d, moved %d, kept %d, ended %d; in queues admitted %d, excused %d, binds %d; waited %d, told %d; events %d; excuses %d, %.1fs of %.1fs; probed %d",
		s.Facts, s.Pods, s.Groups, s.Nodes, s.Relists, s.Binds, s.BindsExcused, s.BindsForeign, s.BindsUnknown, s.Stands, s.Spreads,
		s.Started, s.Together, s.LongestStart.Seconds(), s.Partial, s.LongestPartial.Seconds(), s.Removals, s.Evicted, s.Helped, s.Promised, s.PromisesMoved, s.PromisesKept, s.PromisesEnded, s.Admitted, s.AdmittedExcused, s.QueueBinds, s.Waited, s.Told, s.Events, s.Excuses, s.Excused.Seconds(), s.Watched.Seconds(), s.Probed)
}

// A Checker watches a cluster. Its methods may be called from several goroutines.
type Checker struct {
	cfg     Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	judge  *judge
	failed error
}

// tick is the interval at which the rules are given the time.
const tick = 250 * time.Millisecond

// Watch begins to watch, and returns when it has seen all objects that exist. What
// happened before is not judged. The watch lasts until End, or until ctx is done.
func Watch(ctx context.Context, cfg Config) (*Checker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Checker{cfg: cfg, judge: newJudge(cfg)}
	typed := rest.CopyConfig(cfg.REST)
	typed.ContentType, typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	var err error
	if c.client, err = kubernetes.NewForConfig(typed); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg.REST); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	tail, err := newTail(cfg.Audit)
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	c.stop = stop
	c.done.Go(func() { c.readAudit(watching, tail) })
	if err := c.watchAll(watching); err != nil {
		c.close()
		return nil, err
	}
	c.done.Go(func() { c.advance(watching) })
	return c, nil
}

func (c *Checker) close() {
	c.stop()
	c.done.Wait()
}

// advance gives the rules the time at every tick.
func (c *Checker) advance(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			c.tell(func(j *judge) { j.advance(now) })
		}
	}
}

// tell calls a function with the rules, and logs the violations that it found.
func (c *Checker) tell(what func(*judge)) {
	c.mu.Lock()
	before := len(c.judge.violations)
	what(c.judge)
	found := c.judge.violations[before:]
	c.mu.Unlock()
	for _, v := range found {
		fmt.Fprintln(c.cfg.Log, v)
	}
}

// fail records why the checker cannot continue. End returns the error.
func (c *Checker) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(c.failed, err)
}

// Excuse begins an excuse, which lasts until the function it returns is called: a
// fault keeps Fluence from hearing or answering. Examples are an outage of the API
// server, and a process that is stopped or dead. Excused time counts towards no limit.
// Binds requested during an excuse, or up to a second after it, are not judged.
func (c *Checker) Excuse(what string) (end func()) {
	var id int
	c.tell(func(j *judge) { id = j.excuses.begin(what, time.Now()) })
	return sync.OnceFunc(func() { c.tell(func(j *judge) { j.excuses.finish(id, time.Now()) }) })
}

// ExcuseTime is an Excuse for a fault in which the scheduler either hears
// of the cluster all the while, or is dead. Examples are a process that was
// killed, and a sidecar that is stopped. Binds of that time are judged.
func (c *Checker) ExcuseTime(what string) (end func()) {
	var id int
	c.tell(func(j *judge) {
		id = j.excuses.begin(what, time.Now())
		j.excuses.heard(id)
	})
	return sync.OnceFunc(func() { c.tell(func(j *judge) { j.excuses.finish(id, time.Now()) }) })
}

// ControllerBegan records that the controller is a new process, which does not know since when
// groups lack members. A controller that holds a lease needs no call, because the lease shows it.
func (c *Checker) ControllerBegan() {
	c.tell(func(j *judge) { j.turned = time.Now() })
}

// Violations returns the violations found so far, each once.
func (c *Checker) Violations() []Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Violation(nil), c.judge.violations...)
}

// Stats returns the counts so far.
func (c *Checker) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.judge.stats
	now := time.Now()
	s.Excuses, s.Excused, s.Watched = c.judge.excuses.count, c.judge.excuses.total(now), now.Sub(c.judge.since)
	return s
}
