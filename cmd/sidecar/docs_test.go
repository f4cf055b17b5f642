package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// A block is code of a document: its language and its lines.
type block struct {
	language string
	lines    []string
}

// blocks reads the code of docs/sidecar.md.
func blocks(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile("../../docs/sidecar.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []block
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "```") && !inside:
			all, inside = append(all, block{language: line[3:]}), true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			last := &all[len(all)-1]
			last.lines = append(last.lines, line)
		}
	}
	return all
}

// examples returns a copy of docs/examples, and the environment in which the command is found.
func examples(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../docs/examples")); err != nil {
		t.Fatal(err)
	}
	return dir, append(os.Environ(), "PATH="+filepath.Dir(built)+":"+os.Getenv("PATH"), "PWD="+dir)
}

// varying matches what differs from run to run.
var varying = regexp.MustCompile(`\bin [0-9.]+(ns|µs|ms|s)|into [0-9]+ bytes`)

func TestTheCommandsOfTheDocumentSayWhatItSays(t *testing.T) {
	dir, env := examples(t)
	commands := 0
	for _, b := range blocks(t) {
		if b.language != "console" {
			continue
		}
		for i := 0; i < len(b.lines); {
			line, ok := strings.CutPrefix(b.lines[i], "$ ")
			if !ok {
				t.Fatalf("no command: %s", b.lines[i])
			}
			var want []string
			for i++; i < len(b.lines) && !strings.HasPrefix(b.lines[i], "$ "); i++ {
				want = append(want, b.lines[i])
			}
			commands++
			t.Run(line, func(t *testing.T) {
				c := exec.CommandContext(soon(t), "sh", "-c", line)
				c.Dir, c.Env = dir, env
				// Both streams, as a terminal shows them.
				out, err := c.CombinedOutput()
				got := varying.ReplaceAllString(string(out), "...")
				if written := varying.ReplaceAllString(strings.Join(want, "\n")+"\n", "..."); got != written {
					t.Errorf("got %v:\n%s\nthe document says:\n%s", err, got, written)
				}
			})
		}
	}
	if commands < 10 {
		t.Errorf("%d commands were found", commands)
	}
}

func TestTheServingOfTheDocumentServes(t *testing.T) {
	dir, env := examples(t)
	served := 0
	for _, b := range blocks(t) {
		if b.language != "sh" {
			continue
		}
		served++
		line := strings.Join(b.lines, "\n")
		c := exec.CommandContext(soon(t), "sh", "-c", "exec "+line)
		c.Dir, c.Env = dir, env
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		s := startProcess(t, c)
		s.read(t, "msg=Serving ")
		if _, err := os.Stat(filepath.Join(dir, "fluxion.sock")); err != nil {
			t.Error(err)
		}
		if _, err := s.end(t, syscall.SIGTERM); err != nil {
			t.Errorf("ended with %v", err)
		}
	}
	if served != 1 {
		t.Errorf("%d ways to serve were found, want 1", served)
	}
}

func TestTheLimitsOfTheDocumentAreThoseThatAreKept(t *testing.T) {
	text, err := os.ReadFile("../../docs/sidecar.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{
		fmt.Sprintf("| %d MiB | one message.", fluxionpb.MaxMessage>>20),
		fmt.Sprintf("| %d GiB | the messages of one incoming stream together, and the text of one graph", fluxionpb.MaxCall>>30),
		fmt.Sprintf("a graph of at most %d GiB", fluxionpb.MaxGraph>>30),
		fmt.Sprintf("| %d MiB | a jobspec |", jobspec.MaxSize>>20),
		fmt.Sprintf("jobspec of at most %d MiB", jobspec.MaxSize>>20),
		fmt.Sprintf("| %d nodes | one page", match.MaxNodesPerPage),
	} {
		if !strings.Contains(strings.ReplaceAll(string(text), "\n", " "), limit) {
			t.Errorf("%q is not said", limit)
		}
	}
}

func TestEveryExampleIsUsedInTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/sidecar.md")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS("../../docs/examples"), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(string(text), path) {
			t.Errorf("%s is in no command", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
