package tools

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// modulePath is the module of the repository whose tools are built.
const modulePath = "github.com/flux-k8s/fluence"

// RepositoryRoot returns the folder of this repository that contains the
// current directory. It fails if there is none. A binary built with -trimpath
// does not know where its sources are. go test runs in the package's folder.
func RepositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		declared, err := moduleOf(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if declared == modulePath {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of %s in %s or above it", modulePath, start)
		}
	}
}

// moduleOf returns the module path that a go.mod file declares.
func moduleOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "module "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", lines.Err()
}
