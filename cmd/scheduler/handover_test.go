package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// memory is a lock in memory. Another process gets it this long after its release.
type memory struct {
	resourcelock.Interface // no other method may be called
	record                 resourcelock.LeaderElectionRecord
	takes                  time.Duration
	fails                  error
	mu                     sync.Mutex
}

func (m *memory) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record := m.record
	return &record, nil, nil
}

func (m *memory) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if m.fails != nil {
		return m.fails
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record = record
	if record.HolderIdentity == "" {
		time.AfterFunc(m.takes, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.record.HolderIdentity = "another"
		})
	}
	return nil
}

func TestAProcessThatGivesUpItsLeaseEndsWhenAnotherHasIt(t *testing.T) {
	fails := errors.New("conflict")
	cases := map[string]struct {
		given    bool
		holder   string
		takes    time.Duration
		fails    error
		wantEnd  bool
		wantTook time.Duration
	}{
		"another takes it":               {given: true, takes: 3 * time.Second, wantEnd: true, wantTook: 3 * time.Second},
		"nobody takes it":                {given: true, takes: time.Hour, wantEnd: true, wantTook: 10 * time.Second},
		"it is asked to end, as always":  {takes: time.Hour},
		"it only renews the lease":       {given: true, holder: "me"},
		"the lease cannot be given back": {given: true, fails: fails},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := false
				lock := releasing{Interface: &memory{takes: tc.takes, fails: tc.fails}, given: func() bool { return tc.given }, end: func() { ended = true }}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				err := lock.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: tc.holder})
				took := time.Since(began)
				if !errors.Is(err, tc.fails) || ended != tc.wantEnd || took < tc.wantTook || took > tc.wantTook+successorEvery {
					t.Errorf("Update = %v after %s, and the process has ended: %v; want %v after %s, %v", err, took, ended, tc.fails, tc.wantTook, tc.wantEnd)
				}
			})
		})
	}
}

func TestALeaseIsGivenUpOnce(t *testing.T) {
	l := newLease()
	if l.given.Load() {
		t.Error("it is given up from the start")
	}
	l.giveUp()
	l.giveUp()
	<-l.gives
	if !l.given.Load() {
		t.Error("it was given up, and does not say so")
	}
}
