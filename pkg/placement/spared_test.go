package placement

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// Reservations that are to be spared are overlooked only by a second match, if the first one is refused. The second
// answer counts.
func TestSparedReservations(t *testing.T) {
	tooFew := &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooFew}}
	tooHard := &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: match.TooHard}}
	own, both := []match.JobID{1}, []match.JobID{1, 2}
	cases := map[string]struct {
		spared  []match.JobID
		answers []error
		ignored [][]match.JobID
	}{
		"there are none":              {answers: []error{tooFew}, ignored: [][]match.JobID{both}},
		"it fits beside them":         {spared: []match.JobID{2}, answers: []error{nil}, ignored: [][]match.JobID{own}},
		"it fits there alone":         {spared: []match.JobID{2}, answers: []error{tooHard, nil}, ignored: [][]match.JobID{own, both}},
		"it does not fit":             {spared: []match.JobID{2}, answers: []error{tooHard, tooFew}, ignored: [][]match.JobID{own, both}},
		"the matcher does not answer": {spared: []match.JobID{2}, answers: []error{match.ErrUnavailable}, ignored: [][]match.JobID{own}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := matchtest.NewFake()
			epoch, err := m.Reset(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range tc.answers {
				m.Answer(&match.Allocation{}, err)
			}
			p := NewPlacer(Config{Matcher: m, MatchTimeout: time.Minute})
			q := &attempt{
				budget:  NewBudget(t.Context(), time.Now, time.Now(), time.Minute),
				cluster: ClusterState{Epoch: epoch, Ignored: both, Spared: tc.spared},
			}
			want := tc.answers[len(tc.answers)-1]
			if _, err := p.match(t.Context(), q, match.Allocate, nil, nil); !errors.Is(err, want) {
				t.Errorf("match returns %v, want %v", err, want)
			}
			var got [][]match.JobID
			for i, c := range m.Calls(matchtest.Match) {
				got = append(got, c.Request.Ignore)
				if first := i == 0 && len(tc.spared) > 0; c.Request.Op != match.Allocate || c.Request.Terse != first {
					t.Errorf("match %d is %v, terse is %t", i, c.Request.Op, c.Request.Terse)
				}
			}
			if !slices.EqualFunc(got, tc.ignored, slices.Equal[[]match.JobID]) {
				t.Errorf("the matches ignore %v, want %v", got, tc.ignored)
			}
		})
	}
}
