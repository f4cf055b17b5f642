package admission

import (
	"maps"
	"sync/atomic"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// Unasked returns the nodes where room has become free by the ends of pods, and for which the jobs that wait have not asked since. A
// group in no queue should leave the room there if its rank is after that of a job that waits for room. Unasked returns nil for a group
// that no such job precedes, and only for such a group. Groups.Asked is called when the jobs have asked.
func (d *Driver) Unasked(rank gang.Rank) map[string]struct{} {
	first := d.state.first.Load()
	if first == nil || !first.Less(rank) {
		return nil
	}
	return d.happened.unasked()
}

// unasked returns the nodes where room has become free since all jobs that may have asked.
func (h *happened) unasked() map[string]struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := maps.Clone(h.asking)
	maps.Copy(all, h.freed)
	return all
}

// asked forgets the nodes that take has returned. It reports whether there were any.
func (h *happened) asked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	any := len(h.asking) > 0
	clear(h.asking)
	return any
}

// firstRank is the rank of the first job that waits for room. It is nil if there is none.
type firstRank struct{ atomic.Pointer[gang.Rank] }

// letOthersAsk tells groups in no queue that the jobs have asked for what has become free, if all that may have done so.
func (l *loop) letOthersAsk() {
	if l.mayPass() && l.core.Pending() {
		return
	}
	if l.happened.asked() {
		l.cfg.Groups.Asked()
	}
}

// noteFirst notes the first job that waits for room.
func (l *loop) noteFirst() {
	var first *gang.Rank
	for name := range l.asker.queues {
		s, _ := l.core.Summary(name)
		l.jobs.mu.Lock()
		if j := l.jobs.byKey[s.First]; j != nil {
			if rank := j.rank(); first == nil || rank.Less(*first) {
				first = &rank
			}
		}
		l.jobs.mu.Unlock()
	}
	l.first.Store(first)
}
