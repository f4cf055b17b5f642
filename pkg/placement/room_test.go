package placement

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// The requests of all shapes together may have as many pods on each node as the room has slots there, and none elsewhere.
func TestRequestsArePinnedToRoom(t *testing.T) {
	had := jobspec.Limit{Name: "pods-per-node", Level: "node", Most: 4}
	q := &attempt{requests: make([]translate.ShapeRequest, 2), plan: gang.Plan{MatchInfo: gang.MatchInfo{Room: gang.Room{Nodes: []string{"n3", "n1", "n3", "n2"}}}}}
	q.requests[1].Attributes = jobspec.SlotAttributes{Limits: []jobspec.Limit{had}, ConstraintsNow: notOn([]string{"n9"})}
	pinToRoom(q)
	limits := []jobspec.Limit{{Name: "room/1", Hosts: []string{"n1", "n2"}, Most: 1}, {Name: "room/2", Hosts: []string{"n3"}, Most: 2}}
	only := jobspec.Constraint{Op: jobspec.OpHostlist, Values: []string{"n1", "n2", "n3"}}
	want := []jobspec.SlotAttributes{
		{Limits: limits, ConstraintsNow: &only},
		{Limits: append([]jobspec.Limit{had}, limits...), ConstraintsNow: &jobspec.Constraint{Op: jobspec.OpAnd, Args: []jobspec.Constraint{*notOn([]string{"n9"}), only}}},
	}
	for i, r := range q.requests {
		if !reflect.DeepEqual(r.Attributes, want[i]) {
			t.Errorf("request %d has %+v, want %+v", i, r.Attributes, want[i])
		}
	}
	q.ruledOutByShape = []map[string]bool{{"n1": true, "n9": true}, nil}
	noteRejections(q, []rejection{{node: "n3"}, {node: "n3"}, {node: "n8"}})
	if got := roomRefused(q); !slices.Equal(got, []string{"n1", "n3"}) {
		t.Errorf("filters refuse %v of the room, want n1 and n3", got)
	}
}

// A reservation that is overlooked may become an allocation just before the match, and then the matcher takes the request for
// a mistake. The match is repeated if that is so.
func TestAReservationThatHasBecomeAnAllocationIsNotOverlooked(t *testing.T) {
	cases := map[string]struct {
		now  []match.JobID
		want error
		asks int
	}{
		"it is one by now":    {[]match.JobID{1}, nil, 2},
		"nothing has changed": {[]match.JobID{1, 2}, match.ErrInvalid, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := matchtest.NewFake()
			epoch, err := m.Reset(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m.OnMatch(func(r match.Request) (*match.Allocation, error) {
				if slices.Contains(r.Ignore, 2) {
					return nil, match.ErrInvalid
				}
				return &match.Allocation{}, nil
			})
			p := NewPlacer(Config{Matcher: m, MatchTimeout: time.Minute})
			q := &attempt{budget: NewBudget(t.Context(), time.Now, time.Now(), time.Minute), cluster: ClusterState{
				Epoch: epoch, Ignored: []match.JobID{1, 2}, Overlooked: func() (ignored, spared []match.JobID) { return tc.now, nil },
			}}
			if _, err := p.match(t.Context(), q, match.Allocate, nil, nil); !errors.Is(err, tc.want) {
				t.Errorf("match returns %v, want %v", err, tc.want)
			}
			if got := len(m.Calls(matchtest.Match)); got != tc.asks {
				t.Errorf("%d matches, want %d", got, tc.asks)
			}
		})
	}
}
