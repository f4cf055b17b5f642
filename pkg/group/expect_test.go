package group

import (
	"testing"
	"time"
)

func TestWhyNotExpect(t *testing.T) {
	cases := map[string]struct{ mode, label, annotation, want string }{
		"all":                         {mode: ExpectAll},
		"none":                        {mode: ExpectNone, annotation: ExpectTrue, want: "the argument expect of the scheduler is none"},
		"labelled, and it asks":       {mode: ExpectLabelled, annotation: ExpectTrue},
		"labelled, and it does not":   {mode: ExpectLabelled, want: `the argument expect of the scheduler is labelled, and the group has no annotation fluence.flux-framework.org/expect: "true"`},
		"labelled, and it asks wrong": {mode: ExpectLabelled, annotation: "yes", want: `the argument expect of the scheduler is labelled, and the annotation fluence.flux-framework.org/expect of the group is "yes": it has to be "true"`},
		"a namespace may":             {mode: ExpectNone, label: ExpectAll},
		"a namespace may not":         {mode: ExpectAll, label: ExpectNone, annotation: ExpectTrue, want: `the label fluence.flux-framework.org/expect of namespace ns is "none"`},
		"a namespace by annotation":   {mode: ExpectNone, label: ExpectLabelled, annotation: ExpectTrue},
		"a label that is no mode":     {mode: ExpectAll, label: "some", want: `the label fluence.flux-framework.org/expect of namespace ns is "some", and an administrator has to set it to one of all, labelled, none`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := WhyNotExpect(tc.mode, "ns", tc.label, tc.annotation); got != tc.want {
				t.Errorf("WhyNotExpect = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseExpectTime(t *testing.T) {
	const most = 5 * time.Minute
	cases := map[string]struct {
		value string
		want  time.Duration
		wrong string
	}{
		"none":       {"", most, ""},
		"shorter":    {"90s", 90 * time.Second, ""},
		"no time":    {"0s", 0, ""},
		"the same":   {"5m", most, ""},
		"longer":     {"6m", most, `annotation fluence.flux-framework.org/expect-timeout: "6m": must be a duration from 0s to 5m0s, as the scheduler has it, and is ignored`},
		"negative":   {"-1s", most, `annotation fluence.flux-framework.org/expect-timeout: "-1s": must be a duration from 0s to 5m0s, as the scheduler has it, and is ignored`},
		"not a time": {"soon", most, `annotation fluence.flux-framework.org/expect-timeout: "soon": must be a duration from 0s to 5m0s, as the scheduler has it, and is ignored`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseExpectTime(ExpectTimeoutAnnotation, tc.value, most)
			wrong := ""
			if err != nil {
				wrong = err.Error()
			}
			if got != tc.want || wrong != tc.wrong {
				t.Errorf("ParseExpectTime(%q) = %s, %q; want %s, %q", tc.value, got, wrong, tc.want, tc.wrong)
			}
		})
	}
}
