package group

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "inf": 0, "30m": 30 * time.Minute, "1.5d": 36 * time.Hour, "90": 90 * time.Second, "36500d": 36500 * 24 * time.Hour} {
		if got, err := ParseDuration(value); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", value, got, err, want)
		}
	}
	for _, value := range []string{"0", "0.1e-9s", "-1s", "x", "1e12", "36501d", "1h30m"} {
		if got, err := ParseDuration(value); got != 0 || err == nil || !strings.Contains(err.Error(), DurationAnnotation) || !strings.Contains(err.Error(), value) {
			t.Errorf("ParseDuration(%q) = %v, %v, want an error that names the annotation and the value", value, got, err)
		}
	}
}
