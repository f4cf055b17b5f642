// Package fsd reads Flux Standard Durations (Flux RFC 23): "30m", "1.5d", "90", "infinity".
package fsd

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Infinite is the duration that has no end.
const Infinite time.Duration = math.MaxInt64

// maxLimit is the longest time limit. Ends beyond it say nothing, and not all times can be written.
const maxLimit = 100 * 365 * 24 * time.Hour

// units are the suffixes of RFC 23.
var units = []struct {
	suffix string
	unit   time.Duration
}{
	// ms before s: the longer suffix counts.
	{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
}

// Parse reads a duration: a decimal number that is not negative, and perhaps one of the suffixes ms, s, m, h and d.
// Without a suffix the unit is the second. The words inf and infinity, in any case, are Infinite. The error names the value.
func Parse(text string) (time.Duration, error) {
	if strings.EqualFold(text, "inf") || strings.EqualFold(text, "infinity") {
		return Infinite, nil
	}
	number, unit := text, time.Second
	for _, u := range units {
		if n, has := strings.CutSuffix(text, u.suffix); has {
			number, unit = n, u.unit
			break
		}
	}
	// ParseFloat also reads hexadecimal numbers, words and signs, which are no numbers here.
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.Trim(number, "0123456789.eE+-") != "" || number[0] == '-' || number[0] == '+' {
		return 0, fmt.Errorf("%q: must be a number of at least 0, with one of the suffixes ms, s, m, h, d or without one for seconds", text)
	}
	if n *= float64(unit); n >= float64(Infinite) {
		return 0, fmt.Errorf("%q: more than 292 years; write infinity for a time without an end", text)
	}
	return time.Duration(math.Round(n)), nil
}

// ParseLimit reads a duration that is a time limit. It returns 0 if there is no limit: for an empty text and for Infinite. A
// limit is more than 0, and at most 36500d. The error names the field and the value in words fit for a user.
func ParseLimit(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := Parse(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", field, err)
	case d == Infinite:
		return 0, nil
	case d <= 0:
		return 0, fmt.Errorf("%s: %q: must be more than 0; inf is a time without an end", field, text)
	case d > maxLimit:
		return 0, fmt.Errorf("%s: %q: must be at most 36500d; inf is a time without an end", field, text)
	}
	return d, nil
}
