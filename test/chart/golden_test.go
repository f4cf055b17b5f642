package chart_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each file of testdata/values is rendered to the file of the same name in testdata/golden.
func TestGolden(t *testing.T) {
	values, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(values) == 0 {
		t.Fatalf("no values: %v", err)
	}
	for _, file := range values {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			got, err := template(t, "--values", file)
			if err != nil {
				t.Fatal(err)
			}
			got = withoutCRD(got)
			golden := filepath.Join("testdata", "golden", filepath.Base(file))
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if line, ok := firstDifference(got, string(want)); !ok {
				t.Errorf("%s differs; go test ./test/chart -update writes it anew\n%s", golden, line)
			}
		})
	}
}

// withoutCRD removes the CRD, which TestTheDefaultsAreThePlainManifests compares.
func withoutCRD(text string) string {
	var kept []string
	for _, doc := range strings.SplitAfter(text, "\n---\n") {
		if !strings.Contains(doc, "\nkind: CustomResourceDefinition\n") {
			kept = append(kept, doc)
		}
	}
	return strings.Join(kept, "")
}

// firstDifference returns the first line in which two texts differ. ok reports whether none does.
func firstDifference(got, want string) (quote string, ok bool) {
	if got == want {
		return "", true
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got  " + g[i] + "\nwant " + w[i], false
		}
	}
	return "one ends before the other", false
}

func TestLint(t *testing.T) {
	values, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range values {
		out, err := helm(t, "lint", "--strict", "--values", file, chartDir(t))
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// The chart accepts the values that docs/install.md shows.
func TestTheDocumentedValues(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	values, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/install.md shows no values")
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := template(t, "--values", file); err != nil {
		t.Error(err)
	}
}

// If its links are missing, or are files with a path, the chart names the remedy.
func TestWithoutItsLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fluence")
	err := filepath.WalkDir(chartDir(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		copied := filepath.Join(dir, strings.TrimPrefix(path, chartDir(t)))
		if err := os.MkdirAll(filepath.Dir(copied), 0o750); err != nil {
			return err
		}
		return os.WriteFile(copied, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "../../../rbac"} {
		if path != "" {
			if err := os.Mkdir(filepath.Join(dir, "files"), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "files", "rbac"), []byte(path), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := helm(t, "template", "fluence", dir, "--set", registry)
		if err == nil || !strings.Contains(err.Error(), "yaml: is missing") || !strings.Contains(err.Error(), "helm package") {
			t.Errorf("with %q in place of links Helm says %v", path, err)
		}
	}
}

func TestAPackageHoldsTheManifests(t *testing.T) {
	dir := t.TempDir()
	if out, err := helm(t, "package", chartDir(t), "--destination", dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packages, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %v, %v", packages, err)
	}
	args := []string{"template", "fluence", packages[0], "--namespace", "fluence-system", "--set", registry}
	got, err := helm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	want, err := template(t, "--set", registry)
	if err != nil {
		t.Fatal(err)
	}
	if line, ok := firstDifference(got, want); !ok {
		t.Errorf("the package renders other manifests than the folder\n%s", line)
	}
}
