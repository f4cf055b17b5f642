package resource

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lastSecond is the last second of the year 9999, since the epoch.
const lastSecond = 253402300799

// representable reports whether t can be written in the seconds
// since the epoch of RFC 20, and read by other programs.
func representable(t time.Time) bool {
	return t.Unix() >= 0 && t.Unix() <= lastSecond
}

// epoch reports whether t is 0 in seconds since the epoch.
func epoch(t time.Time) bool { return t.Unix() == 0 && t.Nanosecond() == 0 }

// appendTime writes seconds since the epoch, with as many decimals as needed.
func appendTime(b []byte, t time.Time) []byte {
	b = strconv.AppendInt(b, t.Unix(), 10)
	ns := t.Nanosecond()
	if ns == 0 {
		return b
	}
	b = append(b, '.')
	for unit := int(time.Second / 10); ns > 0; unit /= 10 {
		b = append(b, '0'+byte(ns/unit))
		ns %= unit
	}
	return b
}

// parseTime reads seconds since the epoch. It reads decimals to the
// nanosecond. A number with an exponent is only as exact as a float.
func parseTime(text string) (time.Time, error) {
	if strings.ContainsAny(text, "eE-") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f < 0 || f >= lastSecond+1 {
			return time.Time{}, fmt.Errorf("%s: not a time from 1970 to 9999, in seconds", text)
		}
		sec := int64(f)
		return time.Unix(sec, int64((f-float64(sec))*1e9)).UTC(), nil
	}
	whole, fraction, _ := strings.Cut(text, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || sec > lastSecond {
		return time.Time{}, fmt.Errorf("%s: not a time from 1970 to 9999, in seconds", text)
	}
	fraction = (fraction + "000000000")[:9]
	ns, _ := strconv.ParseInt(fraction, 10, 64) // nine digits of a JSON number
	return time.Unix(sec, ns).UTC(), nil
}
