package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// TestMatchCallsItsStepsInOrder reads the steps of a match in its source, because a part of
// their order has no effect that a test can see. For instance, a placement searched for before the job
// is looked up would only waste work.
func TestMatchCallsItsStepsInOrder(t *testing.T) {
	for method, want := range map[string][]string{
		"match": {"existingJob", "checkIgnored", "Expire", "find", "Cancel", "Add", "Release", "Book"},
		"find":  {"keepMore", "Ignore", "defer restoreJobs", "defer Expect", "defer Ignore", "place"},
	} {
		steps := append(slices.Clone(want), "restoreJobs", "Expect")
		if got := callsOf(t, "store_backend.go", "storeBackend", method, steps); !slices.Equal(got, want) {
			t.Errorf("%s takes the steps\n%q, want\n%q", method, got, want)
		}
	}
}

// callsOf lists the calls of some functions in a method, in their order.
func callsOf(t *testing.T, file, receiver, method string, wanted []string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	deferred := map[*ast.CallExpr]bool{}
	ast.Inspect(bodyOf(t, f, receiver, method), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt:
			deferred[n.Call] = true
			if made, ok := n.Call.Fun.(*ast.CallExpr); ok { // the result of the call is deferred
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
			case !slices.Contains(wanted, called):
			case deferred[n]:
				calls = append(calls, "defer "+called)
			default:
				calls = append(calls, called)
			}
		}
		return true
	})
	return calls
}

// bodyOf returns the body of a method.
func bodyOf(t *testing.T, f *ast.File, receiver, method string) *ast.BlockStmt {
	t.Helper()
	for _, d := range f.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok || d.Name.Name != method || d.Recv == nil {
			continue
		}
		if star, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok {
			if name, ok := star.X.(*ast.Ident); ok && name.Name == receiver {
				return d.Body
			}
		}
	}
	t.Fatalf("%s has no method %s", receiver, method)
	return nil
}
