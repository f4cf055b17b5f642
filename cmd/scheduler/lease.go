package main

import (
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// A lease records whether this process decides or stands by.
type lease struct {
	// unwanted is true if there is no election, so that the only scheduler leads.
	unwanted atomic.Bool
	// given is true once this process gives up the lease.
	given atomic.Bool
	// gives is closed when given becomes true.
	gives chan struct{}
	// seen is when this process was last seen to hold it, in nanoseconds since 1970.
	seen atomic.Int64
}

// seenFor is for how long it is not asked again whether this process holds the lease: each question reads all metrics.
const seenFor = 500 * time.Millisecond

func newLease() *lease { return &lease{gives: make(chan struct{})} }

// giveUp makes this process give up the lease, so that another can lead.
func (l *lease) giveUp() {
	if !l.given.Swap(true) {
		close(l.gives)
	}
}

// held reports whether this process holds the lease. It reads the metric
// of client-go's leader election, because kube-scheduler shows it nowhere
// else. A process that has just started does not have this metric yet.
func (l *lease) held() bool {
	now := time.Now()
	since := now.Sub(time.Unix(0, l.seen.Load())) // below 0 if the clock was set back
	if l.unwanted.Load() || !l.given.Load() && since >= 0 && since < seenFor {
		return true
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		klog.Background().Error(err, "Cannot read whether this scheduler is the leader")
		return false
	}
	for _, f := range families {
		if f.GetName() != "leader_election_master_status" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() == 0 {
				return false
			}
		}
		if len(f.GetMetric()) == 0 {
			return false
		}
		l.seen.Store(now.UnixNano())
		return true
	}
	return false
}
