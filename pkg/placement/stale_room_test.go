package placement

import (
	"errors"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// A second match without the pods that have ended is made only if it can change the answer.
// It books nothing. A refusal that needs no other room names no reservation.
func TestStaleRoom(t *testing.T) {
	refusal := func(code match.Code) error {
		return &match.Refusal{Err: match.ErrBusy, Reason: match.Reason{Code: code}}
	}
	tooFew := refusal(match.TooFew)
	cases := map[string]struct {
		ended   int
		answers []error
		want    error
	}{
		"it fits":                {ended: 1, answers: []error{nil}},
		"nobody has ended":       {answers: []error{tooFew}, want: tooFew},
		"it does not fit at all": {ended: 1, answers: []error{tooFew, tooFew}, want: tooFew},
		"only stale room":        {ended: 1, answers: []error{tooFew, nil}, want: errOnlyStaleRoom},
		"it is too hard":         {ended: 1, answers: []error{refusal(match.TooHard)}, want: match.ErrBusy},
		"it was overtaken":       {ended: 1, answers: []error{refusal(match.Overtaken)}, want: match.ErrBusy},
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
				cluster: ClusterState{Epoch: epoch, Ended: make([]match.Slot, tc.ended), Reserved: Reservations{Nodes: []string{"n1"}, Turns: []gang.Turn{{}}}},
			}
			if _, err := p.match(t.Context(), q, match.Allocate, nil, nil); !errors.Is(err, tc.want) {
				t.Errorf("match returns %v, want %v", err, tc.want)
			}
			got := m.Calls(matchtest.Match)
			if len(got) != len(tc.answers) {
				t.Fatalf("%d matches, want %d", len(got), len(tc.answers))
			}
			if n := len(got[0].Request.Expected); got[0].Request.Op != match.Allocate || n != tc.ended {
				t.Errorf("the first match is %v with %d slots of pods that have ended", got[0].Request.Op, n)
			}
			if len(got) > 1 && (got[1].Request.Op != match.WithoutAllocating || len(got[1].Request.Expected) > 0) {
				t.Errorf("the second match is %v with %d slots", got[1].Request.Op, len(got[1].Request.Expected))
			}
			if errors.Is(tc.want, errOnlyStaleRoom) {
				if p.refusalFor(q, errOnlyStaleRoom); len(q.blockingTurns) > 0 {
					t.Error("reservations are blamed")
				}
			}
		})
	}
}
