package idset

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		text string
		want string
		none bool
	}{
		"nothing":                    {text: "", want: ""},
		"nothing in brackets":        {text: "[]", want: ""},
		"one":                        {text: "7", want: "7"},
		"zero":                       {text: "0", want: "0"},
		"a list, as RFC 22 has it":   {text: "1,2,3,5,6,42", want: "1-3,5-6,42"},
		"ranges, as RFC 22 has them": {text: "1-3,5-6,42", want: "1-3,5-6,42"},
		"brackets, as RFC 22 does":   {text: "[1-3,5-6,42]", want: "1-3,5-6,42"},
		"out of order":               {text: "5,1", want: "1,5"},
		"ranges that overlap":        {text: "1-5,3-9,9", want: "1-9"},
		"a range within another":     {text: "1-9,3-4,6", want: "1-9"},
		"ranges that meet":           {text: "1,2,3-4", want: "1-4"},
		"a range of one":             {text: "4-4", want: "4"},
		"18 digits":                  {text: "999999999999999998-999999999999999999", want: "999999999999999998-999999999999999999"},
		"19 digits":                  {text: "1000000000000000000", none: true},
		"one bracket":                {text: "[1-3", none: true},
		"the other bracket":          {text: "1-3]", none: true},
		"zeros in front":             {text: "01", none: true},
		"zeros at a range's end":     {text: "1-02", none: true},
		"negative":                   {text: "-1", none: true},
		"a blank":                    {text: "1, 2", none: true},
		"backwards":                  {text: "3-1", none: true},
		"no end":                     {text: "3-", none: true},
		"three ends":                 {text: "1-2-3", none: true},
		"an empty part":              {text: "1,,2", none: true},
		"hexadecimal":                {text: "0x1", none: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := Parse(tc.text)
			if (err != nil) != tc.none || s.String() != tc.want {
				t.Errorf("Parse(%q) = %v, %v, want %s, an error: %t", tc.text, s, err, tc.want, tc.none)
			}
		})
	}
}

func TestSetKnowsItsIDs(t *testing.T) {
	s := Of(9, 3, 4, 5, 4, 0)
	if want := (Set{{0, 0}, {3, 5}, {9, 9}}); !slices.Equal(s, want) {
		t.Fatalf("Of: %v, want %v", []Span(s), []Span(want))
	}
	want := []int64{0, 3, 4, 5, 9}
	if got := slices.Collect(s.All()); !slices.Equal(got, want) || s.Len() != int64(len(want)) {
		t.Errorf("All: %v, %d of them, want %v", got, s.Len(), want)
	}
	for id := int64(-1); id < 11; id++ {
		if s.Has(id) != slices.Contains(want, id) {
			t.Errorf("Has(%d) = %t", id, s.Has(id))
		}
	}
	for id := range s.All() {
		if id == 4 {
			break
		}
	}
}

// FuzzParse checks that what Parse accepts comes back from String as it was, in
// spans that ascend and do not meet.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "[]", "0,3-7", "5,1", "1-5,3-9,9", "[1-3,5-6,42]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		for i, span := range s {
			if span.First < 0 || span.Last < span.First || i > 0 && span.First <= s[i-1].Last+1 {
				t.Errorf("Parse(%q) = %v", text, []Span(s))
			}
		}
		again, err := Parse(s.String())
		if err != nil || !slices.Equal(again, s) {
			t.Errorf("Parse(%q) = %v, written %s, and again %v, %v", text, []Span(s), s, []Span(again), err)
		}
	})
}
