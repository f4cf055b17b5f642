package fluence

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flux-k8s/fluence/pkg/group"
)

// reasonThrottled is that the groups of a namespace took more of the scheduler's time than
// others have to bear.
const reasonThrottled = "Throttled"

const (
	// freeAsk is what an enquiry may take that nobody has to pay for.
	freeAsk = 20 * time.Millisecond
	// repayPart is the part of the time that passes by which a debt becomes less.
	repayPart = 10
	// mostDebt bounds a debt, so that it is paid within ten minutes.
	mostDebt = time.Minute
	// indebtedPause is the least time between two enquiries of a namespace in debt, and
	// yieldStep the time between two of its groups that yield to those of others.
	indebtedPause = time.Second
	yieldStep     = 10 * time.Millisecond
	// vainPart is the part of the time that a namespace's enquiries which find no nodes may take,
	// and vainBurst how much of it at once. Past that groups of others ask first.
	vainPart  = 5
	vainBurst = time.Second
	// sweepDebts is from how many debts on those that are paid are looked for.
	sweepDebts = 1 << 10
)

// debts are the time that enquiries took of each namespace, as far as it is not free and not paid
// for by the time that has passed. The zero value is ready for use.
type debts struct {
	mu sync.Mutex
	of map[string]*debt
}

// A debt is that of one namespace.
type debt struct {
	// owed is what its enquiries took beyond what is free for each, and vain what those took of
	// it that found no nodes. Both were so at the time since.
	owed, vain time.Duration
	since      time.Time
	// next is when the namespace may ask while it is in debt, and told the latest time that
	// a group of it was told to ask at.
	next, told time.Time
}

// at brings what is owed to a time.
func (d *debt) at(now time.Time) {
	passed := now.Sub(d.since)
	d.owed, d.vain, d.since = max(0, d.owed-passed/repayPart), max(0, d.vain-passed/vainPart), now
}

// get returns the debt of a namespace at a time, nil if there is none.
func (a *debts) get(namespace string, now time.Time) *debt {
	d := a.of[namespace]
	if d == nil {
		return nil
	}
	if d.at(now); d.owed == 0 && d.vain == 0 {
		delete(a.of, namespace)
		return nil
	}
	return d
}

// charge adds what an enquiry for a group of a namespace took. In vain is that it found no nodes.
func (a *debts) charge(namespace string, took time.Duration, inVain bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.get(namespace, now)
	if took <= freeAsk && !inVain {
		return
	}
	if d == nil {
		if a.of == nil {
			a.of = map[string]*debt{}
		}
		if len(a.of) >= sweepDebts {
			for namespace := range a.of {
				a.get(namespace, now)
			}
		}
		d = &debt{since: now}
		a.of[namespace] = d
	}
	d.owed = min(mostDebt, d.owed+max(0, took-freeAsk))
	if inVain {
		d.vain = min(mostDebt, d.vain+min(took, freeAsk))
	}
}

// forget forgets the debt of a namespace that is gone.
func (a *debts) forget(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, namespace)
}

// ask says whether a group of a namespace may ask now. If not it returns what is owed, which is
// 0 where the namespace only yields to others, and after which time it may ask again. MayAsk says
// whether a group may ask in one of the namespaces that a function accepts. Each group is told
// another time.
func (a *debts) ask(namespace string, mayAsk func(counts func(namespace string) bool) bool, now time.Time) (owed, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.get(namespace, now)
	switch {
	case d == nil || d.owed == 0 && d.vain <= vainBurst:
		return 0, 0
	case d.owed == 0:
		others := func(of string) bool {
			d := a.get(of, now)
			return of != namespace && (d == nil || d.owed == 0 && d.vain <= vainBurst)
		}
		if !mayAsk(others) {
			return 0, 0
		}
		d.told = latest(now.Add(indebtedPause), d.told.Add(yieldStep))
		return 0, d.told.Sub(now)
	}
	// One in debt may not ask itself.
	others := func(of string) bool {
		d := a.get(of, now)
		return of != namespace && (d == nil || d.owed == 0)
	}
	if !now.Before(d.next) && !mayAsk(others) {
		d.next = now.Add(indebtedPause)
		return 0, 0
	}
	at := latest(now, d.next, d.told).Add(indebtedPause)
	if paid := now.Add(repayPart * d.owed); at.After(paid) {
		at = paid
	}
	d.told = at
	return d.owed, at.Sub(now)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// owes refuses a group whose namespace is in debt, if it may not ask now.
func (pl *Fluence) owes(plan group.Plan, now time.Time) *group.Refusal {
	if pl.args.Unthrottled {
		return nil
	}
	namespace := plan.Key.Namespace
	mayAsk := func(counts func(string) bool) bool { return pl.groups.MayAskIn(counts, now) }
	owed, after := pl.debts.ask(namespace, mayAsk, now)
	if after == 0 {
		return nil
	}
	why := fmt.Sprintf("groups of namespace %s took %s more of the scheduler's time than is free for each", namespace, owed.Round(time.Millisecond))
	if owed == 0 {
		why = fmt.Sprintf("groups of namespace %s took more than a fifth of the scheduler's time and found no nodes", namespace)
	}
	return &group.Refusal{
		Reason: reasonThrottled, After: after, Cure: group.CureAnswer,
		Message: fmt.Sprintf("%s: those of others ask first, and this one again in %s", why, duration.HumanDuration(max(after, time.Second))),
	}
}
