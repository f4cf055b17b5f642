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
	// freePerAttempt is the time of each attempt that is not charged.
	freePerAttempt = 20 * time.Millisecond
	// debtDivisor: a debt shrinks by 1/debtDivisor of the time that passes.
	debtDivisor = 10
	// overrunBurst is how much a namespace may owe without being throttled. An attempt may take long only
	// because the machine is busy with something else. One such attempt should delay nobody.
	overrunBurst = 200 * time.Millisecond
	// maxDebt limits a debt, so that it is paid within ten minutes.
	maxDebt = time.Minute
	// indebtedPause is the minimum time between two attempts of a namespace in debt.
	indebtedPause = time.Second
	// deferralStep is the time between the retries of two groups of one namespace. It is for retries
	// after the debt is paid, and for namespaces that wait only because of failed attempts.
	deferralStep = 10 * time.Millisecond
	// failedDivisor bounds the failed attempts of a namespace: they may take 1/failedDivisor of the
	// time. Beyond that, groups of other namespaces with at least the same priority are placed first.
	failedDivisor = 5
	// failedBurst is how much time failed attempts may take at once beyond that share.
	failedBurst = time.Second
	// maxDeferral is the maximum time from the moment a namespace's
	// debt is paid to the retry of one of its groups. If there are
	// more groups than steps in that time, several get the same time.
	maxDeferral = time.Minute
	// listReadyFactor: at most about 1/listReadyFactor of the time is spent
	// on listing the namespaces with groups that may be placed.
	listReadyFactor = 20
	// sweepAtEntries is the number of entries from which paid
	// debts are removed before another entry is added.
	sweepAtEntries = 1 << 10
)

// debts has, for each namespace, the time of attempts that is not paid yet. It is a leaky
// bucket: attempts fill it, and the time that passes drains it. The zero value is ready for use.
type debts struct {
	mu sync.Mutex
	// byNamespace has no entry for a namespace that owes nothing.
	byNamespace map[string]*debt
	// readyNamespaces is the last list of the namespaces with
	// groups that may be placed. It is not read again before relistAfter.
	readyNamespaces []gang.ReadyNamespace
	relistAfter     time.Time
}

// debt is the account of one namespace.
type debt struct {
	// owed is the overrun: the time of attempts beyond freePerAttempt each. failedTime is the time of
	// the attempts that found no nodes, at most freePerAttempt each. Both shrink with time, and are
	// as of since.
	owed, failedTime time.Duration
	since            time.Time
	// failedTotal counts like failedTime, but does not shrink. It counts from
	// began, when failedTime was last zero. Both are for the message only.
	failedTotal time.Duration
	began       time.Time
	// nextAttempt is the earliest time of the next attempt while the namespace is in
	// debt. lastRetry is the latest retry time that one of its groups was given.
	nextAttempt, lastRetry time.Time
}

// decay lowers what is owed by what has been paid until now.
func (d *debt) decay(now time.Time) {
	passed := now.Sub(d.since)
	d.owed, d.failedTime, d.since = max(0, d.owed-passed/debtDivisor), max(0, d.failedTime-passed/failedDivisor), now
	if d.failedTime == 0 {
		d.failedTotal = 0
	}
}

// get returns the debt of a namespace as of now. It returns nil if there is none.
func (a *debts) get(namespace string, now time.Time) *debt {
	d := a.byNamespace[namespace]
	if d == nil {
		return nil
	}
	if d.decay(now); d.owed == 0 && d.failedTime == 0 {
		delete(a.byNamespace, namespace)
		return nil
	}
	return d
}

// charge adds the time of one attempt of a namespace. failed means that the attempt found no nodes.
// Then up to freePerAttempt of its time counts as failedTime. tooMuch is the part of that time by
// which failedTime is above failedBurst.
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
		if len(a.byNamespace) >= sweepAtEntries {
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
	d.failedTime = min(maxDebt, d.failedTime+took)
	return max(0, min(took, d.failedTime-failedBurst))
}

// owes reports whether a namespace owes anything.
func (a *debts) owes(namespace string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.get(namespace, now) != nil
}

// forget drops the debt of a namespace that is gone.
func (a *debts) forget(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byNamespace, namespace)
}

// isWithinBurst reports whether the namespace owes no more than
// overrunBurst. The time of its failed attempts does not count.
func (d *debt) isWithinBurst() bool { return d == nil || d.owed <= overrunBurst }

// isUnthrottled reports whether the namespace owes no more than overrunBurst,
// and its failed attempts took no more time than they may.
func (d *debt) isUnthrottled() bool {
	return d.isWithinBurst() && (d == nil || d.failedTime <= failedBurst)
}

