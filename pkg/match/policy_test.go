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

// TestEveryPolicyIsInTheTable checks that each policy has a declared name and one line in the table
// that engines read.
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
		if p, ok := PolicyOf(name); !ok || p.Name != name || IsExclusive(name) != p.Exclusive {
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

// TestEachOrderIsTakenWholeAndNot checks that a group that changes between whole and shared nodes
// keeps its node order.
func TestEachOrderIsTakenWholeAndNot(t *testing.T) {
	for name, want := range map[string][2]string{
		PolicyFirst: {PolicyFirst, PolicyFirstnodex}, PolicyLow: {PolicyLow, PolicyLonodex}, PolicyHigh: {PolicyHigh, PolicyHinodex},
		PolicyLonode: {PolicyLonode, PolicyLonodex}, PolicyHinode: {PolicyHinode, PolicyHinodex},
		PolicyFirstnodex: {PolicyFirst, PolicyFirstnodex}, PolicyLonodex: {PolicyLonode, PolicyLonodex}, PolicyHinodex: {PolicyHinode, PolicyHinodex},
		"": {"", ""}, "no policy": {"no policy", "no policy"},
	} {
		if shared, whole := WithExclusive(name, false), WithExclusive(name, true); shared != want[0] || whole != want[1] {
			t.Errorf("of %q not whole is %q and whole %q, want %q", name, shared, whole, want)
		}
	}
	for _, name := range Policies() {
		of, _ := PolicyOf(name)
		for _, whole := range []bool{false, true} {
			if p, _ := PolicyOf(WithExclusive(name, whole)); p.Exclusive != whole || p.Order != of.Order {
				t.Errorf("of %q the table has no policy of the same order that takes nodes whole: %t", name, whole)
			}
		}
	}
}
