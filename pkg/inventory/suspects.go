package inventory

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// An unfixable difference came back although the graph was loaded again to repair it. It
// is not repaired as long as it stays the same.
type unfixable struct {
	sides
	// seen is true if it was seen in this round.
	seen bool
}

// updateSuspects updates the suspects from a comparison that was begun at start. It reports and
// repairs the suspects that have lasted. An error means that the graph must be loaded again.
func (a *audit) updateSuspects(ctx context.Context, v *comparison, start time.Time) error {
	// The time in which this process was stopped does not count:
	// calls and events that were under way then still are.
	passed := min(start.Sub(a.lastPage), a.inventory.cfg.AuditEvery)
	a.lastPage = time.Now()
	room := maxSuspects - len(a.suspects)
	still := make(map[subject]*suspect, len(a.suspects))
	var lasting []*suspect
	for _, d := range v.findings() {
		s := a.suspects[d.subject]
		switch {
		case s != nil && !v.coversAll(s.nodes):
			continue // carried over below
		case a.inventory.checkKnown(d):
			continue
		case s == nil && room == 0:
			continue
		case s == nil:
			room--
			s = &suspect{finding: d}
		case s.sides != d.sides:
			s.finding, s.lasted = d, 0
		default:
			s.finding = d // with the objects as they are now
			s.lasted += passed
		}
		still[d.subject] = s
		if s.lasted >= a.inventory.cfg.DriftAfter {
			lasting = append(lasting, s)
		}
	}
	for subject, s := range a.suspects {
		if !v.coversAll(s.nodes) {
			still[subject] = s
		}
	}
	a.suspects = still
	if v.last {
		a.inventory.endRound()
	}
	if len(lasting) == 0 {
		return nil
	}
	line := a.inventory.queuedSubjects()
	for _, s := range lasting {
		if line[s.subject] || s.wasReleasing || a.inventory.isReleasing(s) {
			continue
		}
		if err := a.confirm(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// confirm reports a difference that has lasted, and repairs it. It fails if earlier repairs have
// not helped.
func (a *audit) confirm(ctx context.Context, s *suspect) error {
	d := s.drift()
	klog.FromContext(ctx).Info("The engine differs from the cluster",
		"kind", d.Kind, "node", d.Node, "key", d.Key, "pod", klog.KRef(d.Pod.Namespace, d.Pod.Name), "cluster", d.Cluster, "engine", d.Engine)
	a.inventory.cfg.OnDrift(d)
	if s.repairs == maxRepairs {
		a.inventory.unfixable[s.subject] = &unfixable{sides: s.sides, seen: true}
		return fmt.Errorf("drift %s on node %s is back after %d repairs", d.Kind, d.Node, maxRepairs)
	}
	s.repairs++
	s.lasted = 0
	return a.repair(ctx, &s.finding)
}

// drift returns the finding as a Drift.
func (d *finding) drift() Drift {
	t := Drift{Kind: d.kind, Node: d.nodes[0], Cluster: d.cluster, Engine: d.engine}
	if d.slot != nil {
		t.Key = d.name
		if d.slot.pod != nil {
			t.Pod.Namespace, t.Pod.Name = d.slot.pod.Namespace, d.slot.pod.Name
		}
	}
	return t
}

// checkKnown reports whether a difference is known and cannot be repaired: either the engine
// rejected the value as invalid, or the difference was there again after the graph had been loaded
// again. It marks a difference of the second kind as seen.
func (i *Inventory) checkKnown(d finding) bool {
	if _, ok := i.invalid[d.subject]; ok {
		return true
	}
	h := i.unfixable[d.subject]
	if h == nil || h.sides != d.sides {
		return false
	}
	h.seen = true
	return true
}

// endRound forgets the unfixable differences that were not seen in this round.
func (i *Inventory) endRound() {
	for subject, h := range i.unfixable {
		if !h.seen {
			delete(i.unfixable, subject)
		}
		h.seen = false
	}
}
