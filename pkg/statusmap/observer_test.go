package statusmap

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A reading is the ConfigMap at some time.
type reading struct {
	after time.Duration
	data  map[string]string
}

var start = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// says is the nth heartbeat of a standby.
func says(t *testing.T, name string, nth int, answers bool) map[string]string {
	t.Helper()
	text, err := Standby{Name: name, MatcherAnswers: answers, Updated: start.Add(time.Duration(nth) * HeartbeatInterval)}.Text()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{StandbyKey(name, "1"): text}
}

func TestWell(t *testing.T) {
	a := func(nth int, answers bool) map[string]string { return says(t, "a", nth, answers) }
	both := a(2, true)
	maps.Copy(both, says(t, "b", 2, true))
	cases := map[string]struct {
		readings []reading
		ask      time.Duration
		want     []string
	}{
		"nothing was read":                       {},
		"no standby":                             {readings: []reading{{0, nil}, {5 * time.Second, nil}}},
		"one that changed its word":              {readings: []reading{{0, a(1, true)}, {5 * time.Second, a(2, true)}}, ask: 5 * time.Second, want: []string{"a"}},
		"one that came since the last reading":   {readings: []reading{{0, nil}, {5 * time.Second, a(1, true)}}, ask: 5 * time.Second, want: []string{"a"}},
		"two":                                    {readings: []reading{{0, nil}, {5 * time.Second, both}}, ask: 5 * time.Second, want: []string{"a", "b"}},
		"one that was there before":              {readings: []reading{{0, a(1, true)}}},
		"one that was there and does not change": {readings: []reading{{0, a(1, true)}, {5 * time.Second, a(1, true)}}, ask: 5 * time.Second},
		"one that is stale":                      {readings: []reading{{0, nil}, {5 * time.Second, a(1, true)}, {25 * time.Second, a(1, true)}}, ask: 35 * time.Second},
		"one that is nearly stale":               {readings: []reading{{0, nil}, {5 * time.Second, a(1, true)}, {25 * time.Second, a(1, true)}}, ask: 34 * time.Second, want: []string{"a"}},
		"one whose matcher does not answer":      {readings: []reading{{0, a(1, true)}, {5 * time.Second, a(2, false)}}, ask: 5 * time.Second},
		"one that is gone":                       {readings: []reading{{0, nil}, {5 * time.Second, a(1, true)}, {10 * time.Second, nil}}, ask: 10 * time.Second},
		"one that changed while nobody read":     {readings: []reading{{0, a(1, true)}, {time.Minute, a(2, true)}}, ask: time.Minute},
		"one that cannot be read":                {readings: []reading{{0, nil}, {time.Second, map[string]string{StandbyKey("a", "1"): "{"}}}, ask: time.Second},
		"what is no standby's":                   {readings: []reading{{0, nil}, {time.Second, map[string]string{"standby": a(1, true)[StandbyKey("a", "1")]}}}, ask: time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var o Observer
			for _, r := range tc.readings {
				o.Update(r.data, start.Add(r.after))
			}
			var got []string
			for _, s := range o.HealthyStandbys(start.Add(tc.ask)) {
				got = append(got, s.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("standbys that are well (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMayHandOver(t *testing.T) {
	record := func(at time.Duration) map[string]string {
		text, err := Handover{From: "x", At: start.Add(at)}.Text()
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{HandoverKey: text}
	}
	broken := map[string]string{HandoverKey: "{"}
	cases := map[string]struct {
		readings []reading
		ask      time.Duration
		want     bool
	}{
		"there was none":                                    {readings: []reading{{0, nil}}, want: true},
		"one before the start, shortly":                     {readings: []reading{{0, record(-MinHandoverInterval + time.Second)}}},
		"one before the start, that long ago":               {readings: []reading{{0, record(-MinHandoverInterval)}}, want: true},
		"one before the start, in time":                     {readings: []reading{{0, record(-time.Minute)}}, ask: MinHandoverInterval - time.Minute, want: true},
		"one that came":                                     {readings: []reading{{0, nil}, {time.Second, record(time.Second)}}, ask: MinHandoverInterval},
		"one that came, in time":                            {readings: []reading{{0, nil}, {time.Second, record(time.Second)}}, ask: MinHandoverInterval + time.Second, want: true},
		"one that came from a machine whose clock is slow":  {readings: []reading{{0, nil}, {time.Second, record(-time.Hour)}}, ask: MinHandoverInterval},
		"one that was there, from a clock that is fast":     {readings: []reading{{0, record(time.Hour)}}, ask: MinHandoverInterval - time.Second},
		"the same, in time":                                 {readings: []reading{{0, record(time.Hour)}}, ask: MinHandoverInterval, want: true},
		"one that cannot be read":                           {readings: []reading{{0, broken}}, ask: MinHandoverInterval - time.Second},
		"the same that cannot be read, in time":             {readings: []reading{{0, broken}}, ask: MinHandoverInterval, want: true},
		"one that came while nobody read, and is not dated": {readings: []reading{{0, nil}, {time.Hour, record(time.Hour - time.Minute)}}, ask: time.Hour + MinHandoverInterval - time.Minute, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var o Observer
			for _, r := range tc.readings {
				o.Update(r.data, start.Add(r.after))
			}
			if got := o.MayHandOver(start.Add(tc.ask)); got != tc.want {
				t.Errorf("MayHandOver = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestGoneIsWhoSaysNothingForLong(t *testing.T) {
	var o Observer
	still := says(t, "still", 0, true)
	for at := time.Duration(0); at < StandbyTTL+HeartbeatInterval; at += HeartbeatInterval {
		data := says(t, "beats", int(at/HeartbeatInterval), true)
		maps.Copy(data, still)
		data[HandoverKey] = "{}"
		data["figures.json"] = "{}"
		o.Update(data, start.Add(at))
		var want []string
		if at >= StandbyTTL {
			want = []string{StandbyKey("still", "1")}
		}
		if diff := cmp.Diff(want, o.StaleKeys(start.Add(at)), cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Fatalf("gone after %s (-want +got):\n%s", at, diff)
		}
	}
}

func TestGoneIsBounded(t *testing.T) {
	var o Observer
	data := map[string]string{}
	for i := range 3 * maxStaleKeys {
		data[StandbyKey("crashes", fmt.Sprint(i))] = "{}"
	}
	o.Update(data, start)
	for n := 3 * maxStaleKeys; n > 0; {
		gone := o.StaleKeys(start.Add(StandbyTTL))
		if len(gone) == 0 || len(gone) > maxStaleKeys {
			t.Fatalf("%d keys are to be removed at once, want at most %d and at least one of %d", len(gone), maxStaleKeys, n)
		}
		for _, key := range gone {
			delete(data, key)
		}
		n -= len(gone)
		o.Update(data, start.Add(StandbyTTL))
	}
}

// The API server takes a key of letters, digits, '-', '_' and '.', of at most 253 characters.
func TestStandbyKey(t *testing.T) {
	cases := map[string]string{
		"fluence-scheduler-7d5-x2": "standby.fluence-scheduler-7d5-x2.id.json",
		"a b/ü":                    "standby.a-b--.id.json",
		strings.Repeat("n", 300):   "standby." + strings.Repeat("n", 63) + ".id.json",
		"":                         "standby..id.json",
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		if got := StandbyKey(name, "id"); got != cases[name] {
			t.Errorf("StandbyKey(%q) = %q, want %q", name, got, cases[name])
		}
	}
}
