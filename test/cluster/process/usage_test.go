package process

import (
	"strings"
	"testing"
	"time"
)

func TestWhatAProcessUses(t *testing.T) {
	p := start(t, group(t, false), "p", "busy")
	before := p.CPU()
	if before < busyFor {
		t.Errorf("CPU() = %v of a process that was busy for %v", before, busyFor)
	}
	if now, peak := p.Memory(), p.PeakMemory(); now < busyBytes/2 || peak < now {
		t.Errorf("Memory() = %d, PeakMemory() = %d, want the %d bytes that it holds", now, peak, busyBytes)
	}
	if err := p.Kill(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	if after := p.CPU(); after < before {
		t.Errorf("CPU() = %v after the end, %v before", after, before)
	}
	if got := p.PeakMemory(); got != 0 {
		t.Errorf("PeakMemory() = %d after the end", got)
	}
}

func TestParseCPU(t *testing.T) {
	cases := map[string]struct {
		stat    string
		want    time.Duration
		wantErr bool
	}{
		"user and system time":       {stat: "7 (etcd) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0", want: 2800 * time.Millisecond},
		"a name that ends too early": {stat: "7 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 1 2 0 0", want: 30 * time.Millisecond},
		"too short":                  {stat: "7 (etcd) S 1 2", wantErr: true},
		"no number":                  {stat: "7 (etcd) S 1 2 3 4 5 6 7 8 9 10 x 30 0 0", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseCPU([]byte(tc.stat))
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("parseCPU() = %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestParseMemory(t *testing.T) {
	status := strings.Join([]string{"Name:\tetcd", "VmHWM:\t    2048 kB", "VmRSS:\t    1024 kB", "Threads:\t7", ""}, "\n")
	for key, want := range map[string]int64{"VmHWM:": 2 << 20, "VmRSS:": 1 << 20, "VmSwap:": 0} {
		if got := parseMemory([]byte(status), key); got != want {
			t.Errorf("parseMemory(%s) = %d, want %d", key, got, want)
		}
	}
}
