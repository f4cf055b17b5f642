package trial

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
)

// start is the contender's start in all of these tests.
var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func plan(spec contender.Spec, pods, size int) Plan {
	return Plan{Contender: spec, Pods: pods, Size: size, CPU: resource.MustParse("1")}
}

// binds gives the pods of a plan, in order, the times
// of their binds. Pods without a time are not bound.
func binds(p Plan, seconds ...float64) map[string]time.Time {
	out := map[string]time.Time{}
	for _, g := range p.gangs() {
		for _, pod := range g.Pods {
			if len(out) < len(seconds) {
				out[pod] = at(seconds[len(out)])
			}
		}
	}
	return out
}

// every returns n times in seconds, from first on, with a step between them.
func every(n int, first, step float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = first + float64(i)*step
	}
	return out
}

func TestSpeed(t *testing.T) {
	ten := append(append([]float64{1}, every(18, 10, 0.5)...), 100)
	cases := map[string]struct {
		seconds          []float64
		wantMid, wantAll float64
	}{
		"steady":                                {seconds: every(20, 5, 0.1), wantMid: 10, wantAll: 10},
		"the first and last tenth do not count": {seconds: ten, wantMid: 2, wantAll: 19.0 / 99},
		"nine tenths never came":                {seconds: every(10, 5, 0.1), wantMid: 0, wantAll: 10},
		"all at once":                           {seconds: make([]float64, 20)},
		"one":                                   {seconds: []float64{3}},
		"none":                                  {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := plan(contender.Stock(), 20, 1)
			m := newMeasured(p, nil)
			m.start, m.end, m.binds = start, at(200), binds(p, tc.seconds...)
			f := m.figures()
			if diff := cmp.Diff([]float64{tc.wantMid, tc.wantAll}, []float64{f.PodsPerSecond, f.PodsPerSecondAll}, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Errorf("pods/s in the middle and over all (-want +got):\n%s", diff)
			}
			if f.Bound != len(tc.seconds) {
				t.Errorf("%d bound, want %d", f.Bound, len(tc.seconds))
			}
			if n := len(tc.seconds); n > 0 && (f.FirstBind != tc.seconds[0] || f.LastBind != tc.seconds[n-1]) {
				t.Errorf("first bind %v, last %v, want %v and %v", f.FirstBind, f.LastBind, tc.seconds[0], tc.seconds[n-1])
			}
		})
	}
}

