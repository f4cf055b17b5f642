package heapfloor

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

const mb = 1 << 20

func TestPercentOf(t *testing.T) {
	for _, tc := range []struct {
		floor, live, base uint64
		want              int
	}{
		{256 * mb, 0, 0, 6400}, // Go's own minimum grows with the percentage
		{256 * mb, 64 * mb, 64 * mb, 300},
		{256 * mb, 64 * mb, 128 * mb, 150}, // half of what is scanned is stacks
		{256 * mb, 128 * mb, 128 * mb, 100},
		{256 * mb, 150 * mb, 150 * mb, 80},
		{256 * mb, 256 * mb, 256 * mb, 80},
		{256 * mb, 4096 * mb, 4096 * mb, 80},
	} {
		if got := percentOf(tc.floor, tc.live, tc.base); got != tc.want {
			t.Errorf("floor %d, live %d, base %d: %d %%, want %d %%", tc.floor, tc.live, tc.base, got, tc.want)
		}
	}
}

func TestDifferMuch(t *testing.T) {
	for _, tc := range []struct {
		a, b int
		want bool
	}{
		{300, 300, false}, {300, 290, false}, {300, 280, false}, {300, 269, true}, {269, 300, true}, {80, 81, true}, {81, 80, true}, {80, 80, false},
	} {
		if got := differMuch(tc.a, tc.b); got != tc.want {
			t.Errorf("%d and %d differ much: %t, want %t", tc.a, tc.b, got, tc.want)
		}
	}
}

// A process of its own is collected at the floor, as long as less than half of it is live.
func TestTheHeapGrowsToTheFloor(t *testing.T) {
	if os.Getenv("HEAPFLOOR_CHILD") != "" {
		grow(t)
		return
	}
	for name, env := range map[string]string{
		"GOGC is not set": "HEAPFLOOR_WANT=64 64 180",
		"GOGC is set":     "GOGC=100",
	} {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheHeapGrowsToTheFloor$", "-test.v")
			child.Env = append(os.Environ(), "HEAPFLOOR_CHILD=1", env)
			if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// grow waits until the heap is collected at the sizes that HEAPFLOOR_WANT lists, in MB, with
// 1, 20 and 100 MB live.
func grow(t *testing.T) {
	Set(64 * mb)
	want := strings.Fields(cmp.Or(os.Getenv("HEAPFLOOR_WANT"), "4 40 200"))
	for i, live := range []int{1, 20, 100} {
		kept := make([]byte, live*mb)
		runtime.GC()
		var goal string
		for deadline := time.Now().Add(10 * time.Second); goal != want[i] && time.Now().Before(deadline); {
			sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
			metrics.Read(sample)
			goal = fmt.Sprint((sample[0].Value.Uint64() + mb/2) / mb)
			runtime.Gosched()
		}
		runtime.KeepAlive(kept)
		if goal != want[i] {
			t.Errorf("with %d MB live the heap is collected at %s MB, want %s MB", live, goal, want[i])
		}
	}
}
