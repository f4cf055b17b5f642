package process

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the tests start this binary as the processes they need.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "polite":
		fmt.Fprintln(os.Stdout, "up")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stdout, "up")
	case "busy":
		burn()
		fmt.Fprintln(os.Stdout, "up")
	case "failing":
		fmt.Fprintln(os.Stdout, "cannot do it")
		os.Exit(3)
	}
	time.Sleep(time.Hour) // not an empty select, which the runtime would report as a deadlock
}

const (
	busyFor   = 100 * time.Millisecond
	busyBytes = 64 << 20
)

// held is the memory of a busy process.
var held []byte

// burn uses memory, and CPU until it has used a certain time.
func burn() {
	held = make([]byte, busyBytes)
	var use syscall.Rusage
	for used := time.Duration(0); used < busyFor+2*time.Second/ticksPerSecond; {
		for i := range held {
			held[i]++
		}
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
			panic(err)
		}
		used = time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
}

// start runs this binary in g and waits until it is ready.
func start(t *testing.T, g *Group, name, mode string) *Process {
	t.Helper()
	p, err := g.Start(name, os.Args[0], mode)
	if err != nil {
		t.Fatalf("Start(%s) = %v", name, err)
	}
	if err := p.WaitLog(within(t, 20*time.Second), "up"); err != nil {
		t.Fatal(err)
	}
	return p
}

func group(t *testing.T, detached bool) *Group {
	t.Helper()
	g, err := NewGroup(t.TempDir(), detached)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background(), nil); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return g
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestStop(t *testing.T) {
	cases := map[string]struct {
		mode string
		want syscall.Signal
	}{
		"a process that obeys ends by SIGTERM":         {mode: "polite", want: syscall.SIGTERM},
		"a process that does not is killed in the end": {mode: "stubborn", want: syscall.SIGKILL},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := start(t, group(t, false), "p", tc.mode)
			grace := 20 * time.Second
			if tc.want == syscall.SIGKILL {
				grace = 50 * time.Millisecond
			}
			if err := p.Stop(within(t, grace)); err != nil {
				t.Fatalf("Stop() = %v", err)
			}
			if got := p.State().Sys().(syscall.WaitStatus).Signal(); got != tc.want {
				t.Errorf("ended by %v, want %v", got, tc.want)
			}
			if err := p.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("Signal() to an ended process = %v", err)
			}
		})
	}
}

func TestAWaitFailsWhenTheProcessEnds(t *testing.T) {
	p, err := group(t, false).Start("p", os.Args[0], "failing")
	if err != nil {
		t.Fatal(err)
	}
	err = p.WaitLog(within(t, 20*time.Second), "up")
	for _, want := range []string{"p ended (exit status 3)", "cannot do it", p.Log()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("WaitLog() = %v, want it to say %q", err, want)
		}
	}
}

func TestANameIsFreeAgainWhenItsProcessHasEnded(t *testing.T) {
	g := group(t, false)
	first := start(t, g, "p", "polite")
	if _, err := g.Start("p", os.Args[0], "polite"); err == nil {
		t.Error("Start() of a running name succeeded")
	}
	if err := first.Kill(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	second, err := g.Start("p", os.Args[0], "failing")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := second.Tail(5); got != "cannot do it" { // not the output of the first process
		t.Errorf("Tail() = %q", got)
	}
	if g.Process("p") != second {
		t.Error("Process() is not the last started")
	}
}

func TestForgetKillsAttachedProcesses(t *testing.T) {
	g := group(t, false)
	p := start(t, g, "p", "stubborn")
	g.Forget()
	if err := p.Wait(within(t, 20*time.Second)); err != nil {
		t.Error(err)
	}
	if _, err := g.Start("q", os.Args[0], "polite"); err == nil {
		t.Error("Start() after Forget() succeeded")
	}
}

func TestDetachedProcessesAreFoundAgain(t *testing.T) {
	g := group(t, true)
	p, q := start(t, g, "p", "polite"), start(t, g, "q", "polite")
	g.Forget()
	again, err := Open(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	found := again.Processes()
	if len(found) != 2 || found[0].PID() != p.PID() || found[1].PID() != q.PID() {
		t.Fatalf("Processes() = %v, want p and q", found)
	}
	if err := again.Close(within(t, 20*time.Second), nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Process{p, q} {
		if err := p.Wait(within(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	}
}

// A record may outlive its process, and another process may get the id.
func TestAnotherProcessOfTheSameIdIsLeftAlone(t *testing.T) {
	bystander := start(t, group(t, false), "bystander", "polite")
	cases := map[string]func(*record){
		"started at another time": func(r *record) { r.Started-- },
		"in another boot":         func(r *record) { r.Boot = "another" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			g := group(t, true)
			r := bystander.record
			change(&r)
			if err := r.write(g.records()); err != nil {
				t.Fatal(err)
			}
			again, err := Open(g.dir)
			if err != nil {
				t.Fatal(err)
			}
			if found := again.Processes(); len(found) != 0 {
				t.Errorf("Processes() = %v, want none", found)
			}
			if err := again.Close(within(t, 20*time.Second), nil); err != nil {
				t.Error(err)
			}
			if !bystander.record.alive() {
				t.Error("the bystander was hit")
			}
		})
	}
}

func TestNamesThatAreNoFilesAreRefused(t *testing.T) {
	g := group(t, false)
	for _, name := range []string{"", "a/b", "../a", "a b"} {
		if _, err := g.Start(name, os.Args[0], "polite"); err == nil {
			t.Errorf("Start(%q) succeeded", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(g.dir, "*", "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestParseStat(t *testing.T) {
	tail := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	cases := map[string]struct {
		stat        string
		wantState   string
		wantStarted uint64
		wantErr     bool
	}{
		"plain":                      {stat: "7 (etcd)" + tail, wantState: "S", wantStarted: 4242},
		"a name with spaces":         {stat: "7 (a b c)" + tail, wantState: "S", wantStarted: 4242},
		"a name that ends too early": {stat: "7 (a) R 1 (b)" + tail, wantState: "S", wantStarted: 4242},
		"too short":                  {stat: "7 (etcd) S 1 2", wantErr: true},
		"no name":                    {stat: "", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state, started, err := parseStat([]byte(tc.stat))
			if state != tc.wantState || started != tc.wantStarted || (err != nil) != tc.wantErr {
				t.Errorf("parseStat() = %q, %d, %v", state, started, err)
			}
		})
	}
}

func TestAProcessRunsAProgramUntilThatIsReplaced(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	write := func(end string) {
		t.Helper()
		text, err := os.ReadFile(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program+".new", append(text, end...), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(program+".new", program); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	p, err := group(t, false).Start("p", program, "polite")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitLog(within(t, 20*time.Second), "up"); err != nil {
		t.Fatal(err)
	}
	write("") // the same content, as after a build of what has not changed
	if !p.Runs(program, program, []string{"polite"}) {
		t.Error("the program is the same, and Runs() = false")
	}
	if p.Runs(program, program, []string{"stubborn"}) {
		t.Error("the arguments are others, and Runs() = true")
	}
	write("changed")
	if p.Runs(program, program, []string{"polite"}) {
		t.Error("the program is another one, and Runs() = true")
	}
}
