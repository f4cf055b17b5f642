package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/queue"
)

// A Pool is a number of equal nodes. Each pod takes one.
type Pool struct {
	Size, Down int64
	// Excluded is the number of nodes that are up, and that classes with an x are kept from.
	Excluded int64
}

// A Cluster is a matcher over pools of nodes. Its answers depend on nothing but its state and Now. A job of the class NAME/N, or
// NAME/N/x, asks for N nodes of the pool with that name.
type Cluster struct {
	Now   time.Time
	Pools map[string]*Pool
	// Away is set while the cluster does not answer. Short is set while it looks for no later time.
	Away, Short bool
	// Held are the jobs that have nodes, and Promised are those that will have.
	Held, Promised map[types.NamespacedName]Span
	// replaced is what a job was promised before it asked last.
	replaced map[types.NamespacedName]Span
}

// A Span is a number of nodes of a pool over time.
type Span struct {
	Pool string
	N    int64
	// From is when it begins. End is zero if it does not end by itself.
	From, End time.Time
}

// NewCluster returns a cluster of some pools without jobs.
func NewCluster(now time.Time, pools map[string]*Pool) *Cluster {
	return &Cluster{
		Now: now, Pools: pools, Held: map[types.NamespacedName]Span{}, Promised: map[types.NamespacedName]Span{},
		replaced: map[types.NamespacedName]Span{},
	}
}

// Class returns the class of jobs of n pods in a pool.
func Class(pool string, n int64, excluded bool) string {
	if excluded {
		return fmt.Sprintf("%s/%d/x", pool, n)
	}
	return fmt.Sprintf("%s/%d", pool, n)
}

// SpanOf returns what a job takes if it starts at a time.
func SpanOf(j *queue.Job, from time.Time) Span {
	parts := strings.Split(j.Class, "/")
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		panic(err)
	}
	s := Span{Pool: parts[0], N: n, From: from}
	if j.Duration > 0 {
		s.End = from.Add(j.Duration)
	}
	return s
}

// Allocate implements queue.Matcher.
func (c *Cluster) Allocate(a queue.Ask) queue.Answer {
	got, s := c.look(a, false)
	if got.Verdict == queue.Granted {
		c.Held[a.Job.Key] = s
		delete(c.Promised, a.Job.Key)
	}
	return got
}

// Promise implements queue.Matcher.
func (c *Cluster) Promise(a queue.Ask) queue.Answer {
	key := a.Job.Key
	got, s := c.look(a, true)
	if got.Verdict == queue.Unanswered {
		return got
	}
	delete(c.replaced, key)
	if was, had := c.Promised[key]; had {
		c.replaced[key] = was
		delete(c.Promised, key)
	}
	switch got.Verdict {
	case queue.Granted:
		c.Held[key] = s
	case queue.Reserved:
		c.Promised[key] = s
	default: // nothing is booked
	}
	return got
}

// Probe implements queue.Matcher.
func (c *Cluster) Probe(a queue.Ask, shorter time.Duration, later bool) queue.Answer {
	j := *a.Job
	j.Duration, a.Job = shorter, &j
	got, _ := c.look(a, later)
	return got
}

// look returns an answer and the span that it gives, now or, if later is set, at the earliest time.
func (c *Cluster) look(a queue.Ask, later bool) (queue.Answer, Span) {
	if no, is := c.refuse(a); is {
		return no, Span{}
	}
	if s := SpanOf(a.Job, c.Now); c.Fits(a.Job.Key, s, a.Ignore) {
		return queue.Answer{Verdict: queue.Granted}, s
	}
	if later && !c.Short {
		for _, at := range c.ends() {
			if s := SpanOf(a.Job, at); c.Fits(a.Job.Key, s, a.Ignore) {
				return queue.Answer{Verdict: queue.Reserved, From: at, Nodes: int(s.N), Message: "promised"}, s
			}
		}
	}
	return queue.Answer{Verdict: queue.Busy, Message: "no room"}, Span{}
}

// Restore implements queue.Matcher.
func (c *Cluster) Restore(j *queue.Job, _ queue.Promise) bool {
	s, had := c.replaced[j.Key]
	if !had || !c.Fits(j.Key, s, slices.Collect(maps.Keys(c.Promised))) {
		return false
	}
	c.Promised[j.Key] = s
	return true
}

// Cancel implements queue.Matcher.
func (c *Cluster) Cancel(key types.NamespacedName) { delete(c.Promised, key) }

// Release frees what a job holds.
func (c *Cluster) Release(key types.NamespacedName) { delete(c.Held, key) }

// refuse returns the answer that does not depend on what others hold, if there is one.
func (c *Cluster) refuse(a queue.Ask) (queue.Answer, bool) {
	s := SpanOf(a.Job, c.Now)
	p := c.Pools[s.Pool]
	switch {
	case c.Away:
		return queue.Answer{}, true
	case s.N > p.Size:
		return queue.Answer{Verdict: queue.Never, Message: "too few nodes"}, true
	case s.N > p.Size-p.Down:
		return queue.Answer{Verdict: queue.Down, Message: "nodes are down"}, true
	case s.N > p.Size-p.Down-p.Excluded && strings.HasSuffix(a.Job.Class, "/x"):
		return queue.Answer{Verdict: queue.Excluded, Message: "nodes are excluded"}, true
	case c.avoids(a):
		return queue.Answer{Verdict: queue.Busy, Message: "nodes are kept for others"}, true
	}
	return queue.Answer{}, false
}

// avoids reports whether a job has no nodes to use, because it leaves them to others.
func (c *Cluster) avoids(a queue.Ask) bool {
	pool, _, _ := strings.Cut(a.Job.Class, "/")
	return slices.ContainsFunc(a.Avoid, func(key types.NamespacedName) bool { return c.PoolOf(key) == pool })
}

// PoolOf returns the pool of a job that waits. The jobs of the scripts have it in their namespaces' last letter.
func (c *Cluster) PoolOf(key types.NamespacedName) string {
	return key.Namespace[len(key.Namespace)-1:]
}

// ends returns the times at which something ends, in order.
func (c *Cluster) ends() []time.Time {
	var all []time.Time
	for _, spans := range []map[types.NamespacedName]Span{c.Held, c.Promised} {
		for _, s := range spans {
			if s.End.After(c.Now) {
				all = append(all, s.End)
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.Compact(all)
}

// Fits reports whether there is room for a job in all of its time, beside all that others hold and are promised, except
// for some promises.
func (c *Cluster) Fits(key types.NamespacedName, s Span, ignore []types.NamespacedName) bool {
	if s.From.Before(c.Now) {
		s.From = c.Now
	}
	moments := []time.Time{s.From}
	for _, o := range c.Promised {
		if o.From.After(s.From) && (s.End.IsZero() || o.From.Before(s.End)) {
			moments = append(moments, o.From)
		}
	}
	p := c.Pools[s.Pool]
	for _, at := range moments {
		used := s.N
		for k, o := range c.Held {
			if k != key && o.Pool == s.Pool && c.covers(o, at) {
				used += o.N
			}
		}
		for k, o := range c.Promised {
			if k != key && o.Pool == s.Pool && !o.From.After(at) && c.covers(o, at) && !slices.Contains(ignore, k) {
				used += o.N
			}
		}
		if used > p.Size-p.Down {
			return false
		}
	}
	return true
}

// covers reports whether a span has not ended at a time. One that should have ended by now has no known end.
func (c *Cluster) covers(s Span, at time.Time) bool {
	return s.End.IsZero() || s.End.After(at) || !s.End.After(c.Now)
}
