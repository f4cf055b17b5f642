package reason_test

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

	"github.com/flux-k8s/fluence/pkg/reason"
)

// row matches a row of the table of all reasons: its first cell is one reason, as code.
var row = regexp.MustCompile("^\\| `([A-Za-z]+)` \\|(.*)\\|$")

// documented reads the table in docs/reasons.md. It returns
// the reasons in their order, and where each is reported.
func documented(t *testing.T) (reasons []string, where map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	where = map[string]string{}
	for line := range strings.Lines(string(text)) {
		found := row.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		cells := strings.Split(found[2], "|")
		if len(cells) != 4 || strings.TrimSpace(cells[1]) == "" {
			t.Errorf("the row of %s has cells %q, want where it is, what it means, what helps and whether waiting does", found[1], cells)
		}
		reasons = append(reasons, found[1])
		where[found[1]] = cells[0]
	}
	return reasons, where
}

// inProduct calls f with each node of the product's files below a folder.
func inProduct(t *testing.T, root string, f func(path string, n ast.Node)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			f(path, n)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// text returns the string of a node that is a string literal.
func text(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

func TestEveryReasonHasFacts(t *testing.T) {
	var declared []string
	inProduct(t, ".", func(_ string, n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return
		}
		for i, name := range spec.Names {
			if !name.IsExported() || i >= len(spec.Values) {
				continue
			}
			s, ok := text(spec.Values[i])
			if !ok || s != name.Name {
				t.Errorf("%s is %q, want a reason of its own name", name.Name, s)
			}
			declared = append(declared, s)
		}
	})
	if len(declared) < 20 {
		t.Fatalf("found %q only", declared)
	}
	for _, r := range declared {
		if !slices.Contains(reason.All(), r) {
			t.Errorf("properties.go has no entry for %s", r)
		}
	}
	for _, r := range reason.All() {
		if !slices.Contains(declared, r) {
			t.Errorf("properties.go has an entry for %s, which reason.go does not declare", r)
		}
	}
}

func TestEveryReasonIsDocumented(t *testing.T) {
	rows, _ := documented(t)
	for _, r := range reason.All() {
		if !slices.Contains(rows, r) {
			t.Errorf("docs/reasons.md has no row for the reason %s", r)
		}
	}
	for _, r := range rows {
		if !slices.Contains(reason.All(), r) {
			t.Errorf("docs/reasons.md has a row for %s, which is no reason", r)
		}
	}
	if once := slices.Compact(slices.Sorted(slices.Values(rows))); len(once) != len(rows) {
		t.Errorf("docs/reasons.md has a reason twice: %q", rows)
	}
}

// No other package spells out a reason, because its readers would not find it here.
func TestReasonsAreNamedHereAlone(t *testing.T) {
	for _, of := range []string{"group", "gang", "placement", "report", "fluence", "controller", "webhook", "cli", "simulate"} {
		inProduct(t, filepath.Join("..", of), func(path string, n ast.Node) {
			if field, ok := n.(*ast.KeyValueExpr); ok {
				name, _ := field.Key.(*ast.Ident)
				if s, ok := text(field.Value); ok && name != nil && strings.EqualFold(name.Name, "reason") {
					t.Errorf("%s gives %q as a reason: it belongs into pkg/reason", path, s)
				}
			}
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return
			}
			for _, name := range spec.Names {
				if len(spec.Values) > 0 && regexp.MustCompile(`^[Rr]eason[A-Z]`).MatchString(name.Name) {
					t.Errorf("%s declares %s: reasons are listed in pkg/reason", path, name.Name)
				}
			}
		})
	}
}

// Each reason is given somewhere. Otherwise users would wait for it.
func TestEveryReasonIsGiven(t *testing.T) {
	given := map[string]bool{}
	for _, of := range []string{"group", "gang", "placement", "report", "fluence", "controller", "cli"} {
		inProduct(t, filepath.Join("..", of), func(_ string, n ast.Node) {
			if use, ok := n.(*ast.SelectorExpr); ok {
				if from, ok := use.X.(*ast.Ident); ok && from.Name == "reason" {
					given[use.Sel.Name] = true
				}
			}
		})
	}
	// Its spelling is its name.
	for _, r := range reason.All() {
		if !given[r] {
			t.Errorf("nothing gives the reason %s", r)
		}
	}
}

func TestWhatFollowsFromAReason(t *testing.T) {
	if got := reason.PropertiesOf("of another scheduler"); got != (reason.Properties{}) {
		t.Errorf("of a reason that is not Fluence's follows %+v", got)
	}
	keepTurns := []string{
		reason.NoRoom, reason.Preempting, reason.Preempted, reason.NeverFits, reason.NodesRuledOut, reason.NodeRefused, reason.NotReserved, reason.Binding,
		reason.MatcherUnavailable, reason.TooHard, reason.Throttled, reason.MatchError,
	}
	lackRoom := []string{reason.NoRoom, reason.NeverFits}
	_, where := documented(t)
	for _, r := range reason.All() {
		of := reason.PropertiesOf(r)
		if strings.Contains(where[r], "`Scheduled=False`") && !of.Waits {
			t.Errorf("%s: a group is told it while it is not placed, and properties.go does not say that it waits", r)
		}
		if slices.Contains(keepTurns, r) != of.KeepsWaitingTime || slices.Contains(lackRoom, r) != of.LacksRoom {
			t.Errorf("%s: %+v: want those to keep their turn that wait for nodes or for an answer, and those to lack room that another node could help", r, of)
		}
		if (of.KeepsWaitingTime || of.LacksRoom) && !of.Waits {
			t.Errorf("%s: %+v: a group that does not wait keeps no turn and lacks no room", r, of)
		}
		if slices.Contains(reason.Waiting(), r) != of.Waits {
			t.Errorf("%s: it is among those with which a group waits: %t, want %t", r, !of.Waits, of.Waits)
		}
	}
}
