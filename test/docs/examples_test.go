package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// operatorExamples returns the examples of kinds of other projects, by name, without their first comment.
func operatorExamples(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "manifests", "examples", "operators", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, error %v", files, err)
	}
	all := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		for strings.HasPrefix(lines[0], "#") {
			lines = lines[1:]
		}
		all[filepath.Base(f)] = strings.Join(lines, "")
	}
	return all
}

// otherManifests are pages with whole manifests that are no examples, and why.
var otherManifests = map[string]string{
	"docs/groups.md":            "test/e2e has native PodGroups",
	"docs/tasks/minicluster.md": "the Flux operator is not here; the page says so",
}

// The manifests on the pages are those that tests apply.
func TestPagesShowExamples(t *testing.T) {
	examples := operatorExamples(t)
	shown := 0
	for _, name := range pages(t) {
		if otherManifests[name] != "" {
			continue
		}
		page, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if !strings.HasPrefix(block, "apiVersion:") || !strings.Contains(block, "\nkind:") {
				continue
			}
			shown++
			isExample := false
			for _, text := range examples {
				isExample = isExample || text == block
			}
			if !isExample {
				t.Errorf("%s shows a manifest that is no example:\n%s", name, block)
			}
		}
	}
	if shown < 10 {
		t.Errorf("%d manifests are shown, want one for each operator on docs/workloads.md and on the page of its task", shown)
	}
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "workloads.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range examples {
		if !strings.Contains(string(page), "examples/operators/"+name) {
			t.Errorf("docs/workloads.md does not name %s", name)
		}
	}
}

// An example that no test applies may not work.
func TestEveryExampleOfAnOperatorIsApplied(t *testing.T) {
	var tests []string
	for _, dir := range []string{"test/operators", "pkg/controller/podgroup"} {
		files, err := filepath.Glob(filepath.Join(root(t), dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			tests = append(tests, string(text))
		}
	}
	for name := range operatorExamples(t) {
		if !slices.ContainsFunc(tests, func(text string) bool { return strings.Contains(text, `.example("`+name+`")`) }) {
			t.Errorf("no test applies manifests/examples/operators/%s", name)
		}
	}
}
