package process

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/eventually"
)

// A journal is a log that is read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// supervise runs the supervisor of a group in this process. The channel has its result.
func supervise(t *testing.T, g *Group, log *journal) <-chan error {
	t.Helper()
	me, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := (record{identity: me, Name: "supervisor", At: time.Now()}).write(g.records()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result, ended := make(chan error, 1), make(chan struct{})
	go func() {
		result <- Supervise(ctx, g.dir, "supervisor", log)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		// The cleanup of the group must not find a record of this process.
		if err := os.Remove(g.records() + "/supervisor" + recordSuffix); err != nil {
			t.Error(err)
		}
	})
	return result
}

// recorded returns the process that the record of a name is about, or nil if it has ended.
func recorded(t *testing.T, g *Group, name string) *record {
	t.Helper()
	all, err := readRecords(g.records())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Name == name && r.alive() {
			return &r
		}
	}
	return nil
}

func TestAProcessThatEndsIsStartedAgain(t *testing.T) {
	g := group(t, true)
	killed, other := start(t, g, "killed", "polite"), start(t, g, "other", "polite")
	var log journal
	supervise(t, g, &log)
	if err := killed.Kill(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	var again *record
	eventually.True(within(t, 20*time.Second), t, "killed is started again", func(context.Context) (bool, string) {
		again = recorded(t, g, "killed")
		return again != nil, log.String()
	})
	if again.PID == killed.PID() || again.Path != os.Args[0] || len(again.Args) != 1 || again.Args[0] != "polite" {
		t.Errorf("after the kill of process %d, record %+v", killed.PID(), again)
	}
	g.all = append(g.all, g.adopt(*again)) // so that the cleanup ends it
	if now := recorded(t, g, "other"); now == nil || now.PID != other.PID() {
		t.Errorf("the process that did not end is now %+v", now)
	}
	for _, want := range []string{"killed (process ", "has ended; it is started again in 1s", "is started again as process"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log.String())
		}
	}
}

func TestAProcessThatEndsAgainIsStartedLater(t *testing.T) {
	g := group(t, true)
	p, err := g.Start("p", os.Args[0], "failing")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	var log journal
	supervise(t, g, &log)
	eventually.True(within(t, 20*time.Second), t, "the second delay is 10s", func(context.Context) (bool, string) {
		return strings.Contains(log.String(), "has ended (exit status 3); it is started again in 10s"), log.String()
	})
}

func TestASupervisorSurvivesARecordThatCannotBeRead(t *testing.T) {
	g := group(t, true)
	killed := start(t, g, "killed", "polite")
	bad := g.records() + "/bad" + recordSuffix
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A record that was removed after its folder was read.
	if err := os.Symlink("nowhere", g.records()+"/gone"+recordSuffix); err != nil {
		t.Fatal(err)
	}
	var log journal
	supervise(t, g, &log)
	eventually.True(within(t, 20*time.Second), t, "the error is logged", func(context.Context) (bool, string) {
		return strings.Contains(log.String(), "parse the record of a process"), log.String()
	})
	if err := killed.Kill(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	var again *record
	eventually.True(within(t, 20*time.Second), t, "killed is started again", func(context.Context) (bool, string) {
		again = recorded(t, g, "killed")
		return again != nil, log.String()
	})
	g.all = append(g.all, g.adopt(*again)) // so that the cleanup ends it
	if n := strings.Count(log.String(), "it is tried again"); n != 1 {
		t.Errorf("the error is logged %d times:\n%s", n, log.String())
	}
}

func TestASupervisorEndsWhenItsRecordIsNotItsOwn(t *testing.T) {
	g := group(t, true)
	p := start(t, g, "p", "polite")
	var log journal
	result := supervise(t, g, &log)
	if err := (record{identity: identity{PID: 1}, Name: "supervisor"}).write(g.records()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-result:
		if err != nil {
			t.Errorf("Supervise() = %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the supervisor is still there")
	}
	if ended(p) {
		t.Error("the supervisor has ended a process")
	}
}

func TestRestartDelay(t *testing.T) {
	for restarts, want := range map[int]time.Duration{
		0: time.Second, 1: 10 * time.Second, 2: 20 * time.Second, 5: 160 * time.Second, 6: 5 * time.Minute, 1000: 5 * time.Minute,
	} {
		if got := restartDelay(restarts); got != want {
			t.Errorf("restartDelay(%d) = %v, want %v", restarts, got, want)
		}
	}
}
