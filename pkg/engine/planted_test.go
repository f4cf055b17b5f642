package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/trials"
)

// A classResult counts the instances of one class that were found and missed.
type classResult struct{ found, missed int }

// plantedResults has the results of a series of planted instances.
type plantedResults struct {
	classes map[string]*classResult
	took    []time.Duration
	slowest string
	missed  []uint64
}

// TestPlanted requests groups that are known to fit. At least 99.9 % are found within the budget of
// the search.
func TestPlanted(t *testing.T) {
	t.Run("no topology", func(t *testing.T) {
		checkPlanted(t, trials.Count(3000), 1000, func(r *rand.Rand) instanceSpec { return randomInstanceSpec(r, false) })
	})
	t.Run("in one rack of several", func(t *testing.T) {
		checkPlanted(t, trials.Count(1500), 1000, func(r *rand.Rand) instanceSpec { return randomInstanceSpec(r, true) })
	})
	// Limits are harder, because patterns do not have them.
	t.Run("bounded in zones", func(t *testing.T) {
		checkPlanted(t, trials.Count(1500), 20, func(r *rand.Rand) instanceSpec {
			s := randomInstanceSpec(r, false)
			s.nodes, s.zones = 2+r.IntN(15), 2+r.IntN(2)
			return s
		})
	})
}

// checkPlanted requests count planted groups. One in oneIn may be missed, or one if there are
// fewer.
func checkPlanted(t *testing.T, count, oneIn int, draw func(*rand.Rand) instanceSpec) {
	t.Helper()
	seed := trials.Seed(t)
	s := plantedResults{classes: make(map[string]*classResult)}
	begin := time.Now()
	for i := range uint64(count) {
		if trials.Usual() && time.Since(begin) > testTime {
			t.Logf("stopped after %d of %d instances", i, count)
			break
		}
		r := rand.New(rand.NewPCG(seed+i, 2))
		p := draw(r).generate(r)
		s.matchInstance(t, seed+i, &p)
	}
	s.report(t)
	if missed := len(s.missed); missed > max(1, len(s.took)/oneIn) {
		t.Errorf("%d of %d were not found, want 1 in %d at the most: seeds %v", missed, len(s.took), oneIn, s.missed)
	}
}

// matchInstance requests a planted group.
func (s *plantedResults) matchInstance(t *testing.T, seed uint64, p *plantedInstance) {
	t.Helper()
	a, took, err := p.pose(t)
	if len(s.took) == 0 || took > slices.Max(s.took) {
		s.slowest = fmt.Sprintf("seed %d: %d shapes, %d nodes, filled to %.2f", seed, len(p.shapes), len(p.nodes), p.fill)
	}
	s.took = append(s.took, took)
	for _, class := range p.classes() {
		if s.classes[class] == nil {
			s.classes[class] = &classResult{}
		}
		if err == nil {
			s.classes[class].found++
		} else {
			s.classes[class].missed++
		}
	}
	switch {
	case err == nil:
		if bad := p.check(a); bad != nil {
			t.Errorf("-seed=%d -trials=1: %v", seed, bad)
		}
	case !errors.Is(err, match.ErrBusy):
		t.Errorf("-seed=%d -trials=1: Match() = %v, want at the worst the error %q", seed, err, match.ErrBusy)
	default:
		s.missed = append(s.missed, seed)
		var no *match.Refusal
		if !errors.As(err, &no) || no.Reason.Code != match.NotFound {
			t.Errorf("-seed=%d -trials=1: Match() = %v, want at the worst %s", seed, err, match.NotFound)
		}
	}
}

// classes returns the classes that count an instance.
func (p *plantedInstance) classes() []string {
	nodes := "1-16"
	switch {
	case len(p.nodes) > 32:
		nodes = "33-64"
	case len(p.nodes) > 16:
		nodes = "17-32"
	}
	low := int(p.fill*100) / 5 * 5
	return []string{
		"all", fmt.Sprintf("shapes %d", len(p.shapes)), "nodes " + nodes,
		fmt.Sprintf("fill %d-%d", low, low+5), fmt.Sprintf("foreign %v", p.foreign),
	}
}

// report logs the number of groups that were found, and the times.
func (s *plantedResults) report(t *testing.T) {
	t.Helper()
	for _, class := range slices.Sorted(maps.Keys(s.classes)) {
		t.Logf("%-14s found %6d missed %d", class, s.classes[class].found, s.classes[class].missed)
	}
	slices.Sort(s.took)
	at := func(part float64) time.Duration { return s.took[int(part*float64(len(s.took)-1))] }
	t.Logf("median %v, 99 %% %v, 99.9 %% %v, slowest %v (%s)", at(0.5), at(0.99), at(0.999), at(1), s.slowest)
}
