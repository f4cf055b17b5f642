// Package invariants checks what must hold of a cluster that Fluence schedules,
// whatever happens to it. It reads the Kubernetes API and the API server's audit
// log, and nothing of Fluence itself.
//
// The rules are a core without I/O and clock (judge), which is fed with what was
// seen and when; watches, the audit log and the last probe are its edges. Where
// what was seen does not suffice to tell, nothing is alleged, and Stats counts it.
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

// Config says what to watch.
type Config struct {
	// REST has every right, and no client-side rate limit.
	REST *rest.Config
	// Audit is the path of the API server's audit log: JSON, one event a line. It
	// may still be written to.
	Audit string
	// Levels are the label keys of the levels that the scheduler was told of, the
	// outermost first.
	Levels []string
	// Scheduler is the schedulerName of Fluence's pods. Defaults to fluence.
	Scheduler string
	// Accounts are the users whose binds, deletes and evictions of pods are
	// Fluence's. Defaults to the service accounts of scheduler and controller.
	Accounts []string
	// IncompleteTimeout is the controller's default. Defaults to 5m.
	IncompleteTimeout time.Duration
	// Slack is how late a reason, a condition or a policy may be. Defaults to 15s.
	Slack time.Duration
	// StartWithin is how long a group may take from its first bind until it is whole, if
	// nothing explains that it takes longer. Defaults to 10s.
	StartWithin time.Duration
	// Linger is how long after the last of its pods the PodGroup of bare pods may
	// stay. Defaults to 60s.
	Linger time.Duration
	// Log receives each violation when it is found. Defaults to nowhere.
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

// A Violation is something that must not have happened.
type Violation struct {
	// Rule is one of the Rule constants.
	Rule string
	// Object is namespace/name of the group, the pod or the event's subject.
	Object string
	// At is when it was noticed, or for a bind when that was asked for.
	At time.Time
	// Message says what was expected and what was seen, with numbers.
	Message string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s %s: %s", v.At.UTC().Format("15:04:05.000"), v.Rule, v.Object, v.Message)
}

// Stats is what was looked at, so that "no violation" means something.
type Stats struct {
	// Facts is how many changes of objects were seen, Pods, Groups and Nodes of
	// how many objects, Relists how often a watch had to begin anew.
	Facts, Pods, Groups, Nodes, Relists int
	// Binds is how many of Fluence's binds were judged by FullNode and NodeClosed,
	// BindsExcused how many were not because of an excuse or a relist, BindsForeign
	// how many pods got their node from others, BindsUnknown how many of Fluence's
	// pods got it from nobody that the audit log names.
	Binds, BindsExcused, BindsForeign, BindsUnknown int
	// Stands is how many binds were judged by where they stand to other pods, Spreads
	// how many by a spread constraint.
	Stands, Spreads int
	// Started is how many groups became whole, Together how many of several pods did
	// with nothing to explain it if they had not, Partial how often one with pods on
	// nodes had too few, LongestPartial the longest of these times, excuses included.
	Started, Together, Partial int
	LongestPartial             time.Duration
	// LongestStart is the longest time from the first bind of a group until it was whole,
	// without what was excused of it.
	LongestStart time.Duration
	// Removals is how many deletes and evictions by Fluence were judged.
	Removals int
	// Waited is how often a group or a lone pod waited, Told how often it was
	// told why.
	Waited, Told int
	// Events is how many of Fluence's events were compared.
	Events int
	// Excuses is how many there were, Excused how long they lasted together, of the
	// time Watched.
	Excuses          int
	Excused, Watched time.Duration
	// Probed is how many pods the last probe had.
	Probed int
}

func (s Stats) String() string {
	return fmt.Sprintf("facts %d (pods %d, groups %d, nodes %d, relists %d); binds judged %d, excused %d, others' %d, unknown %d, beside others %d, spread %d; "+
		"groups started %d, %d of several pods undisturbed, longest start %.1fs, partial %d, longest %.1fs; removals %d; waited %d, told %d; events %d; excuses %d, %.1fs of %.1fs; probed %d",
		s.Facts, s.Pods, s.Groups, s.Nodes, s.Relists, s.Binds, s.BindsExcused, s.BindsForeign, s.BindsUnknown, s.Stands, s.Spreads,
		s.Started, s.Together, s.LongestStart.Seconds(), s.Partial, s.LongestPartial.Seconds(), s.Removals, s.Waited, s.Told, s.Events, s.Excuses, s.Excused.Seconds(), s.Watched.Seconds(), s.Probed)
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

// tick is how often the rules look at the clock.
const tick = 250 * time.Millisecond

// Watch begins to watch and returns when all that exists has been seen. What
// happens before is not judged. It watches until End, or until ctx is done.
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

// advance lets the rules see the time pass.
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

// tell gives the rules something, and prints what they find.
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

// fail remembers why the checker cannot go on; End returns it.
func (c *Checker) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(c.failed, err)
}

// Excuse says that from now on, until the function it returns is called, faults
// keep Fluence from hearing or answering: an outage of the API server, a process
// that is stopped or dead. Time that passes in it counts towards no limit, and
// binds asked for in it, or up to a second later, are not judged.
func (c *Checker) Excuse(what string) (end func()) {
	var id int
	c.tell(func(j *judge) { id = j.excuses.begin(what, time.Now()) })
	return sync.OnceFunc(func() { c.tell(func(j *judge) { j.excuses.finish(id, time.Now()) }) })
}

// ExcuseTime is Excuse for a fault in which the scheduler hears of the cluster all
// the while, or is dead: a process that was killed, or a sidecar that is stopped.
// Its binds are judged.
func (c *Checker) ExcuseTime(what string) (end func()) {
	var id int
	c.tell(func(j *judge) {
		id = j.excuses.begin(what, time.Now())
		j.excuses.heard(id)
	})
	return sync.OnceFunc(func() { c.tell(func(j *judge) { j.excuses.finish(id, time.Now()) }) })
}

// ControllerBegan says that the controller is another process than before, and has
// forgotten since when groups lack members. One that holds a lease need not be told
// of.
func (c *Checker) ControllerBegan() {
	c.tell(func(j *judge) { j.turned = time.Now() })
}

// Violations returns those found so far, each fact once.
func (c *Checker) Violations() []Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Violation(nil), c.judge.violations...)
}

// Stats says what was looked at so far.
func (c *Checker) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.judge.stats
	now := time.Now()
	s.Excuses, s.Excused, s.Watched = c.judge.excuses.count, c.judge.excuses.total(now), now.Sub(c.judge.since)
	return s
}
