package admission

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// wantedEnd returns when the room of a job that has some is to be free again by its time limit. It reports whether that is another time
// than it is. The caller holds the lock of the jobs.
func (l *loop) wantedEnd(j *job) (end time.Time, changes bool) {
	q := l.asker.queues[j.queue]
	if !j.isAdmitted() || j.duration == "" || q == nil {
		return end, false
	}
	duration, err := durationOf(j, q)
	if err != nil {
		return end, false // the condition Valid says so
	}
	end = endAfter(j.room.at, duration, q.grace)
	longer := !j.room.end.IsZero() && (end.IsZero() || end.After(j.room.end))
	if longer && q.maxDuration > 0 && (duration == 0 || duration > q.maxDuration) {
		return end, false // the condition Valid says so
	}
	return end, !end.Equal(j.room.end)
}

// changeEnds sets when the room of jobs is free again whose time limits were edited. An earlier end counts at once. A later one
// counts if nobody is promised their nodes before it.
func (l *loop) changeEnds() {
	for _, key := range l.edited {
		first, wanted := l.promisedBefore(key)
		text := ""
		if first != nil {
			text = l.whyNotLonger(key, first, wanted)
		}
		l.jobs.mu.Lock()
		j := l.jobs.byKey[key]
		var end time.Time
		changes := false
		if j != nil {
			end, changes = l.wantedEnd(j)
			j.sayDelay = ""
		}
		switch {
		case !changes || !end.Equal(wanted):
		case text != "":
			j.sayDelay = text
		default:
			j.room.setEnd(end)
			j.room.unsure = true // the matcher has another end
			l.jobs.unsettle(key)
		}
		l.jobs.mu.Unlock()
		if changes && text == "" {
			l.cfg.Groups.EndChanged(key)
			l.core.Open(queue.Room)
		}
		l.teller.look(key)
	}
	l.edited = nil
}

// promisedBefore returns the first promise on the nodes of a job that begins before its wanted end, if that is later than the one it has.
func (l *loop) promisedBefore(key types.NamespacedName) (first *match.Promised, wanted time.Time) {
	l.jobs.mu.Lock()
	j := l.jobs.byKey[key]
	if j == nil {
		l.jobs.mu.Unlock()
		return nil, wanted
	}
	wanted, changes := l.wantedEnd(j)
	if !changes || j.room.end.IsZero() || !wanted.IsZero() && wanted.Before(j.room.end) {
		l.jobs.mu.Unlock()
		return nil, wanted
	}
	nodes := map[string]struct{}{}
	for _, s := range j.room.slots {
		nodes[s.Node] = struct{}{}
	}
	for holder := range l.jobs.holders {
		p := l.jobs.byKey[holder].promise
		if first != nil && !p.job.Start.Before(first.From) {
			continue
		}
		for node := range p.nodes {
			if _, is := nodes[node]; is {
				first = &match.Promised{Job: p.job.ID, From: p.job.Start}
				break
			}
		}
	}
	l.jobs.mu.Unlock()
	if id, from := l.cfg.Groups.FirstPromise(nodes); id != 0 && (first == nil || from.Before(first.From)) {
		first = &match.Promised{Job: id, From: from}
	}
	if first != nil && !wanted.IsZero() && !first.From.Before(wanted) {
		first = nil
	}
	return first, wanted
}

// whyNotLonger says why a longer time limit of a job does not count, in words fit for a user.
func (l *loop) whyNotLonger(key types.NamespacedName, first *match.Promised, wanted time.Time) string {
	_, to := l.cfg.Groups.Names(match.Reason{Promised: first}, key)
	if to == "" {
		to = "another job"
	}
	by := "for ever"
	if !wanted.IsZero() {
		by = "by " + wanted.Sub(first.From).Round(time.Second).String()
	}
	return translate.Shorten(fmt.Sprintf("a longer spec.duration would delay %s, to whom its nodes are promised, %s", to, by))
}