func TestGangs(t *testing.T) {
	cases := map[string]struct {
		spec    contender.Spec
		seconds []float64
		want    *report.Gangs
	}{
		"each at once":                                    {spec: contender.Native(), seconds: []float64{1, 1, 2, 2, 3, 3}, want: &report.Gangs{Count: 3}},
		"one is slow":                                     {spec: contender.Native(), seconds: []float64{1, 1.5, 2, 2.5, 3, 6}, want: &report.Gangs{Count: 3, P50: 0.5, P99: 3, Worst: 3, Halves: 1}},
		"two seconds are not too long":                    {spec: contender.Native(), seconds: []float64{1, 3, 2, 2, 3, 3}, want: &report.Gangs{Count: 3, P99: 2, Worst: 2}},
		"the last stands in halves until the end":         {spec: contender.Fluence(), seconds: []float64{1, 1, 2, 2, 3}, want: &report.Gangs{Count: 3, P99: 7, Worst: 7, Halves: 1}},
		"one has no bind":                                 {spec: contender.Fluence(), seconds: []float64{1, 1, 2, 2}, want: &report.Gangs{Count: 2}},
		"clients that only bind are counted in gangs too": {spec: contender.Ceiling(8), seconds: []float64{1, 2, 2, 2, 3, 3}, want: &report.Gangs{Count: 3, P99: 1, Worst: 1}},
		"pods on their own":                               {spec: contender.Stock(), seconds: every(6, 1, 1)},
		"pods on their own with Fluence":                  {spec: contender.FluenceAlone(), seconds: every(6, 1, 1)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := plan(tc.spec, 6, 2)
			m := newMeasured(p, nil)
			m.start, m.end, m.binds = start, at(10), binds(p, tc.seconds...)
			if diff := cmp.Diff(tc.want, m.figures().Gangs); diff != "" {
				t.Errorf("gangs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGangsThatArrive(t *testing.T) {
	p := plan(contender.Fluence(), 4, 2)
	p.Arrivals = []Arrival{{Name: "urgent", Pods: 2}, {Name: "lone", Pods: 1}, {Name: "never", Pods: 2}}
	seen := binds(p, 1, 1, 2, 2)
	seen[p.gang(p.Arrivals[0]).Pods[0]], seen[p.gang(p.Arrivals[0]).Pods[1]] = at(3), at(6)
	seen[p.gang(p.Arrivals[1]).Pods[0]] = at(7)
	m := newMeasured(p, nil)
	m.start, m.end, m.binds = start, at(10), seen
	if diff := cmp.Diff(&report.Gangs{Count: 3, P99: 3, Worst: 3, Halves: 1}, m.figures().Gangs); diff != "" {
		t.Errorf("gangs (-want +got):\n%s", diff)
	}
}

func TestPercentiles(t *testing.T) {
	p := plan(contender.Native(), 200, 2)
	var seconds []float64
	for i := range 100 {
		seconds = append(seconds, float64(i), float64(i)+0.001*float64(i+1))
	}
	m := newMeasured(p, nil)
	m.start, m.end, m.binds = start, at(200), binds(p, seconds...)
	want := &report.Gangs{Count: 100, P50: 0.05, P99: 0.099, Worst: 0.1}
	if diff := cmp.Diff(want, m.figures().Gangs, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("gangs that take 1 to 100 ms (-want +got):\n%s", diff)
	}
}

func TestWhatAPodTakes(t *testing.T) {
	p := plan(contender.Fluence(), 4, 2)
	m := measured{
		plan: p, start: start, end: at(3), binds: binds(p, 1, 1, 2, 2),
		before:   gauge.Reading{CPU: map[string]time.Duration{"etcd": time.Second}},
		atEnd:    gauge.Reading{At: at(3), CPU: map[string]time.Duration{"etcd": 1100 * time.Millisecond, "scheduler": 20 * time.Millisecond}},
		after:    gauge.Reading{At: at(5), CPU: map[string]time.Duration{"etcd": 1200 * time.Millisecond, "scheduler": 40 * time.Millisecond}},
		quiet:    true,
		requests: gauge.Requests{Writes: map[string]float64{"POST pods/binding": 4, "POST events": 2}, TooMany: 3},
	}
	f := m.figures()
	if diff := cmp.Diff(map[string]float64{"etcd": 50, "scheduler": 10}, f.CPU); diff != "" {
		t.Errorf("ms of CPU a pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"etcd": 25, "scheduler": 5}, f.BindingCPU); diff != "" {
		t.Errorf("ms of CPU a pod until the last bind (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"POST pods/binding": 1, "POST events": 0.5}, f.Writes); diff != "" {
		t.Errorf("writes a pod (-want +got):\n%s", diff)
	}
	if f.Quiet != 3 || f.TooMany != 3 {
		t.Errorf("quiet after %v s, %v answers 429, want 3 and 3", f.Quiet, f.TooMany)
	}
}

func TestWhoIsInAGroup(t *testing.T) {
	cases := map[string]struct {
		spec             contender.Spec
		wantGangs        int
		wantBacklog      bool
		wantArrivingGang bool
	}{
		"native":        {spec: contender.Native(), wantGangs: 2, wantBacklog: true, wantArrivingGang: true},
		"fluence":       {spec: contender.Fluence(), wantGangs: 2, wantBacklog: true, wantArrivingGang: true},
		"fluence alone": {spec: contender.FluenceAlone(), wantGangs: 16},
		"stock":         {spec: contender.Stock(), wantGangs: 16},
		"ceiling":       {spec: contender.Ceiling(8), wantGangs: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := plan(tc.spec, 16, 8)
			gangs := p.gangs()
			if len(gangs) != tc.wantGangs || gangs[0].Group != tc.wantBacklog {
				t.Errorf("%d gangs, with PodGroups: %t, want %d, %t", len(gangs), gangs[0].Group, tc.wantGangs, tc.wantBacklog)
			}
			if g := p.gang(Arrival{Name: "a", Pods: 4, Urgent: true}); g.Group != tc.wantArrivingGang || !g.Urgent || len(g.Pods) != 4 {
				t.Errorf("a gang that arrives: %+v", g)
			}
			if g := p.gang(Arrival{Name: "a", Pods: 1}); g.Group || g.Urgent {
				t.Errorf("a lone pod that arrives: %+v", g)
			}
		})
	}
	names := map[string]bool{}
	for _, g := range plan(contender.Native(), 4000, 8).gangs() {
		for _, pod := range g.Pods {
			names[pod] = true
		}
	}
	if len(names) != 4000 {
		t.Errorf("%d names for 4000 pods: %s", len(names), fmt.Sprint(names)[:80])
	}
}
