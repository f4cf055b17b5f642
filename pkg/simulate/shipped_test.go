package simulate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The configuration that is used if none can be read is the one in manifests.
func TestShippedIsWhatManifestsHave(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "scheduler-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.profile.Plugins, got.profile.Plugins); diff != "" {
		t.Errorf("plugins of manifests/scheduler-config.yaml (-) and of Shipped (+):\n%s", diff)
	}
	if want.Scheduler() != got.Scheduler() {
		t.Errorf("scheduler %q, want %q", got.Scheduler(), want.Scheduler())
	}
	wantLevels, err := want.Levels()
	if err != nil {
		t.Fatal(err)
	}
	if gotLevels, err := got.Levels(); err != nil || len(gotLevels) != len(wantLevels) {
		t.Errorf("levels %v, %v; want %v", gotLevels, err, wantLevels)
	}
}
