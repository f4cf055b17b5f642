package hostlist

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
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
			list, err := Parse(tc.text)
			got := strings.Join(slices.Collect(list.Names()), " ")
			if (err != nil) != tc.none || got != tc.want {
				t.Errorf("Parse(%q) = %s, %v, want %s, an error: %t", tc.text, got, err, tc.want, tc.none)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	cases := map[string]struct {
		names []string
		want  string
	}{
		"one":                           {[]string{"a1"}, "a1"},
		"in a row":                      {[]string{"a1", "a2", "a3"}, "a[1-3]"},
		"with a gap":                    {[]string{"a1", "a2", "a9"}, "a[1-2,9]"},
		"in their own order":            {[]string{"a3", "a1", "a2"}, "a[3,1-2]"},
		"from one digit to two":         {[]string{"a9", "a10"}, "a[9-10]"},
		"zeros in front":                {[]string{"a08", "a09", "a10", "a100"}, "a[08-10,100]"},
		"zeros that others lack":        {[]string{"a08", "a9"}, "a08,a9"},
		"none that one has":             {[]string{"a8", "a09"}, "a8,a09"},
		"zero itself":                   {[]string{"a0", "a1"}, "a[0-1]"},
		"no numbers":                    {[]string{"login", "login"}, "login,login"},
		"another beginning":             {[]string{"a1", "b2", "b3", "a4"}, "a1,b[2-3],a4"},
		"numbers alone":                 {[]string{"1", "2"}, "[1-2]"},
		"a suffix is a name of its own": {[]string{"a1-x", "a2-x"}, "a1-x,a2-x"},
		"more digits than an id has":    {[]string{"a1234567890123456789", "a1234567890123456790"}, "a1234567890123456789,a1234567890123456790"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Encode(tc.names); got != tc.want {
				t.Errorf("Encode(%q) = %s, want %s", tc.names, got, tc.want)
			}
		})
	}
}

func TestCompareOrdersAllNames(t *testing.T) {
	order := []string{"", "7", "10", "a", "a1", "a2", "a02", "a10", "a-1", "a-1x", "a10b", "b", "b0"}
	for i, a := range order {
		for j, b := range order {
			if got, want := Compare(a, b), cmp.Compare(i, j); got != want {
				t.Errorf("Compare(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
}

// The test vectors of RFC 29.
func TestVectors(t *testing.T) {
	cases := map[string]string{
		"":               "",
		"foox,fooy,fooz": "foox,fooy,fooz",
		"[1-3,5-6]":      "1,2,3,5,6",
		"foo[1-5]":       "foo1,foo2,foo3,foo4,foo5",
		"foo[0-4]-eth2":  "foo0-eth2,foo1-eth2,foo2-eth2,foo3-eth2,foo4-eth2",
		"foo1,foo1,foo1": "foo1,foo1,foo1",
		"[00-02]":        "00,01,02",
		"[00-2]":         "00,01,02",
		"foo[1,1,2,1]":   "foo1,foo1,foo2,foo1",
		"a[005,4,11-13]": "a005,a004,a011,a012,a013",
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			list, err := Parse(text)
			if got := strings.Join(slices.Collect(list.Names()), ","); err != nil || got != want {
				t.Errorf("Parse(%q) = %s, %v, want %s", text, got, err, want)
			}
		})
	}
}

func TestLenStopsCounting(t *testing.T) {
	cases := map[string]struct {
		text       string
		most, want int
	}{
		"none":                    {"", 5, 0},
		"names and ranges":        {"a[0-2,7],b", 9, 5},
		"just as many":            {"a[0-4]", 5, 5},
		"one too many":            {"a[0-4],b", 5, 6},
		"far too many":            {"a[0-999999999999999999],b[0-999999999999999999]", 5, 6},
		"too many without ranges": {"a,b,c", 1, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			list, err := Parse(tc.text)
			if got := list.Len(tc.most); err != nil || got != tc.want {
				t.Errorf("Len(%d) of %s: %d, %v, want %d", tc.most, tc.text, got, err, tc.want)
			}
		})
	}
}

func TestSingle(t *testing.T) {
	for text, want := range map[string]bool{"a": true, "a-0.b": true, "~": true, "": false, "a,b": false, "a[0]": false, "a]": false, "a b": false, "ä": false} {
		if Single(text) != want {
			t.Errorf("Single(%q) = %t", text, !want)
		}
	}
}

// FuzzParse checks that the names of what Parse accepts come back from Encode in
// their order.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "a[005,4,11-13]-ib,login", "[00-2],9,10", "a[9-10],a8,a08,a1234567890123456789"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const most = 1 << 12
		list, err := Parse(text)
		if err != nil || list.Len(most) > most {
			return
		}
		names := slices.Collect(list.Names())
		if len(names) != list.Len(most) {
			t.Errorf("Parse(%q) has %d names and %q", text, list.Len(most), names)
		}
		again, err := Parse(Encode(names))
		if got := slices.Collect(again.Names()); err != nil || !slices.Equal(got, names) {
			t.Errorf("Parse(%q) = %q, written %s, and again %q, %v", text, names, Encode(names), got, err)
		}
	})
}
