package house

import (
	"cmp"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the packages for readers. Every other package that lists its files is checked too.
var rooms = []string{"pkg/engine", "pkg/engine/demand", "pkg/engine/solver", "pkg/engine/store", "pkg/fluence", "pkg/gang", "pkg/bindqueue", "pkg/group", "pkg/placement", "pkg/placement/interpod", "pkg/reason", "pkg/report"}

const (
	// mostBack is the greatest percentage of uses of other files that may be back arrows.
	mostBack = 10
	// mostFields is the greatest number of fields of a type, and mostMethods of its methods.
	mostFields, mostMethods = 15, 30
)

// flat are the types that may have more fields, and why.
var flat = map[string]string{"pkg/fluence.Args": "an administrator writes one for each argument"}

var suggest = flag.String("suggest", "", "the folder, below the repository's, of a package for which an order of files is to be suggested")

const root = "../.."

func TestReadersAreLedThroughTheRooms(t *testing.T) {
	for _, path := range listed(t) {
		t.Run(path, func(t *testing.T) {
			r, err := Read(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			checkList(t, r)
			back, all, arrows := r.Back(r.Listed)
			t.Logf("%d files, %d of %d uses are back arrows", len(r.Files), back, all)
			if 100*back > mostBack*all {
				t.Errorf("%d of %d uses of other files are of what stands later, more than %d %%:", back, all, mostBack)
				for _, a := range slices.SortedFunc(maps.Keys(arrows), func(x, y Arrow) int { return cmp.Compare(arrows[y], arrows[x]) }) {
					t.Errorf("%4d  %s uses %s", arrows[a], a.From, a.To)
				}
			}
			for name, n := range r.Fields {
				if n > mostFields && flat[path+"."+name] == "" {
					t.Errorf("%s has %d fields, more than %d", name, n, mostFields)
				}
			}
			for name, n := range r.Methods {
				if n > mostMethods {
					t.Errorf("%s has %d methods, more than %d", name, n, mostMethods)
				}
			}
		})
	}
}

// checkList fails if a package's comment does not list each file once.
func checkList(t *testing.T, r *Room) {
	t.Helper()
	seen := map[string]bool{}
	for _, name := range r.Listed {
		if seen[name] {
			t.Errorf("the package's comment lists %s twice", name)
		}
		if seen[name] = true; !slices.Contains(r.Files, name) {
			t.Errorf("the package's comment lists %s, which is not there", name)
		}
	}
	for _, name := range r.Files {
		// doc.go contains the comment itself.
		if !seen[name] && name != "doc.go" {
			t.Errorf("the package's comment does not list %s", name)
		}
	}
}

// listed returns the folders of the rooms, and of all other packages that list their files.
func listed(t *testing.T) []string {
	t.Helper()
	found := slices.Clone(rooms)
	for _, top := range []string{"cmd", "pkg", "sidecar", "test"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !product(e) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			// The package comment is before the package clause.
			comment, _, _ := strings.Cut(string(text), "\npackage ")
			if line.MatchString(strings.ReplaceAll(comment, "\n//\t", "\n\t")) {
				dir, err := filepath.Rel(root, filepath.Dir(path))
				if err != nil {
					return err
				}
				found = append(found, filepath.ToSlash(dir))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestSuggest prints an order of files: go test ./test/house -run Suggest -v -suggest pkg/engine.
func TestSuggest(t *testing.T) {
	if *suggest == "" {
		t.Skip("no package is named")
	}
	r, err := Read(filepath.Join(root, *suggest))
	if err != nil {
		t.Fatal(err)
	}
	order := r.Suggest()
	back, all, arrows := r.Back(order)
	t.Logf("%d of %d uses are back arrows in the order\n%s", back, all, strings.Join(order, "\n"))
	for _, a := range slices.SortedFunc(maps.Keys(arrows), func(x, y Arrow) int { return cmp.Compare(arrows[y], arrows[x]) }) {
		t.Logf("%4d  %s uses %s", arrows[a], a.From, a.To)
	}
	for name, n := range r.Fields {
		if m := r.Methods[name]; n > mostFields || m > mostMethods {
			t.Logf("%s has %d fields and %d methods", name, n, m)
		}
	}
}

func TestABackArrowLeadsToALaterFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "// Package p is one.\n//\n//\ta.go  first?\n//\tb.go  second?\npackage p\n\ntype A struct{ x int }\n",
		"b.go": "package p\n\nfunc (a *A) b() int { local := a.x; return local + later }\n",
		"c.go": "package p\n\nconst later = 1\n\nvar _ = (*A).b\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Listed, []string{"a.go", "b.go"}) || !slices.Equal(r.Files, []string{"a.go", "b.go", "c.go"}) {
		t.Errorf("the comment lists %q, there are %q", r.Listed, r.Files)
	}
	want := map[Arrow]int{{"b.go", "a.go"}: 2, {"b.go", "c.go"}: 1, {"c.go", "a.go"}: 1, {"c.go", "b.go"}: 1}
	if !maps.Equal(r.Uses, want) {
		t.Errorf("the files use each other %v, want %v", r.Uses, want)
	}
	if back, all, arrows := r.Back([]string{"a.go", "b.go", "c.go"}); back != 1 || all != 5 || arrows[Arrow{"b.go", "c.go"}] != 1 {
		t.Errorf("Back() = %d, %d, %v, want 1 of 5, from b to c", back, all, arrows)
	}
	if r.Fields["A"] != 1 || r.Methods["A"] != 1 {
		t.Errorf("A has %d fields and %d methods, want 1 and 1", r.Fields["A"], r.Methods["A"])
	}
	if back, _, _ := r.Back(r.Suggest()); back != 0 && back != 1 {
		t.Errorf("the suggested order has %d back arrows", back)
	}
}
