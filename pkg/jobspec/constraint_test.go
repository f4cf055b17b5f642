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

func TestHostlist(t *testing.T) {
	cases := map[string]struct {
		text string
		want string // names with blanks between; empty with none
		none bool
	}{
		"nothing":                         {text: "", want: ""},
		"names":                           {text: "foox,fooy,fooz", want: "foox fooy fooz"},
		"ids alone":                       {text: "[1-3,5-6]", want: "1 2 3 5 6"},
		"a suffix":                        {text: "foo[0-2]-eth2", want: "foo0-eth2 foo1-eth2 foo2-eth2"},
		"a name again":                    {text: "foo1,foo1", want: "foo1 foo1"},
		"ids again, out of order":         {text: "foo[1,1,2,1]", want: "foo1 foo1 foo2 foo1"},
		"zeros in front":                  {text: "[00-02]", want: "00 01 02"},
		"zeros in front of the first":     {text: "[00-2]", want: "00 01 02"},
		"zeros of the first are all's":    {text: "a[005,4,11-13]", want: "a005 a004 a011 a012 a013"},
		"a first without zeros":           {text: "a[9-10,011]", want: "a9 a10 a11"},
		"ranges and names together":       {text: "a[0-1],b,c[3]x", want: "a0 a1 b c3x"},
		"empty parts":                     {text: ",a,,b,", want: "a b"},
		"no closing bracket":              {text: "a[0-3", none: true},
		"no opening bracket":              {text: "a0-3]", none: true},
		"brackets the wrong way round":    {text: "a]0[", none: true},
		"brackets in the suffix":          {text: "a[0]b[1]", none: true},
		"no ids":                          {text: "a[]", none: true},
		"an id in letters":                {text: "a[x]", none: true},
		"a range without end":             {text: "a[3-]", none: true},
		"a range that runs backwards":     {text: "a[3-1]", none: true},
		"an id of too many digits":        {text: "a[1234567890123456789]", none: true},
		"a blank":                         {text: "a b", none: true},
		"letters that are not ASCII":      {text: "ä", none: true},
		"a comma inside brackets goes on": {text: "a[1,2", none: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			list, err := parseHostlist(tc.text)
			got := strings.Join(slices.Collect(list.names()), " ")
			if (err != nil) != tc.none || got != tc.want {
				t.Errorf("parseHostlist(%q) = %s, %v, want %s, an error: %t", tc.text, got, err, tc.want, tc.none)
			}
		})
	}
}

func TestIDSet(t *testing.T) {
	cases := map[string]struct {
		text string
		want idset
		none bool
	}{
		"nothing":                {text: "", want: nil},
		"one":                    {text: "7", want: idset{{7, 7}}},
		"ranges":                 {text: "1-3,5-6,42", want: idset{{1, 3}, {5, 6}, {42, 42}}},
		"brackets":               {text: "[1-3]", want: idset{{1, 3}}},
		"out of order":           {text: "5,1", want: idset{{1, 1}, {5, 5}}},
		"ranges that overlap":    {text: "1-5,3-9,9", want: idset{{1, 9}}},
		"ranges that meet":       {text: "1,2,3-4", want: idset{{1, 4}}},
		"one bracket":            {text: "[1-3", none: true},
		"zeros in front":         {text: "01", none: true},
		"zeros at a range's end": {text: "1-02", none: true},
		"negative":               {text: "-1", none: true},
		"a blank":                {text: "1, 2", none: true},
		"backwards":              {text: "3-1", none: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := parseIDSet(nil, tc.text)
			got := set.merged()
			if (err != nil) != tc.none || !slices.Equal(got, tc.want) {
				t.Errorf("parseIDSet(%q) = %v, %v, want %v, an error: %t", tc.text, got, err, tc.want, tc.none)
			}
		})
	}
}
