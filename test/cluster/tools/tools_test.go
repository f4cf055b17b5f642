package tools

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// newModule writes a module with one program that prints a text.
func newModule(t *testing.T, text string) *bundle {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":       "module example.com/hello\n\ngo 1.26.0\n",
		"go.sum":       "",
		"main.go":      "package main\n\nfunc main() { print(" + `"` + text + `"` + ") }\n",
		"main_test.go": "package main\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &bundle{
		name: "hello", dir: dir, sources: []string{dir},
		programs: []program{{name: "hello", pkg: "example.com/hello", ldflags: "-s -w"}},
		copies:   []copied{{module: "example.com/hello", path: "main.go", name: "copy"}, {module: "example.com/hello", path: ".", name: "folder"}},
	}
}

func TestNothingIsBuiltTwice(t *testing.T) {
	b, cache := newModule(t, "hello"), t.TempDir()
	var log bytes.Buffer
	dir, err := b.ensure(t.Context(), cache, &progress{log: &log, total: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(log.String(), "[1/1] building hello ... ") {
		t.Errorf("progress %q", log.String())
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "hello")).CombinedOutput(); string(out) != "hello" {
		t.Errorf("the program says %q (%v)", out, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "copy")); err != nil {
		t.Error(err)
	}

	log.Reset()
	t.Setenv("PATH", t.TempDir()) // there is no go command
	again, err := b.ensure(t.Context(), cache, &progress{log: &log})
	if err != nil || again != dir || log.Len() != 0 {
		t.Errorf("second call: %q, %v, progress %q", again, err, log.String())
	}
	if err := os.WriteFile(filepath.Join(b.dir, "main_test.go"), []byte("package main // changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := b.ensure(t.Context(), cache, &progress{}); err != nil || again != dir {
		t.Errorf("after a change of a test: %q, %v", again, err)
	}
}

func TestAChangeIsBuilt(t *testing.T) {
	b := newModule(t, "one")
	before, err := b.key()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(b *bundle) error{
		"source": func(b *bundle) error {
			return os.WriteFile(filepath.Join(b.dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644)
		},
		"go.mod": func(b *bundle) error {
			return os.WriteFile(filepath.Join(b.dir, "go.mod"), []byte("module example.com/hello\n\ngo 1.25.0\n"), 0o644)
		},
		"flags": func(b *bundle) error { b.programs[0].ldflags = "-s"; return nil },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			b := newModule(t, "one")
			if err := change(b); err != nil {
				t.Fatal(err)
			}
			if after, err := b.key(); err != nil || after == before {
				t.Errorf("key() = %q, %v, as before", after, err)
			}
		})
	}
	if same, err := newModule(t, "one").key(); err != nil || same != before {
		t.Errorf("key() of the same = %q, %v, want %q", same, err, before)
	}
}

func TestABuildThatFailsLeavesNothingToUse(t *testing.T) {
	cache := t.TempDir()
	b := newModule(t, `" + nonsense + "`)
	if _, err := b.ensure(t.Context(), cache, &progress{}); err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("ensure() = %v, want what the compiler says", err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	b = newModule(t, "fine")
	if _, err := b.ensure(stopped, cache, &progress{}); err == nil {
		t.Error("ensure() of a cancelled context succeeded")
	}
	if _, err := b.ensure(t.Context(), cache, &progress{}); err != nil {
		t.Errorf("ensure() after an interruption = %v", err)
	}
}

func TestOneBuildsAndTheOthersWait(t *testing.T) {
	b, cache := newModule(t, "hello"), t.TempDir()
	var log lockedBuffer
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := b.ensure(t.Context(), cache, &progress{log: &log}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := strings.Count(log.String(), "building hello"); n != 1 {
		t.Errorf("built %d times:\n%s", n, log.String())
	}
}

// lockedBuffer is a buffer for several writers.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func TestTheRealToolsAreBuiltOnce(t *testing.T) {
	first, err := Build(t.Context(), testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir()) // there is no go command
	start := time.Now()
	second, err := Build(t.Context(), testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("second call: %v", time.Since(start))
	if *first != *second {
		t.Errorf("Build() = %v, then %v", first, second)
	}
	for _, path := range []string{first.Etcd, first.APIServer, first.ControllerManager, first.Scheduler, first.Kubectl, first.Kwok, first.Kubelet, first.Helm} {
		if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s is no program (%v)", path, err)
		}
	}
	out, err := exec.CommandContext(t.Context(), first.APIServer, "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "Kubernetes v1.37.") {
		t.Errorf("kube-apiserver --version says %q (%v)", out, err)
	}
}

// testWriter writes progress to the test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}
