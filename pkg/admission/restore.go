package admission

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/queue"
)

// Why a promise has moved later, if no more is known.
const (
	whyLonger  = "what runs on its nodes ends later than it was to"
	whyUnknown = "its nodes, or what it asks for, have changed"
	// whyRestarted is the reason if the promise of an earlier process was at an earlier time.
	whyRestarted = "its nodes, what runs on them, or what it asks for changed while no scheduler led"
)

// maxOverdue is for how long a promise stands whose time has come, while what was to end by then has not.
const maxOverdue = time.Minute

// Restore implements queue.Matcher.
func (m *asker) Restore(of *queue.Job, promised queue.Promise) bool {
	old, ok := m.before[of.Key]
	if !ok {
		return false
	}
	r, ok := m.question(queue.Ask{Job: of})
	if !ok {
		return false
	}
	if why := m.lostNode(r, old.job.Slots); why != "" {
		m.later[of.Key] = why
		return false
	}
	always, limits := pinned(old.job.Slots)
	// Whoever room is left to for a moment has no end yet. If he takes it, the job asks again.
	r.Op, r.Terse, r.Ignore, r.Expected = match.WithoutAllocatingFuture, true, old.ignore, nil
	r.Jobspec = r.class.request(both(r.always, always), r.present)
	a := r.Jobspec.Attributes.System.Fluence[r.class.label]
	a.Limits = append(append([]jobspec.Limit(nil), a.Limits...), limits...)
	spec := *r.Jobspec
	r.class.setAttributes(&spec, a)
	r.Jobspec = &spec
	r.Keys = v1alpha1.SlotKeys(r.ID, int(r.class.pods))
	found, err := m.match(&r.Request)
	from := promised.From
	switch {
	case err != nil:
		m.later[of.Key] = whyLonger
		return false
	case !found.Reserved, !found.Start.After(from):
	case !from.After(m.now) && found.Start.Sub(m.now) <= maxOverdue:
		// What was to end has not. Nobody knows the new time, and the room is the job's.
	default:
		m.later[of.Key] = whyLonger
		return false
	}
	kept := *old.promise
	kept.job = lastingFrom(kept.job, m.now)
	job := kept.job
	err = m.call(func(ctx context.Context) error { return m.cfg.Engine.Update(ctx, m.epoch, job) })
	if err != nil {
		m.later[of.Key] = whyUnknown
		return false
	}
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	j := m.jobs.byKey[of.Key]
	if j == nil || j.room != nil {
		m.jobs.givenUp = append(m.jobs.givenUp, match.SlotRef{Job: job.ID})
		return false
	}
	m.jobs.setPromise(j, &kept)
	return true
}

// lastingFrom returns a reservation that ends no earlier than if its job started now: a matcher drops one that is over.
func lastingFrom(job match.Job, now time.Time) match.Job {
	if job.End.IsZero() || !job.Start.Before(now) {
		return job
	}
	job.End = now.Add(job.End.Sub(job.Start))
	slots := slices.Clone(job.Slots)
	for i := range slots {
		set := *slots[i].R
		set.Expiration = job.End
		slots[i].R = &set
	}
	job.Slots = slots
	return job
}

// lostNode says which node of some slots cannot be used any more, and why, in words fit for a user.
func (m *asker) lostNode(r *question, slots []match.Slot) string {
	for i := range slots {
		name := slots[i].Node
		node, err := m.fleet.nodes.Get(name)
		switch {
		case err != nil:
			return fmt.Sprintf("node %s is gone", name)
		case !isReady(node):
			return fmt.Sprintf("node %s is not ready", name)
		case node.Spec.Unschedulable && !r.set.allows(node):
			return fmt.Sprintf("node %s is cordoned", name)
		case !r.set.allows(node):
			return fmt.Sprintf("node %s may not be used any more: its labels or taints have changed", name)
		}
	}
	return ""
}

// pinned returns the constraints with which a request fits only on the nodes of some slots, with as many on each.
func pinned(slots []match.Slot) (*jobspec.Constraint, []jobspec.Limit) {
	each := map[string]int64{}
	for i := range slots {
		each[slots[i].Node]++
	}
	byNumber := map[int64][]string{}
	var nodes []string
	for node, n := range each {
		byNumber[n] = append(byNumber[n], node)
		nodes = append(nodes, node)
	}
	var limits []jobspec.Limit
	for n, hosts := range byNumber {
		limits = append(limits, jobspec.Limit{Name: "pinned-" + strconv.FormatInt(n, 10), Hosts: hosts, Most: n})
	}
	return only(nodes), limits
}

// isReady reports whether a node is ready.
func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
