// Package heapfloor spares small heaps most garbage collections. By default Go collects when the
// heap has doubled since the last collection. So a heap of 50 MB that allocates 200 MB/s is
// collected four times a second, to save memory that nobody misses.
package heapfloor

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// minPercent is GOGC for a heap that is large beside the floor. It is below Go's default, 100, so
	// that a large cluster costs about as much memory as with kube-scheduler.
	minPercent = 80
	// defaultMinimum is the smallest size, in bytes, at which Go collects a heap with GOGC=100.
	// It grows with GOGC.
	defaultMinimum = 4 << 20
	// adjustEvery is how often the percentage is adjusted to what is live. Until then a heap
	// that has grown may grow beyond the floor.
	adjustEvery = 250 * time.Millisecond
)

// Set lets the heap grow to floor bytes before it is collected. A heap of which much more than half of that
// is live is collected when it has grown by minPercent. GOMEMLIMIT still counts. Set does nothing
// if GOGC is set in the environment. It returns at once, and holds until the process ends.
func Set(floor uint64) {
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	percent := adjust(floor, 100)
	go func() {
		for range time.Tick(adjustEvery) {
			percent = adjust(floor, percent)
		}
	}()
}

// adjust sets the percentage for what was live at the last collection, and returns it. percent is the one that is set.
func adjust(floor uint64, percent int) int {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	live := samples[0].Value.Uint64()
	p := percentOf(floor, live, live+samples[1].Value.Uint64()+samples[2].Value.Uint64())
	if !differMuch(p, percent) {
		return percent // setting it stops the world for a moment
	}
	debug.SetGCPercent(p)
	return p
}

// percentOf returns the value of GOGC with which the next collection begins at floor bytes, or when
// the heap has grown by minPercent if that is later. live is the size of the heap after the last collection.
// GOGC is the percentage of base by which the heap may grow: base includes stacks and globals.
func percentOf(floor, live, base uint64) int {
	if floor <= live {
		return minPercent
	}
	base = max(base, defaultMinimum)
	return max(minPercent, int((floor-live)*100/base))
}

// differMuch reports whether two percentages differ by more than a tenth, or one of them is the least.
func differMuch(a, b int) bool {
	return a != b && (min(a, b) == minPercent || 10*(max(a, b)-min(a, b)) > max(a, b))
}
