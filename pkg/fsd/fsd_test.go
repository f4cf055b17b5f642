package fsd

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "250ms": 250 * time.Millisecond, "30s": 30 * time.Second,
		"30m": 30 * time.Minute, "2h": 2 * time.Hour, "1.5d": 36 * time.Hour, ".5h": 30 * time.Minute, "1e3s": 1000 * time.Second,
		"inf": Infinite, "INFINITY": Infinite,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "s", "x", "-1s", "+1s", "1 h", "1h30m", "0x10s", "1_0s", "nan", "infs", "1w", "1e12d", "9223372037", "1e400", "1H"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), text) || got != 0 {
			t.Errorf("Parse(%q) = %v, %v, want an error that names the value", text, got, err)
		}
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "inf": 0, "Infinity": 0, "90": 90 * time.Second, "1e-9s": 1, "36500d": 36500 * 24 * time.Hour} {
		if got, err := ParseLimit("spec.duration", text); err != nil || got != want {
			t.Errorf("ParseLimit(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"x":      `spec.duration: "x": must be a number`,
		"0":      `spec.duration: "0": must be more than 0`,
		"1e-10s": `spec.duration: "1e-10s": must be more than 0`,
		"36501d": `spec.duration: "36501d": must be at most 36500d`,
	} {
		if got, err := ParseLimit("spec.duration", text); err == nil || !strings.Contains(err.Error(), want) || got != 0 {
			t.Errorf("ParseLimit(%q) = %v, %v, want an error with %s", text, got, err, want)
		}
	}
}

// Whatever the text is, Parse answers with an error or with a duration that is not negative.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1.5d", "inf", "-0", "1e-400ms", "1e18", "9223372036.854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := Parse(text); d < 0 || err != nil && d != 0 {
			t.Errorf("Parse(%q) = %v, %v", text, d, err)
		}
	})
}
