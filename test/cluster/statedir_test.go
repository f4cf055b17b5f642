package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAbandonedTemporaryFoldersAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	abandoned, err := newStateDir(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	abandoned.lock.Close() // the kernel does so when the owner dies
	owned, err := newStateDir(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if exists(abandoned.path) {
		t.Error("the abandoned folder is still there")
	}
	third, err := newStateDir(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if !exists(owned.path) || !exists(third.path) {
		t.Error("an owned folder was removed")
	}
	for _, d := range []*stateDir{owned, third, third} {
		if err := d.release(true); err != nil {
			t.Errorf("release() = %v", err)
		}
		if exists(d.path) {
			t.Error("a released folder is still there")
		}
	}
}

func TestAGivenFolderIsTakenOnlyIfItIsFree(t *testing.T) {
	cases := map[string]struct {
		files   []string
		wantErr bool
	}{
		"empty":                            {},
		"of a start that was killed early": {files: []string{lockFile, stateFile + ".new"}},
		"of a cluster that has ended":      {files: []string{lockFile, stateFile, "audit.log"}},
		"of something else":                {files: []string{"thesis.tex"}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			for _, f := range tc.files {
				if err := os.WriteFile(filepath.Join(path, f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d, err := newStateDir(t.Context(), path)
			if (err != nil) != tc.wantErr {
				t.Fatalf("newStateDir() = %v", err)
			}
			if tc.wantErr {
				for _, f := range tc.files {
					if !exists(filepath.Join(path, f)) {
						t.Errorf("%s was removed", f)
					}
				}
				if err := Down(t.Context(), path); err == nil {
					t.Error("Down() of something else succeeded")
				}
				return
			}
			if _, err := newStateDir(t.Context(), path); err == nil {
				t.Error("a folder was taken twice")
			}
			if left, _ := os.ReadDir(path); len(left) != 1 {
				t.Errorf("left over: %v", left)
			}
			if err := d.release(true); err != nil {
				t.Error(err)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
