package admission

import (
	"maps"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// Unasked reports whether a job that was refused or promised room is before a group of this rank. If so, it returns the nodes where
// room has become free and for which the jobs have not asked since: the group should leave it. Groups.Asked is called when they have
// asked.
func (d *Driver) Unasked(rank gang.Rank) (nodes map[string]struct{}, before bool) {
	first := d.state.first.Load()
	if first == nil || !first.Less(rank) {
		return nil, false
	}
	return d.happened.unasked(), true
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
	some := len(h.asking) > 0
	clear(h.asking)
	return some
}

// letOthersAsk tells groups in no queue that the jobs have asked for what has become free, if all that may have done so.
func (l *loop) letOthersAsk() {
	l.noteFirst()
	if l.mayPass() && l.core.Pending() {
		return
	}
	if l.happened.asked() {
		l.cfg.Groups.Asked()
	}
}

// noteFirst notes the first job that waits for room. While some have yet to ask, it may be one that was first before.
func (l *loop) noteFirst() {
	var first *gang.Rank
	l.jobs.mu.Lock()
	for name := range l.asker.queues {
		key, _ := l.core.First(name)
		if j := l.jobs.byKey[key]; j != nil {
			if rank := j.rank(); first == nil || rank.Less(*first) {
				first = &rank
			}
		}
	}
	l.jobs.mu.Unlock()
	if old := l.first.Load(); old != nil && l.mayPass() && l.core.Pending() && (first == nil || old.Less(*first)) {
		return
	}
	l.first.Store(first)
}
