package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An example that no test applies may not work.
func TestEveryExampleIsAppliedByAStory(t *testing.T) {
	examples, err := filepath.Glob("../../manifests/examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("examples: %v, error %v", examples, err)
	}
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, s := range sources {
		text, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, e := range examples {
		if !strings.Contains(all.String(), `s.apply("`+filepath.Base(e)+`")`) {
			t.Errorf("no story applies %s", e)
		}
	}
}
