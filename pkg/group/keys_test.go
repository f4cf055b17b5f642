package group

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKeysIsComplete looks for labels and annotations of the project in all of its source, also in that of
// other languages, and in its pages and manifests.
func TestKeysIsComplete(t *testing.T) {
	// The first is the type of a condition, the second is what a page shows as misspelt, and the third begins the
	// version of an API.
	known := map[string]bool{annotationPrefix + "Scheduled": true, annotationPrefix + "topology-require": true, annotationPrefix + "v": true}
	for _, k := range Keys() {
		known[k.Name] = true
	}
	// Names that are wrong on purpose are in tests alone. Names such as kwok.fluence... are of other domains.
	mentioned := regexp.MustCompile(`(?:^|[^a-z.-])(fluence\.(?:flux-framework\.org/[A-Za-z-]*[A-Za-z]|group-[a-z-]*[a-z]))`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if name := entry.Name(); name == ".git" || name == "testdata" {
				return filepath.SkipDir
			}
			return err
		}
		kind := filepath.Ext(path)
		if !slices.Contains([]string{".go", ".yaml", ".tpl", ".md", ".txt", ".sh", ".py"}, kind) || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range mentioned.FindAllStringSubmatch(string(text), -1) {
			if !known[m[1]] {
				t.Errorf("%s mentions %s, which is not in Keys", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestKeysHaveAllFieldsAndAnOrder(t *testing.T) {
	last := ""
	for _, k := range Keys() {
		if k.Means == "" || k.Values == "" || k.Default == "" || len(k.Places) == 0 {
			t.Errorf("%s %s: a field is empty", k.Form, k.Name)
		}
		// Labels go first.
		at := map[Form]string{LabelForm: "1", AnnotationForm: "2"}[k.Form] + k.Name
		if at <= last {
			t.Errorf("%s is after %s", at, last)
		}
		last = at
	}
}
