package reason

import "time"

// timeOfToday is the layout of RFC 3339 in UTC without the date.
const timeOfToday = "15:04:05Z"

// Time returns a time as messages have it, in UTC: 14:05:10Z if it is on the day of now, else 2026-11-26T14:05:10Z.
func Time(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(timeOfToday)
	}
	return at.Format(time.RFC3339)
}

// ParseTime returns the time that Time has returned at now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if _, err := time.Parse(timeOfToday, text); err == nil {
		text = now.UTC().Format(time.DateOnly) + "T" + text
	}
	return time.Parse(time.RFC3339, text)
}
