package match

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A policy has a name that is declared, and one line in the table that engines go by.
func TestEveryPolicyIsInTheTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "policy.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Policy") {
			text, ok := v.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is no text", v.Names[0].Name)
			}
			name, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, name)
		}
		return true
	})
	var listed []string
	for _, p := range policies {
		listed = append(listed, p.Name)
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(listed, declared) {
		t.Errorf("the table of policies has\n%q, declared are\n%q", listed, declared)
	}
	for _, name := range declared {
		if p, ok := PolicyOf(name); !ok || p.Name != name || TakesWhole(name) != p.Whole {
			t.Errorf("PolicyOf(%q) = %+v, %v", name, p, ok)
		}
	}
	if _, ok := PolicyOf(""); ok {
		t.Error("no name is one of a policy")
	}
}

func TestPoliciesAreAFewOfGraphPolicies(t *testing.T) {
	if got, want := Policies(), []string{"first", "low", "high", "lonode", "hinode", "firstnodex", "lonodex", "hinodex"}; !slices.Equal(got, want) {
		t.Errorf("Policies() = %q, want %q", got, want)
	}
	if got, want := GraphPolicies(), append(Policies(), "locality", "variation"); !slices.Equal(got, want) {
		t.Errorf("GraphPolicies() = %q, want %q", got, want)
	}
}
