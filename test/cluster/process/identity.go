package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// identity distinguishes a process from any other that has, had or will have its id.
type identity struct {
	PID int `json:"pid"`
	// Started is the time of the start, in clock ticks since the machine's boot.
	Started uint64 `json:"started"`
	// Boot is the id of the machine's boot.
	Boot string `json:"boot"`
}

// errGone means that no such process exists, or that it has ended and is not reaped.
var errGone = errors.New("no such process")

// identify returns the identity of the living process pid. It returns errGone if there is none.
func identify(pid int) (identity, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return identity{}, errGone
	}
	state, started, err := parseStat(stat)
	if err != nil {
		return identity{}, fmt.Errorf("parse the status of process %d: %w", pid, err)
	}
	if state == "Z" || state == "X" {
		return identity{}, errGone
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, fmt.Errorf("read the boot id: %w", err)
	}
	return identity{PID: pid, Started: started, Boot: strings.TrimSpace(string(boot))}, nil
}

// parseStat returns the state and the start time (fields 3 and 22) of a line of
// /proc/PID/stat. Field 2 is the program's name in parentheses and may hold
// spaces and parentheses itself.
func parseStat(stat []byte) (state string, started uint64, err error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) < 20 {
		return "", 0, fmt.Errorf("short line %q", stat)
	}
	started, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0], started, err
}

// alive reports whether the process is still running.
func (id identity) alive() bool {
	now, err := identify(id.PID)
	return err == nil && now == id
}
