package main

import (
	"sync/atomic"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// A lease says whether this process decides, or stands by.
type lease struct {
	// unwanted says that nobody is elected, so that the one scheduler leads.
	unwanted atomic.Bool
	// given says that this process gives it up, and gives is closed then.
	given atomic.Bool
	gives chan struct{}
}

func newLease() *lease { return &lease{gives: make(chan struct{})} }

// giveUp has this process give up the lease, for another to lead.
func (l *lease) giveUp() {
	if !l.given.Swap(true) {
		close(l.gives)
	}
}

// held says whether this process holds the lease, as its own metric has it:
// kube-scheduler tells nobody else. One that has just started has no such metric yet.
func (l *lease) held() bool {
	if l.unwanted.Load() {
		return true
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		klog.Background().Error(err, "Read whether this scheduler leads")
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
		return len(f.GetMetric()) > 0
	}
	return false
}
