package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewest(t *testing.T) {
	b := &book{}
	b.session("a", 1, 2).run("x", 1, 10).run("y", 1, 10)
	b.session("a", 3, 2).run("x", 1, 30).run("y", 1, 30)
	b.session("a", 2, 2).run("x", 1, 20).run("y", 1, 20)
	b.session("a", 4, 2).run("x", 1, 40)
	b.session("b", 1, 2).run("x", 1, 50)
	got := map[string]float64{}
	for row, s := range Newest(b.results) {
		got[row] = s.Results[0].PodsPerSecond
	}
	// The last session of a, and the only one of b, lack runs.
	if diff := cmp.Diff(map[string]float64{"a": 30}, got); diff != "" {
		t.Errorf("Newest() (-want +got):\n%s", diff)
	}
}

func TestRatiosAreTakenWithinARepetition(t *testing.T) {
	b := &book{}
	b.session("a", 1, 8)
	b.bracket(0, 100)
	b.run("native", 1, 40).run("fluence", 1, 80).bracket(1, 300)
	b.run("native", 2, 20).run("fluence", 2, 100).bracket(2, 500)
	b.run("fluence", 3, 100)
	s := b.only()
	cases := map[string]struct {
		contender, other string
		want             []float64
	}{
		"to another contender": {contender: "fluence", other: "native", want: []float64{2, 5, 0}},
		// the mean of both brackets; after the third there is none
		"to the bracket":                {contender: "fluence", other: "ceiling", want: []float64{0.4, 0.25, 0.2}},
		"to one that there is not":      {contender: "fluence", other: "stock", want: []float64{0, 0, 0}},
		"of one that did not run again": {contender: "native", other: "fluence", want: []float64{0.5, 0.2, 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for i, want := range tc.want {
				got, ok := s.Ratio(Speed, tc.contender, tc.other, i+1)
				if got != want || ok != (want > 0) {
					t.Errorf("repetition %d: %v, %t, want %v", i+1, got, ok, want)
				}
			}
		})
	}
}

func TestNoise(t *testing.T) {
	b := &book{}
	// Runs between brackets may have any speed.
	b.session("a", 1, 7).bracket(0, 100).run("fluence", 1, 1000).bracket(1, 125)
	b.run("fluence", 2, 1000).bracket(2, 99).run("fluence", 3, 1000).bracket(3, 100)
	s := b.only()
	for repetition, want := range map[int]bool{0: false, 1: false, 2: true, 3: false, 4: false} {
		if got := s.Noisy(repetition); got != want {
			t.Errorf("Noisy(%d) = %t, want %t", repetition, got, want)
		}
	}
}

// The third repetition uses the runs that were made last.
func TestARepetitionThatWasMadeAgain(t *testing.T) {
	b := &book{}
	b.session("a", 1, 8).bracket(0, 100).run("x", 1, 1).bracket(1, 100)
	b.run("x", 2, 2).bracket(2, 50)
	runs := len(b.results)
	b.session("a", 1, 10).bracket(2, 200).run("x", 2, 4).bracket(2, 200).run("x", 3, 8).bracket(3, 200)
	s := b.only()
	if !s.Complete() {
		t.Errorf("not complete with %d runs of %d", len(s.Results), s.planned())
	}
	for i, want := range []float64{1, 4, 8} {
		if got, ok := s.Value(Speed, "x", i+1); !ok || got != want {
			t.Errorf("repetition %d: %v, %t, want %v", i+1, got, ok, want)
		}
		if s.Noisy(i + 1) {
			t.Errorf("repetition %d is noisy", i+1)
		}
	}
	if got := len(s.all("x")); got != 3 {
		t.Errorf("%d runs count, want 3", got)
	}
	s.Results = s.Results[:runs]
	if !s.Noisy(2) || s.Complete() {
		t.Errorf("before it was made again: noisy: %t, complete: %t, want the first alone", s.Noisy(2), s.Complete())
	}
}

func TestResultsComeBackFromTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	if got, err := Read(path); err != nil || got != nil {
		t.Errorf("Read() of no file = %v, %v", got, err)
	}
	b := &book{}
	b.session("a", 1, 2).bracket(0, 10).run("fluence", 1, 20).but(func(f *Figures) {
		f.CPU = map[string]float64{"etcd": 0.5}
		f.Gangs = &Gangs{Count: 500, P50: 0.25}
		f.Arrivals = []Arrival{{Name: "urgent-8", Pods: 8, First: 0.5}}
	})
	for _, r := range b.results {
		if err := Append(path, r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.results, got); diff != "" {
		t.Errorf("Read() (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("{}\n{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("Read() of half a line has no error")
	}
}
