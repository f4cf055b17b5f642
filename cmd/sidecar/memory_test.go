package main

import (
	"testing"
	"testing/fstest"
)

func TestMemoryLeft(t *testing.T) {
	const meminfo = "MemTotal:       65843264 kB\nMemFree:         1000000 kB\nMemAvailable:    2000000 kB\n"
	const available = 2000000 << 10
	cases := map[string]struct {
		meminfo, limit, used string
		want                 int64
	}{
		"without a cgroup":                       {meminfo: meminfo, want: available},
		"a cgroup without a limit":               {meminfo: meminfo, limit: "max\n", used: "5000\n", want: available},
		"a limit below what the system has":      {meminfo: meminfo, limit: "1000000\n", used: "400000\n", want: 600000},
		"a limit above what the system has":      {meminfo: meminfo, limit: "9000000000000\n", used: "0\n", want: available},
		"a limit that was lowered":               {meminfo: meminfo, limit: "1000\n", used: "4000\n"},
		"a limit without what is used":           {meminfo: meminfo, limit: "1000\n", want: available},
		"a system that does not say what it has": {meminfo: "MemTotal: 1 kB\n", limit: "1000000\n", used: "0\n"},
		"a number that is none":                  {meminfo: "MemAvailable: many kB\n"},
		"no files":                               {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range map[string]string{
				"proc/meminfo": tc.meminfo, "sys/fs/cgroup/memory.max": tc.limit, "sys/fs/cgroup/memory.current": tc.used,
			} {
				if text != "" {
					root[path] = &fstest.MapFile{Data: []byte(text)}
				}
			}
			if got := memoryLeft(root); got != tc.want {
				t.Errorf("memoryLeft() = %d, want %d", got, tc.want)
			}
		})
	}
}
