package jobspec

import (
	"slices"
	"strings"
	"testing"
)

func TestCompile(t *testing.T) {
	props := func(v ...string) Constraint { return Constraint{Op: OpProperties, Values: v} }
	hosts := func(v ...string) Constraint { return Constraint{Op: OpHostlist, Values: v} }
	ranks := func(v ...string) Constraint { return Constraint{Op: OpRanks, Values: v} }
	of := func(op string, args ...Constraint) Constraint { return Constraint{Op: op, Args: args} }
	yes, no := Constraint{}, of(OpNot)

	// The node in question: node07, rank 7, with the properties amd and zone.
	cases := map[string]struct {
		constraint Constraint
		want       bool
	}{
		"no condition":                      {Constraint{}, true},
		"a property that is there":          {props("amd"), true},
		"a property by its key only":        {props("zone"), true},
		"a property that is not there":      {props("intel"), false},
		"all properties have to be there":   {props("amd", "intel"), false},
		"absent as it should be":            {props("^intel", "amd"), true},
		"present though it should not be":   {props("^amd"), false},
		"no properties":                     {props(), true},
		"by name":                           {hosts("node07"), true},
		"by another name":                   {hosts("node7"), false},
		"in a range of names":               {hosts("x,node[01-12]"), true},
		"in the second of two hostlists":    {hosts("x", "node07"), true},
		"beyond a range of names":           {hosts("node[08-12]"), false},
		"of no names":                       {hosts(), false},
		"by rank":                           {ranks("7"), true},
		"in a range of ranks":               {ranks("0-3", "20,5-9"), true},
		"in the first of two sets of ranks": {ranks("5-9", "20"), true},
		"in ranges that meet":               {ranks("6-7,0-6"), true},
		"between ranges":                    {ranks("0-6,8"), false},
		"of no ranks":                       {ranks(), false},
		"and, where all hold":               {of(OpAnd, yes, yes), true},
		"and, where one does not":           {of(OpAnd, yes, no), false},
		"and of nothing":                    {of(OpAnd), true},
		"or, where one holds":               {of(OpOr, no, yes), true},
		"or, where none holds":              {of(OpOr, no, no), false},
		"or of nothing":                     {of(OpOr), false},
		"not, where all hold":               {of(OpNot, yes, yes), false},
		"not is true unless all hold":       {of(OpNot, yes, no), true},
		"not of nothing":                    {of(OpNot), false},
		"not one of these nodes":            {of(OpNot, hosts("node[01-06]")), true},
		"one of two kinds, not on one node": {of(OpAnd, of(OpOr, props("intel"), props("amd")), of(OpNot, hosts("node08"))), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			holds, err := tc.constraint.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if got := holds("node07", 7, map[string]string{"amd": "", "zone": "a"}); got != tc.want {
				t.Errorf("%+v holds: %t, want %t", tc.constraint, got, tc.want)
			}
		})
	}
}

func TestNilConstraintHoldsEverywhere(t *testing.T) {
	holds, err := (*Constraint)(nil).Compile()
	if err != nil || !holds("any", -1, nil) {
		t.Errorf("a nil constraint does not hold, or: %v", err)
	}
}

func TestNodeWithoutRankIsInNoSetOfRanks(t *testing.T) {
	holds, err := (&Constraint{Op: OpRanks, Values: []string{"0-5"}}).Compile()
	if err != nil || holds("any", -1, nil) {
		t.Errorf("rank -1 is taken for one of 0-5, or: %v", err)
	}
}

func TestConstraintValidate(t *testing.T) {
	deep := Constraint{}
	for range maxConstraintDepth {
		deep = Constraint{Op: OpNot, Args: []Constraint{deep}}
	}
	cases := map[string]struct {
		constraint Constraint
		want       string
	}{
		"operands without an operator":   {Constraint{Values: []string{"a"}}, "operands without an operator"},
		"texts where constraints belong": {Constraint{Op: OpAnd, Values: []string{"a"}}, "and: takes constraints, not texts"},
		"constraints where texts belong": {Constraint{Op: OpRanks, Args: []Constraint{{}}}, "ranks: takes texts, not constraints"},
		"nested without end":             {deep, "nested deeper than 64"},
		"names without end":              {Constraint{Op: OpHostlist, Values: []string{"a[0-999999]", "b[0-99999999999999999]"}}, `hostlist[1]: "b[0-99999999999999999]": more than 1048576 names in all hostlists`},
		"names that add up to too many":  {Constraint{Op: OpHostlist, Values: slices.Repeat([]string{"a[0-99999]"}, 11)}, `hostlist[10]: "a[0-99999]": more than 1048576 names in all hostlists`},
	}
	cases["names in several hostlists"] = struct {
		constraint Constraint
		want       string
	}{
		Constraint{Op: OpOr, Args: slices.Repeat([]Constraint{{Op: OpHostlist, Values: []string{"a[0-99999]"}}}, 11)},
		`or[10].hostlist[0]: "a[0-99999]": more than 1048576 names in all hostlists`,
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tc.constraint.Compile()
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("Compile: %v\nwant: %s", err, tc.want)
			}
		})
	}
}
