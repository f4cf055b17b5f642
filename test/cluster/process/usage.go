package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of the kernel's CPU times.
const ticksPerSecond = 100

// CPU returns the CPU time that the process has used, to a hundredth of a second. For an ended
// process that is its total. It returns 0 for an ended process that another process started.
func (p *Process) CPU() time.Duration {
	if state := p.State(); state != nil {
		return state.UserTime() + state.SystemTime()
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.record.PID))
	if err != nil || !p.record.alive() {
		return 0
	}
	used, err := parseCPU(stat)
	if err != nil {
		return 0
	}
	return used
}

// parseCPU returns the sum of user and system time (fields 14 and 15) of a line of
// /proc/PID/stat.
func parseCPU(stat []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("short line %q", stat)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time %q: %w", f, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// Memory returns the process's resident set in bytes. It returns 0 if the process has ended.
func (p *Process) Memory() int64 { return p.memory("VmRSS:") }

// PeakMemory returns the largest resident set of the process
// so far, in bytes. It returns 0 if the process has ended.
func (p *Process) PeakMemory() int64 { return p.memory("VmHWM:") }

func (p *Process) memory(key string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.record.PID))
	if err != nil || !p.record.alive() {
		return 0
	}
	return parseMemory(status, key)
}

// parseMemory returns an amount of /proc/PID/status in bytes. It returns 0 if the key is missing.
func parseMemory(status []byte, key string) int64 {
	for line := range strings.Lines(string(status)) {
		rest, ok := strings.CutPrefix(line, key)
		if !ok {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return kilobytes << 10
	}
	return 0
}
