package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// mostTime is the maximum processor time of a match: ten times the time of all its steps on a usual
// machine. It also finds work that is not charged.
const mostTime = 5 * time.Second

// bounded makes a match, which may be refused. It checks the processor time of the match, so that
// it also finds work that is not charged.
func (d *driver) bounded(t *testing.T, r match.Request) {
	t.Helper()
	began := processorTime()
	_, err := d.e.Match(t.Context(), r)
	took := processorTime() - began
	var no *match.Refusal
	if err != nil && !errors.As(err, &no) {
		t.Fatal(err)
	}
	if over := d.e.MaxOverrun(); over > engine.Slack {
		t.Errorf("%d steps too many: %v", over, err)
	}
	// The race detector, which runs with -short, multiplies the time.
	if took > mostTime && !testing.Short() {
		t.Errorf("it took %s of the processors, want at most %s: %v", took, mostTime, err)
	}
	t.Logf("%s of the processors: %v", took, err)
}

// costly returns a request of 20 shapes that share 160 limits with different host lists. It is what
// 20 pods with eight spread constraints each lead to.
func costly(nodes int) *jobspec.Jobspec {
	var limits []jobspec.Limit
	for k := range 160 {
		lists := make([][]string, 7+k%8)
		for i := range nodes {
			at := (i/(k+1) + k) % len(lists)
			lists[at] = append(lists[at], fmt.Sprintf("n%05d", i))
		}
		l := jobspec.Limit{Name: fmt.Sprint(k), Most: 3 + int64(k%2)}
		for _, n := range lists {
			l.Hosts = append(l.Hosts, hostlist.Encode(n))
		}
		limits = append(limits, l)
	}
	js := matchtest.Jobspec()
	for s := range 20 {
		js.Resources = append(js.Resources, matchtest.Slot(fmt.Sprint(s), jobspec.Exactly(1), matchtest.Cores(int64(s+1))))
		matchtest.Limited(js, fmt.Sprint(s), limits...)
	}
	return js
}

// searched returns a request of 20 shapes that may not share a rack, and that need slightly more
// racks than there are. Each limit alone leaves room, so the search goes on until no steps are
// left.
func searched(nodes int) *jobspec.Jobspec {
	const shapes = 20
	js := matchtest.Jobspec()
	racks := int64((nodes + 31) / 32)
	for s := range shapes {
		js.Resources = append(js.Resources, matchtest.Slot(fmt.Sprint(s), jobspec.Exactly(racks/shapes+1), matchtest.Cores(int64(7+s%5)), matchtest.GPUs(int64(1+s%3))))
	}
	for x := range shapes {
		for y := range x {
			l := jobspec.Limit{Name: fmt.Sprint(x, "-", y), Level: "rack", Most: 1}
			matchtest.Limited(js, fmt.Sprint(x), l)
			matchtest.Limited(js, fmt.Sprint(y), l)
		}
	}
	return js
}

// limitedBy returns a request of this number of shapes, each with this number of slots. All shapes
// have the same limits.
func limitedBy(shapes int, slots int64, limits []jobspec.Limit) *jobspec.Jobspec {
	js := matchtest.Jobspec()
	for s := range shapes {
		js.Resources = append(js.Resources, matchtest.Slot(fmt.Sprint(s), jobspec.Exactly(slots), matchtest.Cores(1)))
		matchtest.Limited(js, fmt.Sprint(s), limits...)
	}
	return js
}

// many returns n limits of one level.
func many(n int, level string, most int64) []jobspec.Limit {
	limits := make([]jobspec.Limit, n)
	for k := range limits {
		limits[k] = jobspec.Limit{Name: fmt.Sprint(level, k), Level: level, Most: most}
	}
	return limits
}

// expensiveRequests are requests that are known to be expensive, and the numbers of nodes.
var expensiveRequests = map[string]struct {
	nodes []int
	asked func(nodes int) *jobspec.Jobspec
}{
	"limits":   {[]int{60, 1000, 5000}, costly},
	"searched": {[]int{60, 1000, 5000}, searched},
	"too many slots for 600 limits, each of which is compared with each": {[]int{5000}, func(int) *jobspec.Jobspec {
		return limitedBy(1, 200, many(600, "rack", 1))
	}},
	"one slot too many for 1,000 limits, counted for each of 200 shapes": {[]int{5000}, func(int) *jobspec.Jobspec {
		return limitedBy(200, 1, many(1000, "zone", 199))
	}},
	"300 shapes that do not fit by 1,000 limits that cross": {[]int{5000}, func(nodes int) *jobspec.Jobspec {
		limits := many(1000, "rack", 1)
		hosts := splitHosts(nodes, 2, 0)
		for k := 0; k < len(limits); k += 2 {
			limits[k].Level, limits[k].Hosts = "", hosts
		}
		return limitedBy(300, 3, limits)
	}},
}

func TestAMatchTakesNoMoreWorkThanItMay(t *testing.T) {
	for name, of := range expensiveRequests {
		sizes := of.nodes
		if testing.Short() {
			sizes = sizes[:1]
		}
		for _, nodes := range sizes {
			t.Run(fmt.Sprint(name, "/", nodes), func(t *testing.T) {
				d := &driver{e: newEngine(t)}
				d.load(t, cluster(nodes)...)
				d.bounded(t, d.request(1, of.asked(nodes)))
			})
		}
	}
}
