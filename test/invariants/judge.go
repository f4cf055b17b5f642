package invariants

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// judgeAfter is how long after a change its consequences are judged. By then
	// the facts of the other watches and of the audit log have been delivered.
	judgeAfter = 3 * time.Second
	// grace is how late Fluence may hear of a change.
	grace = time.Second
	// remember is how long what is gone is remembered. It is much longer than judgeAfter.
	remember = 2 * time.Minute
	// rememberExcuses is how long excuses are remembered.
	// It is longer than any time limit of a group.
	rememberExcuses = time.Hour
)

// A judge is the rules. It is given what was seen, for each kind in the
// order of delivery, and the time. It does no I/O and reads no clock.
type judge struct {
	cfg        Config
	stats      Stats
	violations []Violation
	excuses    excuses
	cleaned    time.Time

	pods     map[types.UID]*pod
	latest   map[types.NamespacedName]*pod
	owners   map[types.UID]*ownerFact
	departed map[types.UID]time.Time            // the owners that are gone, and since when
	made     map[types.UID]types.NamespacedName // the PodGroup that refers to an owner, by the owner
	groups   map[types.NamespacedName]*groupFact
	families map[types.NamespacedName]*family
	// holder is the controller process that holds the lease.
	holder string
	// turned is the last time when a new controller process began.
	turned time.Time
	// begun reports whether all objects that existed at the beginning have been seen.
	begun bool
	// since is the time when they had been seen.
	since time.Time

	ledger
	removals []auditFact
	evictions
	suspensions
	tellings
	promises
	queues
}

// A pod is a pod. It is remembered for a while after it is gone.
type pod struct {
	podFact
	family *family
	// gone is the time of its deletion, zero while it exists.
	gone time.Time
	// evicted reports whether Fluence has at least tried to evict or delete it.
	evicted bool
	// bound is when it was first seen to have a node. It is zero if that was at the beginning, or never.
	bound time.Time
	// preempted reports whether it was lost because it was evicted for another group.
	preempted bool
	// deleted is when the scheduler last deleted it with success. It is zero if it did not.
	deleted time.Time
	// orphan reports whether its controlling object is gone, so that the pod will go too.
	orphan bool
	// texts are the last messages of its condition, without digits.
	texts []text
	// shortest is the shortest duration that it has had while it was on its node. It is 0 if it had none.
	shortest time.Duration
}

func newJudge(cfg Config) *judge {
	cfg.setDefaults()
	return &judge{
		cfg:      cfg,
		pods:     map[types.UID]*pod{},
		latest:   map[types.NamespacedName]*pod{},
		owners:   map[types.UID]*ownerFact{},
		departed: map[types.UID]time.Time{},
		made:     map[types.UID]types.NamespacedName{},
		groups:   map[types.NamespacedName]*groupFact{},
		families: map[types.NamespacedName]*family{},
		ledger:   newLedger(),
		tellings: newTellings(),

		suspensions: suspensions{since: map[types.UID]time.Time{}},
		queues:      newQueues(),
	}
}

// report records a violation.
func (j *judge) report(rule string, object fmt.Stringer, at time.Time, format string, args ...any) {
	j.violations = append(j.violations, Violation{Rule: rule, Object: object.String(), At: at, Message: fmt.Sprintf(format, args...)})
}

// seePod records a pod, or its end.
func (j *judge) seePod(f podFact, s seen) {
	j.stats.Facts++
	p := j.pods[f.uid]
	if p == nil {
		j.stats.Pods++
		p = &pod{podFact: f}
		p.hear(s.at)
		j.pods[f.uid] = p
		if p.created.IsZero() {
			p.created = s.at
		}
		j.latest[f.key] = p
		j.holds(p, s, false, f.node != "")
	} else {
		before := p.podFact
		if f.node != before.node && before.node != "" {
			j.report(RulePodMoved, f.key, s.at, "its node must never change: it was %s and is %q", before.node, f.node)
		}
		p.podFact = f
		p.hear(s.at)
		j.holds(p, s, before.node != "", false)
		if before.node == "" && f.node != "" {
			p.bound = s.at
		}
		if before.serving() && p.gone.IsZero() && (s.gone || !f.serving()) {
			j.seeLoss(p, s.at)
		}
	}
	if s.gone && p.gone.IsZero() {
		p.gone = s.at
	}
	_, p.orphan = j.departed[p.controller]
	if f.scheduler != j.cfg.Scheduler {
		return
	}
	if p.family == nil && p.gone.IsZero() {
		j.enrol(p, s.at)
	}
	if fam := p.family; fam != nil {
		if s.gone {
			delete(fam.pods, p.uid)
		}
		j.weigh(fam, s.at)
	}
}

