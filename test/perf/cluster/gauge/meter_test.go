package gauge

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A worker uses a share of a CPU from its start until a time, and less after that.
type worker struct {
	start       time.Time
	until       time.Duration
	share, then float64
}

func (w worker) CPU() time.Duration {
	ran := time.Since(w.start)
	busy := min(ran, w.until)
	return time.Duration(float64(busy)*w.share + float64(ran-busy)*w.then)
}

func (w worker) PeakMemory() int64 { return int64(w.CPU()) }

func TestCalm(t *testing.T) {
	calm := Calm{Share: 0.1, Shares: map[string]float64{"scheduler": 0.02}, For: 5 * time.Second}
	cases := map[string]struct {
		worker worker
		// wantFrom is the earliest time at which Wait may find all quiet, and
		// wantTo the latest. The time that is measured may include some work.
		wantFrom, wantTo time.Duration
		wantBusy         string
	}{
		"nothing to wait for":                       {worker: worker{}, wantTo: 0},
		"work that ends":                            {worker: worker{until: 10 * time.Second, share: 1}, wantFrom: 9500 * time.Millisecond, wantTo: 10 * time.Second},
		"little that goes on is as good as nothing": {worker: worker{until: 10 * time.Second, share: 1, then: 0.01}, wantFrom: 9500 * time.Millisecond, wantTo: 10250 * time.Millisecond},
		"more than its share":                       {worker: worker{until: 10 * time.Second, share: 1, then: 0.05}, wantBusy: "scheduler"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				tc.worker.start = start
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, err := calm.Wait(ctx, map[string]Process{"scheduler": tc.worker, "other": worker{start: start, then: 0.09}})
				if tc.wantBusy != "" {
					if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "["+tc.wantBusy+"]") {
						t.Errorf("Wait() = %v, want it to say that %s is busy", err, tc.wantBusy)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if at := got.At.Sub(start); at < tc.wantFrom || at > tc.wantTo {
					t.Errorf("quiet from %v on, want %v to %v", at, tc.wantFrom, tc.wantTo)
				}
			})
		})
	}
}

// ending is a process that ends after a second.
type ending struct{ start time.Time }

func (e ending) CPU() time.Duration { return time.Second }

func (e ending) PeakMemory() int64 {
	if time.Since(e.start) > time.Second {
		return 0
	}
	return 7
}

func TestPeaksOfAProcessThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		peaks := WatchPeaks(ctx, map[string]Process{"p": ending{start: time.Now()}})
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if got := peaks.Bytes()["p"]; got != 7 {
			t.Errorf("Bytes() = %d, want 7", got)
		}
	})
}

func TestSelf(t *testing.T) {
	before := (Self{}).CPU()
	for (Self{}).CPU() == before {
	}
	if peak := (Self{}).PeakMemory(); peak < 1<<20 {
		t.Errorf("PeakMemory() = %d bytes", peak)
	}
}
