package jobspec

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxDuration is the longest time that a job may ask for:
// 100 years, the lifetime that Fluxion gives a graph.
const MaxDuration = 3153600000 * time.Second

// wholeNumber reads a number as a C++ stream does in Fluxion: +2 is 2, 0x2 is 2 and
// 010 is 8. Blanks around the number are ignored. 2.0 and 1e1 are not whole numbers.
func wholeNumber(v value) (int64, error) {
	text, err := v.scalar()
	if err != nil {
		return 0, faultAt(v, "%v: not a whole number", v)
	}
	digits := strings.Trim(text, " \t\n\v\f\r")
	sign := ""
	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		sign, digits = digits[:1], digits[1:]
	}
	base := 10
	switch {
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0X"):
		base, digits = 16, digits[2:]
	case len(digits) > 1 && digits[0] == '0':
		base, digits = 8, digits[1:]
	}
	if digits == "" || digits[0] == '+' || digits[0] == '-' {
		return 0, faultAt(v, "%v: not a whole number", v)
	}
	n, err := strconv.ParseInt(sign+digits, base, 64)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, strconv.ErrRange):
		return 0, faultAt(v, "%v: a number beyond 64 bits", v)
	}
	return 0, faultAt(v, "%v: not a whole number", v)
}

// seconds reads a time in seconds, which may have a fraction. Fractions of a
// nanosecond are rounded up, because a result of 0 would mean no known end.
func seconds(v value) (time.Duration, error) {
	text, err := v.scalar()
	if err != nil {
		return 0, faultAt(v, "%v: not a number of seconds", v)
	}
	digits := strings.Trim(text, " \t\n\v\f\r")
	if digits == "" || strings.Trim(digits, "0123456789.eE+-") != "" {
		return 0, faultAt(v, "%v: not a number of seconds", v)
	}
	f, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, faultAt(v, "%v: not a number of seconds", v)
	case f < 0:
		return 0, faultAt(v, "%v: a negative number of seconds", v)
	case f > MaxDuration.Seconds():
		return 0, faultAt(v, "%v: more than %d seconds", v, int64(MaxDuration/time.Second))
	}
	if d, ok := exactSeconds(digits); ok {
		return d, nil
	}
	return time.Duration(math.Ceil(f * float64(time.Second))), nil
}

// exactSeconds reads a plain decimal number of seconds to the nanosecond, because
// a float cannot hold the nanoseconds of more than some months. The caller has
// checked the range. It returns false if the text is not a plain decimal number.
func exactSeconds(text string) (time.Duration, bool) {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "+"), ".")
	if strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false
	}
	finer := ""
	if len(fraction) > 9 {
		fraction, finer = fraction[:9], fraction[9:]
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
	if err != nil {
		return 0, false
	}
	if strings.Trim(finer, "0") != "" {
		n++
	}
	return time.Duration(n), true
}