// lostPod records the end of a pod that is missing from a new list.
func (j *judge) lostPod(uid types.UID, s seen) {
	if p := j.pods[uid]; p != nil {
		s.gone = true
		j.seePod(p.podFact, s)
	}
}

// seeOwner records an object that controls others, or its end.
func (j *judge) seeOwner(f ownerFact, s seen) {
	j.stats.Facts++
	if s.gone {
		delete(j.owners, f.uid)
		delete(j.suspensions.since, f.uid)
		j.departed[f.uid] = s.at
		for _, p := range j.pods {
			if p.controller == f.uid {
				p.orphan = true
			}
		}
		return
	}
	f.noteStop(j.owners[f.uid], s)
	j.seeRelease(j.owners[f.uid], &f, s)
	j.owners[f.uid] = &f
}

// seeGroup records a PodGroup, or its end.
func (j *judge) seeGroup(f groupFact, s seen) {
	j.stats.Facts++
	before := j.groups[f.key]
	if before != nil && s.gone && before.uid != f.uid {
		return // of its predecessor
	}
	if before == nil || before.uid != f.uid {
		j.stats.Groups++
	}
	if before != nil {
		for _, uid := range before.owners {
			delete(j.made, uid)
		}
	}
	fam := j.family(f.key)
	if s.gone {
		delete(j.groups, f.key)
		fam.group = nil
	} else {
		j.groups[f.key] = &f
		fam.group = &f
		for _, uid := range f.owners {
			j.made[uid] = f.key
		}
	}
	fam.regrouped(before, s.at)
	j.weigh(fam, s.at)
}

// seeLease records which process leads as the controller. A new
// process does not know since when a group has been incomplete.
func (j *judge) seeLease(holder string, s seen) {
	if holder != j.holder {
		j.holder, j.turned = holder, s.at
	}
}

// seeAudit records a request.
func (j *judge) seeAudit(a auditFact) {
	if a.subresource == "binding" {
		if a.done() || a.perhaps() {
			j.asked[a.pod] = append(j.asked[a.pod], a)
		}
		return
	}
	if !slices.Contains(j.cfg.Accounts, a.user) {
		return
	}
	if p := j.latest[a.pod]; p != nil {
		p.evicted = true
	}
	if a.done() {
		j.removals = append(j.removals, a)
	}
}

// begin records that all objects that exist at the beginning have been seen. A group
// with some pods on nodes may have been complete before, so it counts as complete.
func (j *judge) begin(now time.Time) {
	j.begun, j.since = true, now
	for _, fam := range j.families {
		if fam.group != nil && fam.count().serving > 0 {
			fam.started, fam.size, fam.ever, fam.whole = now, fam.group.minMember, map[types.UID]bool{}, true
		}
		j.weigh(fam, now)
	}
}

// advance judges what is due.
func (j *judge) advance(now time.Time) {
	for _, p := range j.strays() {
		j.enrol(p, now)
	}
	for _, fam := range j.families {
		if fam.open {
			j.weigh(fam, now)
		}
	}
	j.judgeBinds(now)
	j.judgeStandings(now)
	j.judgeRemovals(now)
	j.judgeEvictions(now)
	j.judgeSuspended(now)
	j.judgeTellings(now)
	j.judgeMoves(now)
	j.judgeGrants(now)
	j.judgeReleases(now)
	j.judgeDeadlines(now)
	if now.Sub(j.cleaned) > remember/4 {
		j.cleaned = now
		j.clean(now)
	}
}

// clean forgets what has been gone for longer than remember.
func (j *judge) clean(now time.Time) {
	old := now.Add(-remember)
	for uid, p := range j.pods {
		if !p.gone.IsZero() && p.gone.Before(old) {
			delete(j.pods, uid)
			if j.latest[p.key] == p {
				delete(j.latest, p.key)
			}
		}
	}
	for key, fam := range j.families {
		if fam.group == nil && len(fam.pods) == 0 {
			delete(j.families, key)
		}
	}
	for uid, at := range j.departed {
		if at.Before(old) && !j.controls(uid) {
			delete(j.departed, uid)
		}
	}
	j.ledger.clean(old)
	j.tellings.clean(old)
	j.queues.clean(old)
	j.excuses.forget(now.Add(-rememberExcuses))
}

// controls reports whether an object controls a pod.
func (j *judge) controls(uid types.UID) bool {
	for _, p := range j.pods {
		if p.controller == uid {
			return true
		}
	}
	return false
}
