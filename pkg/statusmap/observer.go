package statusmap

import (
	"encoding/json"
	"slices"
	"time"
)

// An Observer follows the ConfigMap from reading to reading, and tells by the clock of
// the reader how old a word is: clocks of two machines are not compared for that. A word
// that stood there at the first reading has no age, and counts for nothing before it has
// changed. The zero Observer has read nothing. It is not safe for concurrent use.
type Observer struct {
	read time.Time
	keys map[string]sight
}

// A sight is what stands under a key.
type sight struct {
	text string
	// at is when this text was first read, and dated says that it cannot have been there
	// for much longer.
	at    time.Time
	dated bool
}

// Update takes note of the data of the ConfigMap as it is now. It is to be called more often
// than words go stale: what changed while nobody read for as long as Fresh has no age.
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

// HealthyStandbys lists the standbys that said lately that their matcher answers, by their keys.
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

// maxStaleKeys bounds how many keys are removed at once.
const maxStaleKeys = 32

// StaleKeys lists keys of standbys that have said nothing for as long as Gone.
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

// LastHandover returns the last handover; false if there was none, or what stands there cannot
// be read.
func (o *Observer) LastHandover() (Handover, bool) {
	var h Handover
	k, ok := o.keys[HandoverKey]
	ok = ok && json.Unmarshal([]byte(k.text), &h) == nil && !h.At.IsZero()
	return h, ok
}

// MayHandOver says whether the last handover is Between ago. Of one that this reader saw
// come it knows when that was; of one that was there before it goes by what is written,
// but for a time to come, which it takes for the time of the first reading. One that was written and
// not made counts, too: that it was not made cannot be told from a scheduler that leads again.
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
