package trial

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

func TestWhenGangsCome(t *testing.T) {
	const rate, length = 50.0, 40 * time.Second
	times := Stream{Seed: 1}.times(rate, length)
	// The number has a Poisson distribution, whose standard deviation is 45.
	if n := len(times); n < 1800 || n > 2200 {
		t.Errorf("%d gangs come, want about 2000", n)
	}
	within := 0
	for i, at := range times {
		before := time.Duration(0)
		if i > 0 {
			before = times[i-1]
		}
		if at < before || at >= length {
			t.Fatalf("gang %d comes at %v after one at %v", i, at, before)
		}
		if at-before < 20*time.Millisecond {
			within++
		}
	}
	// 63 % of exponentially distributed times are shorter than their mean.
	if share := float64(within) / float64(len(times)); share < 0.58 || share > 0.68 {
		t.Errorf("%.2f of the times between gangs are shorter than their mean, want 0.63", share)
	}
	if diff := cmp.Diff(times, Stream{Seed: 1}.times(rate, length)); diff != "" {
		t.Errorf("the same seed gives other times (-first +second):\n%s", diff)
	}
	if cmp.Equal(times, Stream{Seed: 2}.times(rate, length)) {
		t.Error("another seed gives the same times")
	}
}

func TestSearch(t *testing.T) {
	cases := map[string]struct {
		// probed and proven are the greatest rates that are kept up with.
		probed, proven float64
		least, most    float64
		wantProofs     int
		wantErr        bool
	}{
		"above the first rate":      {probed: 100, proven: 100, least: 90, most: 100, wantProofs: 1},
		"below the first rate":      {probed: 3, proven: 3, least: 2.7, most: 3, wantProofs: 1},
		"a short time flatters":     {probed: 100, proven: 50, least: 45, most: 50, wantProofs: 2},
		"a little too much":         {probed: 100, proven: 92, least: 82, most: 92, wantProofs: 2},
		"nothing is kept up with":   {probed: 0, proven: 0, wantErr: true},
		"nothing for a longer time": {probed: 100, proven: 0, wantProofs: 2, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			proofs := 0
			server := func(most float64) func(float64) (result, error) {
				return func(rate float64) (result, error) {
					return result{keptUp: rate <= most, served: min(rate, most)}, nil
				}
			}
			prove := server(tc.proven)
			got, err := search(server(tc.probed), func(rate float64) (result, error) {
				proofs++
				return prove(rate)
			})
			if late := (*lateError)(nil); errors.As(err, &late) != tc.wantErr {
				t.Fatalf("search() = %v, %v, want a lateError: %t", got, err, tc.wantErr)
			}
			if tc.wantErr {
				return
			}
			if got < tc.least || got > tc.most || proofs != tc.wantProofs {
				t.Errorf("search() = %v with %d proofs, want %v to %v with %d", got, proofs, tc.least, tc.most, tc.wantProofs)
			}
		})
	}
	t.Run("a failure ends it", func(t *testing.T) {
		failed := errors.New("failed")
		fail := func(float64) (result, error) { return result{}, failed }
		works := func(rate float64) (result, error) { return result{keptUp: rate < 10}, nil }
		if _, err := search(fail, works); !errors.Is(err, failed) {
			t.Errorf("search() = %v when a probe fails", err)
		}
		if _, err := search(works, fail); !errors.Is(err, failed) {
			t.Errorf("search() = %v when a proof fails", err)
		}
	})
}

func TestGrows(t *testing.T) {
	const length = 40 * time.Second
	// samples returns one sample a second.
	samples := func(waiting func(second int) int) []sample {
		var out []sample
		for i := range 60 { // the last 20 s are after the last gang has come
			out = append(out, sample{at: time.Duration(i) * time.Second, waiting: waiting(i)})
		}
		return out
	}
	cases := map[string]struct {
		rate    float64
		waiting func(second int) int
		want    bool
	}{
		"nobody waits":                   {10, func(int) int { return 0 }, false},
		"as many wait as before":         {10, func(int) int { return 100 }, false},
		"more and more":                  {10, func(s int) int { return s }, true},
		"many wait at the start":         {10, func(s int) int { return max(0, 100-10*s) }, false},
		"slightly more":                  {10, func(s int) int { return s / 5 }, false},
		"slightly more at a slow rate":   {1, func(s int) int { return s / 5 }, true},
		"a few more by chance":           {1, func(s int) int { return s / 10 }, false},
		"more after the last gang comes": {10, func(s int) int { return max(0, s-40) * 10 }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := grows(samples(tc.waiting), tc.rate, length); got != tc.want {
				t.Errorf("grows() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestFiguresOfAStream(t *testing.T) {
	p := plan(contender.Fluence(), 4000, 2)
	p.Stream = &Stream{Share: 0.8}
	gang := func(name string) backlog.Gang { return backlog.Gangs(name, 2, 2, true)[0] }
	m := newMeasured(p, nil)
	if f := m.figures(); f.Stream != nil || f.Bound != 0 {
		t.Errorf("before the stream begins: %+v", f)
	}
	m.highest = 10
	m.stream = &phase{rate: 8, gangs: []coming{
		{Gang: gang("a"), made: at(1), bound: at(1.5)},
		{Gang: gang("b"), made: at(2), bound: at(1.9)}, // seen before the creation was answered
		{Gang: gang("c"), made: at(3)},
	}}
	all := map[string]time.Time{"search-01-00000-00000": at(-5)}
	for i, seconds := range [][]float64{{1.4, 1.5}, {1.9, 1.9}, {3.5}} {
		for j, s := range seconds {
			all[m.stream.gangs[i].Pods[j]] = at(s)
		}
	}
	m.start, m.end = start, at(10)
	m.binds = m.counted(all)
	f := m.figures()
	if diff := cmp.Diff(&report.Stream{Rate: 8, Highest: 10, Gangs: 2, P50: 0, P99: 0.5, Worst: 0.5}, f.Stream); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	if f.Bound != 5 || f.FirstBind != 1.4 || f.LastBind != 3.5 || f.Gangs.Count != 3 {
		t.Errorf("figures %+v with gangs %+v, want those without the search", f, f.Gangs)
	}
}

func TestRoom(t *testing.T) {
	cases := map[string]struct {
		room      int
		cpu       string
		wantNodes int
	}{
		"full nodes":         {room: 160, cpu: "1", wantNodes: 20},
		"a node is not full": {room: 41, cpu: "1", wantNodes: 6},
		"small pods":         {room: 40, cpu: "400m", wantNodes: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := plan(contender.Fluence(), 800, 8)
			p.Room, p.CPU = tc.room, resource.MustParse(tc.cpu)
			if got := roomNodes(p); got != tc.wantNodes {
				t.Errorf("%d nodes, want %d", got, tc.wantNodes)
			}
			if got := p.total(); got != tc.room {
				t.Errorf("%d pods are to be bound, want %d", got, tc.room)
			}
		})
	}
}
