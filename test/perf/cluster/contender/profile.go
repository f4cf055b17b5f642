package contender

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/flux-k8s/fluence/test/cluster/process"
)

// profilePath is the path below which a process serves profiles.
const profilePath = "/debug/pprof"

// Profiles returns the addresses of the profiles that the API server and a contender's
// processes serve, by the names of the processes in figures. Only the scheduler of a contender
// serves profiles. The API server has the name APIServer.
func (s *Stand) Profiles(running map[string]*process.Process) (map[string]string, error) {
	out := map[string]string{APIServer: s.RESTConfig().Host + profilePath}
	p := running[Scheduler]
	if p == nil {
		return out, nil
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID()))
	if err != nil {
		return nil, fmt.Errorf("find the scheduler's port: %w", err)
	}
	port, ok := lastFlag(line, "--secure-port=")
	if !ok {
		return nil, fmt.Errorf("find the scheduler's port: its command line has none: %q", line)
	}
	out[Scheduler] = "https://127.0.0.1:" + port + profilePath
	return out, nil
}

// lastFlag returns the value of a flag in a command line of /proc. If the flag is
// there several times, its last value counts. A test adds its flags after the chart's.
func lastFlag(line []byte, flag string) (value string, ok bool) {
	for arg := range bytes.SplitSeq(line, []byte{0}) {
		if v, found := strings.CutPrefix(string(arg), flag); found {
			value, ok = v, true
		}
	}
	return value, ok
}
