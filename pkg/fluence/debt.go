package fluence

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
)

const (
	// freePerAttempt is what an enquiry may take that nobody has to pay for.
	freePerAttempt = 20 * time.Millisecond
	// debtDivisor is the part of the time that passes by which a debt becomes less.
	debtDivisor = 10
	// maxDebt bounds a debt, so that it is paid within ten minutes.
	maxDebt = time.Minute
	// indebtedPause is the least time between two enquiries of a namespace in debt, and
	// yieldStep the time between two of its groups that yield to those of others.
	indebtedPause = time.Second
	yieldStep     = 10 * time.Millisecond
	// failedDivisor is the part of the time that a namespace's enquiries which find no nodes may take,
	// and failedBurst how much of it at once. Past that groups of others ask first, unless their
	// priority is lower.
	failedDivisor = 5
	failedBurst   = time.Second
	// latestYield is how long after its debt is paid a group is told to ask at the latest: of more
	// groups than yieldStep leaves times for some are told the same.
	latestYield = time.Minute
	// lookFactor is the part of the time that may be taken to look who else may ask.
	lookFactor = 20
	// sweepDebts is from how many debts on those that are paid are looked for.
	sweepDebts = 1 << 10
)

// debts are the time that enquiries took of each namespace, as far as it is not free and not paid
// for by the time that has passed. The zero value is ready for use.
type debts struct {
	mu          sync.Mutex
	byNamespace map[string]*debt
	// readyNamespaces are those who may ask, as they were at the last look, which counts until the next.
	readyNamespaces []gang.ReadyNamespace
	next            time.Time
}

// A debt is that of one namespace.
type debt struct {
	// owed is what its enquiries took beyond what is free for each, and vain what those took of
	// it that found no nodes. Both were so at the time since.
	owed, failed time.Duration
	since        time.Time
	// failedTotal is all that was taken in vain from the time began on, when nothing was owed of it.
	failedTotal time.Duration
	began       time.Time
	// next is when the namespace may ask while it is in debt, and told the latest time that
	// a group of it was told to ask at.
	next, lastRetry time.Time
}

// decay brings what is owed to a time.
func (d *debt) decay(now time.Time) {
	passed := now.Sub(d.since)
	d.owed, d.failed, d.since = max(0, d.owed-passed/debtDivisor), max(0, d.failed-passed/failedDivisor), now
	if d.failed == 0 {
		d.failedTotal = 0
	}
}

// get returns the debt of a namespace at a time, nil if there is none.
func (a *debts) get(namespace string, now time.Time) *debt {
	d := a.byNamespace[namespace]
	if d == nil {
		return nil
	}
	if d.decay(now); d.owed == 0 && d.failed == 0 {
		delete(a.byNamespace, namespace)
		return nil
	}
	return d
}

// charge adds what an enquiry for a group of a namespace took. In vain is that it found no nodes:
// then it returns how much of that others do not have to bear.
func (a *debts) charge(namespace string, took time.Duration, failed bool, now time.Time) (tooMuch time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.get(namespace, now)
	if took <= freePerAttempt && !failed {
		return 0
	}
	if d == nil {
		if a.byNamespace == nil {
			a.byNamespace = map[string]*debt{}
		}
		if len(a.byNamespace) >= sweepDebts {
			for namespace := range a.byNamespace {
				a.get(namespace, now)
			}
		}
		d = &debt{since: now}
		a.byNamespace[namespace] = d
	}
	d.owed = min(maxDebt, d.owed+max(0, took-freePerAttempt))
	if !failed {
		return 0
	}
	took = min(took, freePerAttempt)
	if d.failedTotal == 0 {
		d.began = now.Add(-took)
	}
	d.failedTotal += took
	d.failed = min(maxDebt, d.failed+took)
	return max(0, min(took, d.failed-failedBurst))
}

// hasDebt says whether anything is owed by a namespace.
func (a *debts) hasDebt(namespace string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.get(namespace, now) != nil
}

// forget forgets the debt of a namespace that is gone.
func (a *debts) forget(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byNamespace, namespace)
}

// hasNoOverrun says that of what is owed nothing is beyond what is free for each enquiry.
func (d *debt) hasNoOverrun() bool { return d == nil || d.owed == 0 }

// isUnthrottled says that nothing is owed that makes a namespace wait for others.
func (d *debt) isUnthrottled() bool { return d.hasNoOverrun() && (d == nil || d.failed <= failedBurst) }

