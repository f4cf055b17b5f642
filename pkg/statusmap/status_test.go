package statusmap

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func some() Status {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	return Status{
		Epoch: 7, WhyNotLoaded: "no such type", Nodes: 16, PodsWithRoom: 12, Drift: 1, MatcherAnswers: true, LastMatch: &at,
		GroupsByPhase:   map[string]int{"held": 3, "complete": 1},
		WaitingByReason: map[string]int{"NoRoom": 1},
		Leader:          "fluence-scheduler-0", Version: "v1.2.3", Updated: at.Add(time.Minute),
	}
}

func TestFiguresComeBackAsTheyWereWritten(t *testing.T) {
	data, err := some().Data()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(some(), got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	cases := map[string]struct {
		data map[string]string
		want string
	}{
		"no data":             {want: `no key "figures.json"`},
		"what is no JSON":     {data: map[string]string{"figures.json": "{"}, want: `data "figures.json"`},
		"what is no number":   {data: map[string]string{"figures.json": `{"nodes": "many"}`}, want: "nodes"},
		"only something else": {data: map[string]string{"other": "{}"}, want: `no key "figures.json"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if f, err := Read(tc.data); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Read = %+v, %v; want an error with %q", f, err, tc.want)
			}
		})
	}
}

func TestReadLeavesOutWhatItDoesNotKnow(t *testing.T) {
	f, err := Read(map[string]string{"figures.json": `{"nodes": 2, "mood": "fine"}`})
	if err != nil || f.Nodes != 2 {
		t.Errorf("Read = %+v, %v; want 2 nodes", f, err)
	}
}

func TestFiguresAreTheSameButForTheTimeOfWriting(t *testing.T) {
	later := some()
	later.Updated = later.Updated.Add(time.Hour)
	if !some().Same(later) {
		t.Error("figures differ that were written later")
	}
	// Each other field counts.
	typ := reflect.TypeFor[Status]()
	for i := range typ.NumField() {
		field := typ.Field(i)
		if field.Name == "Updated" {
			continue
		}
		other := some()
		reflect.ValueOf(&other).Elem().Field(i).SetZero()
		if some().Same(other) || other.Same(some()) {
			t.Errorf("figures are the same though %s differs", field.Name)
		}
	}
}
