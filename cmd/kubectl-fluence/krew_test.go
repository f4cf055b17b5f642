package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// plugin is what krew reads of a manifest.
type plugin struct {
	Metadata struct{ Name string }
	Spec     struct {
		Version   string
		Platforms []struct {
			Selector         struct{ MatchLabels map[string]string }
			URI, SHA256, Bin string
		}
	}
}

// What hack/krew.sh packs is what krew would install: the manifest names
// the archive by its sum, and the program in it runs and knows its version.
func TestKrew(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program")
	}
	root := filepath.Join("..", "..")
	platform := runtime.GOOS + "/" + runtime.GOARCH
	pack := exec.CommandContext(t.Context(), "bash", "hack/krew.sh", "v9.8.7", "https://example.com/there", platform)
	pack.Dir = root
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	folder := filepath.Join(root, "bin", "krew")
	text, err := os.ReadFile(filepath.Join(folder, "fluence.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var p plugin
	if err := yaml.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if p.Metadata.Name != "fluence" || p.Spec.Version != "v9.8.7" || len(p.Spec.Platforms) != 1 {
		t.Fatalf("the manifest is\n%s", text)
	}
	here := p.Spec.Platforms[0]
	if here.Selector.MatchLabels["os"] != runtime.GOOS || here.Selector.MatchLabels["arch"] != runtime.GOARCH {
		t.Errorf("it is for %v", here.Selector.MatchLabels)
	}
	name, ok := strings.CutPrefix(here.URI, "https://example.com/there/")
	archive, err := os.ReadFile(filepath.Join(folder, name))
	if !ok || err != nil {
		t.Fatalf("its archive is at %s: %v", here.URI, err)
	}
	if sum := sha256.Sum256(archive); here.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("its sum is %s, that of the archive %x", here.SHA256, sum)
	}
	again := packedAgain(t, root, platform, name)
	if !bytes.Equal(archive, again) {
		t.Errorf("packed again later, by another umask, the archive has %d other bytes", differing(archive, again))
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(folder, name), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, here.Bin), "--version").Output()
	if err != nil || !strings.Contains(string(out), "v9.8.7") {
		t.Errorf("it says it is %q: %v", out, err)
	}
}

// packedAgain is the archive as another user packs it at another time:
// the packed files are newer, and only their owner may read the result.
func packedAgain(t *testing.T, root, platform, name string) []byte {
	t.Helper()
	pack := exec.CommandContext(t.Context(), "bash", "-c", `umask 077; exec bash hack/krew.sh "$@"`, "krew", "v9.8.7", "https://example.com/there", platform)
	pack.Dir = root
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive, err := os.ReadFile(filepath.Join(root, "bin", "krew", name))
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// differing counts the bytes in which two texts differ.
func differing(a, b []byte) int {
	n := max(len(a), len(b)) - min(len(a), len(b))
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func TestKrewRefusesWhatIsNoVersion(t *testing.T) {
	for _, args := range [][]string{{}, {"v1.2.3"}, {"1.2.3", "https://example.com"}} {
		pack := exec.CommandContext(t.Context(), "bash", append([]string{"hack/krew.sh"}, args...)...)
		pack.Dir = filepath.Join("..", "..")
		if out, err := pack.CombinedOutput(); err == nil || !strings.Contains(string(out), "usage:") {
			t.Errorf("of %q it says %s: %v", args, out, err)
		}
	}
}
