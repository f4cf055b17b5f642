package statusmap

import (
	"encoding/json"
	"slices"
	"time"
)

// An Observer follows the ConfigMap from reading to reading. It measures the age of each
// entry by the clock of the reader, so that the clocks of two machines are not compared.
// An entry that exists at the first reading has no known age, and does not count until
// it changes. The zero Observer has read nothing. It is not safe for concurrent use.
type Observer struct {
	read time.Time
	keys map[string]sight
}

// A sight is the entry under a key.
type sight struct {
	text string
	// at is when this text was first read.
	at time.Time
	// dated is true if the text was written shortly
	// before at, because the reading before was recent.
	dated bool
}

// Update reads the data of the ConfigMap. It must be called more often than once in
// HeartbeatTimeout: after a longer gap, entries that have changed have no known age.
func (o *Observer) Update(data map[string]string, now time.Time) {
	follows := !o.read.IsZero() && now.Sub(o.read) < HeartbeatTimeout
	keys := make(map[string]sight, len(o.keys))
	for key, text := range data {
		if key != HandoverKey && !isStandby(key) {
			continue
		}
		before, known := o.keys[key]
		if known && before.text == text {
			keys[key] = before
			continue
		}
		keys[key] = sight{text: text, at: now, dated: follows}
	}
	o.keys, o.read = keys, now
}

// HealthyStandbys returns the standbys whose last heartbeat is
// recent and reports that their matcher answers, sorted by key.
func (o *Observer) HealthyStandbys(now time.Time) []Standby {
	var well []Standby
	for _, key := range o.standbys() {
		var s Standby
		if k := o.keys[key]; k.dated && now.Sub(k.at) < HeartbeatTimeout && json.Unmarshal([]byte(k.text), &s) == nil && s.MatcherAnswers {
			well = append(well, s)
		}
	}
	return well
}

// maxStaleKeys bounds how many keys are removed at a time.
const maxStaleKeys = 32

// StaleKeys returns keys of standbys without a heartbeat for StandbyTTL.
func (o *Observer) StaleKeys(now time.Time) []string {
	gone := slices.DeleteFunc(o.standbys(), func(key string) bool { return now.Sub(o.keys[key].at) < StandbyTTL })
	return gone[:min(len(gone), maxStaleKeys)]
}

func (o *Observer) standbys() []string {
	var keys []string
	for key := range o.keys {
		if isStandby(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// LastHandover returns the last handover. It returns false
// if there was none, or if its entry cannot be read.
func (o *Observer) LastHandover() (Handover, bool) {
	var h Handover
	k, ok := o.keys[HandoverKey]
	ok = ok && json.Unmarshal([]byte(k.text), &h) == nil && !h.At.IsZero()
	return h, ok
}

// MayHandOver reports whether the last handover was at least MinHandoverInterval
// ago. If this reader saw the entry appear, the handover was at that time. If the
// entry is older, the handover was at the time written in it, or at the first
// reading if that time is later. A handover that was written but not carried out
// counts too, because it looks the same as a scheduler that leads again.
func (o *Observer) MayHandOver(now time.Time) bool {
	k, ok := o.keys[HandoverKey]
	if !ok {
		return true
	}
	at := k.at
	if last, ok := o.LastHandover(); ok && !k.dated && last.At.Before(at) {
		at = last.At
	}
	return now.Sub(at) >= MinHandoverInterval
}
