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

// A Process is a process whose use of the machine is measured.
type Process interface {
	// CPU returns the CPU time used so far, or in total after its end.
	CPU() time.Duration
	// PeakMemory returns the largest resident set so far in bytes. It returns 0 after its end.
	PeakMemory() int64
}

// Self is the process that measures.
type Self struct{}

// CPU returns the CPU time of this process.
func (Self) CPU() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// PeakMemory returns the largest resident set of this process in bytes.
func (Self) PeakMemory() int64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return use.Maxrss << 10 // in KiB
}

// A Reading is what processes, by their names, have used up to a time.
type Reading struct {
	At   time.Time
	CPU  map[string]time.Duration
	Peak map[string]int64
}

// Read returns a reading of processes now.
func Read(processes map[string]Process) Reading {
	r := Reading{At: time.Now(), CPU: map[string]time.Duration{}, Peak: map[string]int64{}}
	for name, p := range processes {
		r.CPU[name], r.Peak[name] = p.CPU(), p.PeakMemory()
	}
	return r
}

// sampleInterval is the interval of the readings while Wait or WatchPeaks runs.
const sampleInterval = 250 * time.Millisecond

// Calm defines when processes are quiet.
type Calm struct {
	// Share is the largest share of one CPU that a quiet process
	// uses, such as 0.1. Shares override it, by the process's name.
	Share  float64
	Shares map[string]float64
	// For is the time over which the share is measured.
	For time.Duration
}

// Wait returns when the processes are quiet, with the reading at the beginning of the quiet time.
// If ctx is done before, it returns the last reading and an error that names the busy processes.
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
		// Of the samples that are old enough only the last is needed.
		for len(samples) > 1 && last.At.Sub(samples[1].At) >= c.For {
			samples = samples[1:]
		}
		if last.At.Sub(samples[0].At) >= c.For && len(c.busy(samples[0], last)) == 0 {
			return samples[0], nil
		}
	}
}

// busy returns the names of the processes that used more than their share between two readings.
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

// Peaks is the largest resident set of each process, even after its end.
type Peaks struct {
	mu    sync.Mutex
	bytes map[string]int64
}

// WatchPeaks reads the processes repeatedly until ctx is done.
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

// Bytes returns the largest resident sets so far, by process.
func (p *Peaks) Bytes() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.bytes)
}
