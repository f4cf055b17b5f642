package jobspec

import (
	"math"
	"testing"
	"time"
)

func TestWholeNumber(t *testing.T) {
	cases := map[string]struct {
		text string
		want int64
		none bool
	}{
		"decimal":                     {text: "12", want: 12},
		"zero":                        {text: "0", want: 0},
		"hexadecimal":                 {text: "0x2", want: 2},
		"hexadecimal in capitals":     {text: "0XfF", want: 255},
		"octal":                       {text: "010", want: 8},
		"with a plus":                 {text: "+2", want: 2},
		"negative octal":              {text: "-010", want: -8},
		"blanks around it":            {text: " 2\n", want: 2},
		"the largest":                 {text: "9223372036854775807", want: math.MaxInt64},
		"one more than the largest":   {text: "9223372036854775808", none: true},
		"a fraction of nothing":       {text: "2.0", none: true},
		"an exponent":                 {text: "1e1", none: true},
		"a digit that octal lacks":    {text: "08", none: true},
		"hexadecimal without a digit": {text: "0x", none: true},
		"two signs":                   {text: "+-2", none: true},
		"a sign inside":               {text: "0x-2", none: true},
		"a sign alone":                {text: "-", none: true},
		"an underscore":               {text: "1_000", none: true},
		"binary":                      {text: "0b1", none: true},
		"an idset":                    {text: "1-2", none: true},
		"nothing":                     {text: "", none: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := wholeNumber(value{kind: kindText, text: tc.text})
			if (err != nil) != tc.none || got != tc.want {
				t.Errorf("wholeNumber(%q) = %d, %v, want %d, an error: %t", tc.text, got, err, tc.want, tc.none)
			}
		})
	}
}

func TestSeconds(t *testing.T) {
	cases := map[string]struct {
		text string
		want time.Duration
		none bool
	}{
		"whole":                              {text: "60", want: time.Minute},
		"a fraction":                         {text: "0.5", want: 500 * time.Millisecond},
		"without a whole part":               {text: ".5", want: 500 * time.Millisecond},
		"without the fraction":               {text: "5.", want: 5 * time.Second},
		"with a plus":                        {text: "+1.25", want: 1250 * time.Millisecond},
		"an exponent":                        {text: "1e2", want: 100 * time.Second},
		"years, to the nanosecond":           {text: "3153599999.123456789", want: MaxDuration - time.Second + 123456789},
		"finer than a nanosecond is more":    {text: "0.0000000001", want: 1},
		"finer by an exponent is more too":   {text: "1e-12", want: 1},
		"zeros beyond nanoseconds are zeros": {text: "0.0000000010000", want: 1},
		"minus nothing":                      {text: "-0", want: 0},
		"negative":                           {text: "-0.1", none: true},
		"not a number":                       {text: "nan", none: true},
		"hexadecimal":                        {text: "0x10", none: true},
		"a duration of Go":                   {text: "1h", none: true},
		"two points":                         {text: "1.2.3", none: true},
		"nothing":                            {text: "", none: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := seconds(value{kind: kindText, text: tc.text})
			if (err != nil) != tc.none || got != tc.want {
				t.Errorf("seconds(%q) = %d, %v, want %d, an error: %t", tc.text, got, err, tc.want, tc.none)
			}
		})
	}
}
