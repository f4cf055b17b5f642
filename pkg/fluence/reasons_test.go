package fluence

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reasonRow is a row of the table of all reasons: its first cell is one in code.
var reasonRow = regexp.MustCompile("^\\| `([A-Za-z]+)` \\|(.*)\\|$")

// documentedReasons reads the table in docs/reasons.md.
func documentedReasons(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for line := range strings.Lines(string(text)) {
		row := reasonRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		if cells := strings.Split(row[2], "|"); len(cells) != 4 || strings.TrimSpace(cells[1]) == "" {
			t.Errorf("the row of %s has cells %q, want where it is, what it means, what helps and whether waiting does", row[1], cells)
		}
		reasons = append(reasons, row[1])
	}
	return reasons
}

// namedReasons lists the values of all constants of these packages that are called
// reasons.
func namedReasons(t *testing.T, root string) []string {
	t.Helper()
	named := regexp.MustCompile(`^[Rr]eason[A-Z]`)
	var reasons []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if !named.MatchString(name.Name) || i >= len(spec.Values) {
					continue
				}
				if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					value, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Errorf("%s: %v", path, err)
					}
					reasons = append(reasons, value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

func TestEveryReasonIsDocumented(t *testing.T) {
	documented, named := documentedReasons(t), namedReasons(t, "..")
	if len(named) < 20 {
		t.Fatalf("found %q only", named)
	}
	for _, r := range named {
		if !slices.Contains(documented, r) {
			t.Errorf("docs/reasons.md has no row for the reason %s", r)
		}
	}
	for _, r := range documented {
		if !slices.Contains(named, r) {
			t.Errorf("docs/reasons.md has a row for %s, which is no reason", r)
		}
	}
	if once := slices.Compact(slices.Sorted(slices.Values(documented))); len(once) != len(documented) {
		t.Errorf("docs/reasons.md has a reason twice: %q", documented)
	}
}
