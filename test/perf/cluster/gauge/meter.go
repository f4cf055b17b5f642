package gauge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Process is one whose use of the machine is read.
type Process interface {
	// CPU is the CPU time used so far, and in all once it has ended.
	CPU() time.Duration
	// PeakMemory is the largest resident set so far in bytes, and 0 once it has ended.
	PeakMemory() int64
}

// Self is the process that reads.
type Self struct{}

// CPU is what this process has used.
func (Self) CPU() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// PeakMemory is the largest resident set of this process.
func (Self) PeakMemory() int64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return use.Maxrss << 10 // told in KiB
}

// A Reading is what processes, by name, have used up to a time.
type Reading struct {
	At   time.Time
	CPU  map[string]time.Duration
	Peak map[string]int64
}

// Read looks at processes now.
func Read(processes map[string]Process) Reading {
	r := Reading{At: time.Now(), CPU: map[string]time.Duration{}, Peak: map[string]int64{}}
	for name, p := range processes {
		r.CPU[name], r.Peak[name] = p.CPU(), p.PeakMemory()
	}
	return r
}

// sampleInterval is how often processes are looked at that are to become quiet.
const sampleInterval = 250 * time.Millisecond

// Calm is what counts as quiet.
type Calm struct {
	// Share is how much of one CPU a process may use at the most, such as 0.1, unless
	// Shares says otherwise for it.
	Share  float64
	Shares map[string]float64
	// For is over how long that is looked at.
	For time.Duration
}

// Wait returns when processes are quiet, with the reading of the moment at which that
// began. It fails when ctx is done before, with the last reading and an error that names
// who is busy.
func (c Calm) Wait(ctx context.Context, processes map[string]Process) (Reading, error) {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	samples := []Reading{Read(processes)}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			last := samples[len(samples)-1]
			return last, fmt.Errorf("wait until all processes are quiet (%v were not): %w", c.busy(samples[0], last), ctx.Err())
		}
		samples = append(samples, Read(processes))
		last := samples[len(samples)-1]
		// Of those that are old enough the last one alone is needed.
		for len(samples) > 1 && last.At.Sub(samples[1].At) >= c.For {
			samples = samples[1:]
		}
		if last.At.Sub(samples[0].At) >= c.For && len(c.busy(samples[0], last)) == 0 {
			return samples[0], nil
		}
	}
}

// busy names the processes that used more than their share between two readings.
func (c Calm) busy(from, to Reading) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(to.CPU)) {
		share, ok := c.Shares[name]
		if !ok {
			share = c.Share
		}
		if (to.CPU[name] - from.CPU[name]).Seconds() > share*to.At.Sub(from.At).Seconds() {
			names = append(names, name)
		}
	}
	return names
}

// Peaks is the most memory that processes have had, also of those that have ended.
type Peaks struct {
	mu    sync.Mutex
	bytes map[string]int64
}

// WatchPeaks looks at processes again and again until ctx is done.
func WatchPeaks(ctx context.Context, processes map[string]Process) *Peaks {
	p := &Peaks{bytes: map[string]int64{}}
	go func() {
		tick := time.NewTicker(sampleInterval)
		defer tick.Stop()
		for {
			p.read(processes)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return p
}

func (p *Peaks) read(processes map[string]Process) {
	for name, one := range processes {
		peak := one.PeakMemory()
		p.mu.Lock()
		p.bytes[name] = max(p.bytes[name], peak)
		p.mu.Unlock()
	}
}

// Bytes are those seen so far, by process.
func (p *Peaks) Bytes() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.bytes)
}