// nextRetry returns what the next group is told: a time of its own, a step after the one before and not
// before the least, nor long after the debt is paid.
func (d *debt) nextRetry(least, paid time.Time, step time.Duration) time.Time {
	at := latest(least, d.lastRetry.Add(step))
	if at.After(paid) {
		at = latest(paid, d.lastRetry.Add(yieldStep))
	}
	if at.After(paid.Add(latestYield)) {
		at = paid
	}
	d.lastRetry = at
	return at
}

// A register reads who may ask. It looks at all groups.
type readyLister func() []gang.ReadyNamespace

// listReady returns who may ask. It looks no more often than it may: between two looks the answer may
// be that of the first.
func (a *debts) listReady(read readyLister, clock func() time.Time) []gang.ReadyNamespace {
	began := clock()
	if began.Before(a.next) {
		return a.readyNamespaces
	}
	a.readyNamespaces = read()
	now := clock()
	a.next = now.Add(lookFactor * now.Sub(began))
	return a.readyNamespaces
}

// A delay is that a group may not ask now.
type delay struct {
	// after is after which time it may ask again; 0 is that it may ask now.
	after time.Duration
	// owed is what its namespace owes. It is 0 where that only yields to others: then it has lost
	// so much of the last time.
	owed, failed, window time.Duration
}

// delayFor says whether a group may ask now, by its namespace and its own priority. Each group is told
// another time.
func (a *debts) delayFor(who gang.ReadyNamespace, read readyLister, clock func() time.Time) delay {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := clock()
	d := a.get(who.Namespace, now)
	// One that has to wait itself is nobody to wait for.
	others := func(least int32, mayAsk func(*debt) bool) bool {
		for _, o := range a.listReady(read, clock) {
			if o.Priority < least {
				break
			}
			if o.Namespace != who.Namespace && mayAsk(a.get(o.Namespace, now)) {
				return true
			}
		}
		return false
	}
	switch {
	case d.isUnthrottled():
		return delay{}
	case d.hasNoOverrun():
		if !others(who.Priority, (*debt).isUnthrottled) {
			return delay{}
		}
		soon := now.Add(indebtedPause)
		paid := now.Add(failedDivisor * (d.failed - failedBurst))
		at := d.nextRetry(soon, latest(soon, paid), yieldStep)
		return delay{after: at.Sub(now), failed: d.failedTotal, window: now.Sub(d.began)}
	}
	if !now.Before(d.next) && !others(math.MinInt32, (*debt).hasNoOverrun) {
		d.next = now.Add(indebtedPause)
		return delay{}
	}
	at := d.nextRetry(latest(now, d.next).Add(indebtedPause), now.Add(debtDivisor*d.owed), indebtedPause)
	return delay{after: at.Sub(now), owed: d.owed}
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// accounts keep what each namespace owes of the scheduler's time. They say who may ask.
type accounts struct {
	*base
	debts debts
}

// checkThrottle refuses a group whose namespace is in debt, if it may not ask now.
func (c *accounts) checkThrottle(plan gang.Plan, now time.Time) *gang.Refusal {
	if c.args.Unthrottled {
		return nil
	}
	namespace := plan.Key.Namespace
	who := gang.ReadyNamespace{Namespace: namespace, Priority: plan.Rank.Priority}
	d := c.debts.delayFor(who, func() []gang.ReadyNamespace { return c.groups.ReadyNamespaces(now) }, c.now)
	if d.after == 0 {
		return nil
	}
	return &gang.Refusal{
		Reason: reason.Throttled, RetryAfter: d.after, WaitsFor: gang.WaitsForAnswer,
		Message: fmt.Sprintf("groups of namespace %s took %s, and this one again in %s", namespace, d.why(), duration.HumanDuration(max(d.after, time.Second))),
	}
}

// why says what a namespace took, and who goes first. Times are in seconds: in other units one
// would be news.
func (d delay) why() string {
	if d.owed > 0 {
		return fmt.Sprintf("%s more of the scheduler's time than is free for each: those of others ask first", d.owed.Round(time.Millisecond))
	}
	return fmt.Sprintf("%.1fs of the scheduler's last %.1fs and found no nodes: those of others whose priority is not lower ask first", d.failed.Seconds(), d.window.Seconds())
}

// forgetNamespace drops what is kept of a namespace.
func (c *accounts) forgetNamespace(name string) {
	c.debts.forget(name)
	c.counters.forget(name)
}
