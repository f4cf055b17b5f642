package main

import (
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// memoryLeft returns how many bytes this process may still take: what the system has available, and
// what is left to the limit of the process's cgroup, as a container has it (cgroup v2). root is the
// root of the file system. It returns 0 if the system does not say what it has.
func memoryLeft(root fs.FS) int64 {
	left := available(root)
	limit, limited := number(root, "sys/fs/cgroup/memory.max")
	used, known := number(root, "sys/fs/cgroup/memory.current")
	if limited && known {
		left = min(left, limit-used)
	}
	return max(0, left)
}

// available returns MemAvailable of /proc/meminfo: see proc_meminfo(5).
func available(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if amount, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(amount), "kB")), 10, 64)
			if err != nil || kibibytes > math.MaxInt64>>10 {
				return 0
			}
			return kibibytes << 10
		}
	}
	return 0
}

// number reads a file that holds a number. The limit of a cgroup without one is the word max.
func number(root fs.FS, name string) (n int64, ok bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
