package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/test/cluster/tools"
)

func TestThePageAgreesWithTheResults(t *testing.T) {
	root, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := madePage(root, string(is))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(is)); diff != "" {
		t.Errorf("%s is not what make bench-table makes of %s (-want +got):\n%s", pageFile, resultsFile, diff)
	}
}

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	write := func(file string) {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.go")
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "a"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	look := func(wantDirty bool, when string) {
		t.Helper()
		commit, dirty, err := commitOf(t.Context(), dir)
		if err != nil || len(commit) != 12 || dirty != wantDirty {
			t.Errorf("commitOf() %s = %q, %t, %v, want dirty: %t", when, commit, dirty, err, wantDirty)
		}
	}
	look(false, "of what was committed")
	write(resultsFile)
	write(pageFile)
	look(false, "with results and their page")
	write("b.go")
	look(true, "with a further file")
	if _, _, err := commitOf(t.Context(), t.TempDir()); err == nil {
		t.Error("commitOf() where there is no repository has no error")
	}
}
