package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// TestTheStepsOfAMatchStandInTheirOrder reads the steps of a match in its source. Some of their
// order cannot be seen from outside: an expected slot, for instance, would come too early for a
// job that holds something already, at the price of work that nobody counts.
func TestTheStepsOfAMatchStandInTheirOrder(t *testing.T) {
	steps := []string{"ignore", "holder", "expect", "expire", "overlook", "place", "restore", "withdraw", "promise", "book"}
	inside := []string{"give"} // what a step calls in its turn
	got := callsOf(t, "matchNow", steps, inside)
	want := []string{
		"ignore", "defer restore", "holder", "defer expect", "expire", "overlook", "place", "restore", "withdraw", "promise", "book",
	}
	if !slices.Equal(got, want) {
		t.Errorf("a match takes the steps\n%q, want\n%q", got, want)
	}
}

// callsOf lists the calls that a function of this package makes of some others, in the order in
// which they stand, and in place of a call of one that is inside the calls that this makes.
func callsOf(t *testing.T, function string, wanted, inside []string) []string {
	t.Helper()
	product := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	packages, err := parser.ParseDir(token.NewFileSet(), ".", product, 0) //nolint:staticcheck // build tags do not matter here
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]*ast.BlockStmt{}
	for _, p := range packages {
		for _, f := range p.Files {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					bodies[d.Name.Name] = d.Body
				}
			}
		}
	}
	var calls []string
	var read func(name string)
	read = func(name string) {
		if bodies[name] == nil {
			t.Fatalf("there is no function %s", name)
		}
		deferred := map[*ast.CallExpr]bool{}
		ast.Inspect(bodies[name], func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.DeferStmt:
				deferred[n.Call] = true
				if made, ok := n.Call.Fun.(*ast.CallExpr); ok { // what the call returned is deferred
					deferred[made] = true
				}
			case *ast.CallExpr:
				called := ""
				switch f := n.Fun.(type) {
				case *ast.Ident:
					called = f.Name
				case *ast.SelectorExpr:
					called = f.Sel.Name
				}
				switch {
				case slices.Contains(inside, called):
					read(called)
				case !slices.Contains(wanted, called):
				case deferred[n]:
					calls = append(calls, "defer "+called)
				default:
					calls = append(calls, called)
				}
			}
			return true
		})
	}
	read(function)
	return calls
}