// nextRetry returns the retry time of the namespace's next group:
//
//   - It is not before the argument least.
//   - It is the argument step after the last retry time.
//   - After the argument paid, the time when the debt is paid, the step is deferralStep.
//   - If it would be later than maxDeferral after paid, it is paid.
func (d *debt) nextRetry(least, paid time.Time, step time.Duration) time.Time {
	at := latest(least, d.lastRetry.Add(step))
	if at.After(paid) {
		at = latest(paid, d.lastRetry.Add(deferralStep))
	}
	if at.After(paid.Add(maxDeferral)) {
		at = paid
	}
	d.lastRetry = at
	return at
}

// readyLister lists the namespaces with groups that may be placed. It looks at all groups.
type readyLister func() []gang.ReadyNamespace

// listReady returns the namespaces with groups that may be placed. Between two calls of read
// the list may be out of date, because each call of read looks at all groups: see listReadyFactor.
func (a *debts) listReady(read readyLister, clock func() time.Time) []gang.ReadyNamespace {
	began := clock()
	if began.Before(a.relistAfter) {
		return a.readyNamespaces
	}
	a.readyNamespaces = read()
	now := clock()
	a.relistAfter = now.Add(listReadyFactor * now.Sub(began))
	return a.readyNamespaces
}

// delay is the time that a group has to wait, and why.
type delay struct {
	// after is the time until the group's retry. Zero means that the group may be placed now.
	after time.Duration
	// excess is what the namespace owes beyond overrunBurst. If it is zero, the namespace waits
	// because of failed attempts. Then failed is the time that they took out of the last window.
	excess, failed, window time.Duration
}

// delayFor returns how long a group of this namespace and priority has to
// wait before it may be placed. The groups of a namespace get different
// retry times, except if there are more groups than such times.
func (a *debts) delayFor(who gang.ReadyNamespace, read readyLister, clock func() time.Time) delay {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := clock()
	d := a.get(who.Namespace, now)
	// A namespace that has to wait itself does not make others wait.
	others := func(least int32, mayPlace func(*debt) bool) bool {
		for _, o := range a.listReady(read, clock) {
			if o.Priority < least {
				break
			}
			if o.Namespace != who.Namespace && mayPlace(a.get(o.Namespace, now)) {
				return true
			}
		}
		return false
	}
	switch {
	case d.isUnthrottled():
		return delay{}
	case d.isWithinBurst():
		if !others(who.Priority, (*debt).isUnthrottled) {
			return delay{}
		}
		soon := now.Add(indebtedPause)
		paid := now.Add(failedDivisor * (d.failedTime - failedBurst))
		at := d.nextRetry(soon, latest(soon, paid), deferralStep)
		return delay{after: at.Sub(now), failed: d.failedTotal, window: now.Sub(d.began)}
	}
	if !now.Before(d.nextAttempt) && !others(math.MinInt32, (*debt).isWithinBurst) {
		d.nextAttempt = now.Add(indebtedPause)
		return delay{}
	}
	excess := d.owed - overrunBurst
	at := d.nextRetry(latest(now, d.nextAttempt).Add(indebtedPause), now.Add(debtDivisor*excess), indebtedPause)
	return delay{after: at.Sub(now), excess: excess}
}

// latest returns the latest of some times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// throttler charges namespaces for the time that their groups
// take in the scheduling loop, and throttles those in debt.
type throttler struct {
	*base
	debts debts
}

// checkThrottle returns the refusal of a group whose namespace
// is throttled. It returns nil if the group may be placed now.
func (c *throttler) checkThrottle(plan gang.Plan, now time.Time) *gang.Refusal {
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
		Reason: reason.Throttled, RetryAfter: d.after, WaitsFor: gang.WaitsForThrottle,
		Message: fmt.Sprintf("groups of namespace %s took %s, and this group is retried in %s", namespace, d.why(), duration.HumanDuration(max(d.after, time.Second))),
	}
}

// why returns what a namespace took, and which groups go first. Times are always in seconds:
// report.StableText leaves out the digits but not the units, so another unit would be a new message.
func (d delay) why() string {
	if d.excess > 0 {
		return fmt.Sprintf("%.2fs more of the scheduler's time than they may: groups of other namespaces are placed first", d.excess.Seconds())
	}
	return fmt.Sprintf("%.1fs of the scheduler's last %.1fs and found no nodes: groups of other namespaces with the same or a higher priority are placed first", d.failed.Seconds(), d.window.Seconds())
}

// forgetNamespace drops the debt and the metrics of a namespace.
func (c *throttler) forgetNamespace(name string) {
	c.debts.forget(name)
	c.counters.forget(name)
}
