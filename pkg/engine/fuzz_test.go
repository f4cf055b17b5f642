package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// An engineModel is a simple model of an engine: the nodes that were put. It reads what is held from the
// engine's list of jobs.
type engineModel struct {
	driver
	nodes map[string]modelNode
	// by has the holder of each job's last match.
	by map[match.JobID]string
	// brought has the slots that an Update has brought since.
	brought map[modelSlot]bool
}

type modelSlot struct {
	id  match.JobID
	key string
}

type modelNode struct {
	size [2]int64
	down bool
}

// A tape has the choices of a series. At its end every choice is 0.
type tape []byte

func (t *tape) next(n int) int {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return int(b) % n
}

// FuzzSeries makes a series of calls. After each call it compares what is free on every node, for
// each holder, with what the list of jobs leaves free. A node that was given out as a whole must
// have no other holder. At the end it releases all jobs, and the graph must be free.
func FuzzSeries(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a match, a release, an update and some nodes that come and go"))
	f.Add([]byte{3, 0, 2, 5, 5, 0, 0, 1, 0, 2, 2, 2, 1, 1, 0, 3, 1, 1, 4, 4, 4, 1, 5, 1, 6, 0, 7, 2, 1})
	f.Fuzz(series)
}

// TestRandomSeries runs FuzzSeries with random bytes.
func TestRandomSeries(t *testing.T) {
	for seed := range trials.Seeds(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { series(t, data) })
	}
}

func series(t *testing.T, data []byte) {
	l := &engineModel{
		driver: driver{e: newEngine(t)}, nodes: make(map[string]modelNode),
		by: make(map[match.JobID]string), brought: make(map[modelSlot]bool),
	}
	l.load(t)
	for in, steps := tape(data), 0; len(in) > 0 && steps < 60; steps++ {
		l.step(t, &in)
		l.compare(t)
		l.checkExclusive(t)
	}
	for id := range match.JobID(8) {
		if err := l.e.Release(t.Context(), l.epoch, id+1); err != nil {
			t.Fatalf("Release(%d) = %v", id+1, err)
		}
	}
	if jobs := l.jobs(t); len(jobs) > 0 {
		t.Errorf("after all were released %v are held", jobs)
	}
	l.compare(t)
}

// holders are the holders of a series, and no holder.
var holders = []string{"", "x", "y"}

// step makes one call.
func (l *engineModel) step(t *testing.T, in *tape) {
	ctx := t.Context()
	id := match.JobID(1 + in.next(8))
	name := fmt.Sprintf("n%d", in.next(4))
	var err error
	switch in.next(8) {
	case 0, 1:
		l.ask(t, in, id)
	case 2:
		err = l.e.Release(ctx, l.epoch, id)
	case 3:
		err = l.e.Release(ctx, l.epoch, id, fmt.Sprint(in.next(3)), fmt.Sprint(in.next(3)))
	case 4:
		slot := matchtest.Held(fmt.Sprint(in.next(3)), name, amountPools([2]int64{int64(in.next(9)), int64(in.next(9))})...)
		slot.Holder = holders[in.next(3)]
		slot.Shared = slot.Holder == "" && in.next(2) == 1
		l.brought[modelSlot{id, slot.Key}] = true
		err = l.e.Update(ctx, l.epoch, match.Job{ID: id, Slots: []match.Slot{slot}})
	case 5:
		n := modelNode{size: [2]int64{int64(in.next(12)), int64(in.next(12))}, down: in.next(8) == 1}
		levels := [][2]string{{"rack", fmt.Sprint(in.next(3))}}[:in.next(2)]
		g := matchtest.Node(name, levels, amountPools(n.size)...)
		if n.down {
			matchtest.WithStatus(g, resource.Down)
		}
		l.nodes[name] = n
		err = l.e.PutNode(ctx, l.epoch, g)
	case 6:
		delete(l.nodes, name)
		err = l.e.RemoveNode(ctx, l.epoch, name)
	case 7:
		if n, ok := l.nodes[name]; ok {
			n.down = !n.down
			l.nodes[name] = n
			err = l.e.SetStatus(ctx, l.epoch, name, map[bool]resource.Status{false: resource.Up, true: resource.Down}[n.down])
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ask makes a match, and checks the answer against what was free.
func (l *engineModel) ask(t *testing.T, in *tape, id match.JobID) {
	holder := holders[in.next(3)]
	whole := holder != "" && in.next(2) == 1
	expected := l.expected(in)
	replaces, replacesKeys := match.JobID(max(0, in.next(12)-3)), [][]string{nil, {"0"}, {"1", "2"}}[in.next(3)]
	if replaces == id || replaces == 0 {
		replaces, replacesKeys = 0, nil
	}
	before := l.jobs(t)
	left := released(before, replaces, replacesKeys)
	free := l.free(holder, whole, append(slices.Clip(left), match.Job{Slots: expected}))
	r := l.request(id, matchtest.Jobspec(
		matchtest.Slot("a", jobspec.Between(1, int64(1+in.next(4))), amountPools([2]int64{int64(1 + in.next(4)), int64(1 + in.next(4))})...),
		matchtest.Slot("b", jobspec.Exactly(int64(1+in.next(2))), amountPools([2]int64{int64(1 + in.next(4)), 1})...),
	))
	narrow := addRandomLimits(in, r.Jobspec)
	r.Op = []match.Op{match.Allocate, match.WithoutAllocating}[in.next(2)]
	r.Expected = expected
	policies := slices.DeleteFunc(match.Policies(), func(p string) bool { return match.IsExclusive(p) != whole })
	r.Holder, r.Policy = holder, policies[in.next(len(policies))]
	r.Replaces, r.ReplacesKeys = replaces, replacesKeys
	held := slices.ContainsFunc(before, func(j match.Job) bool { return j.ID == id })
	a, err := l.e.Match(t.Context(), r)
	if err != nil || held || r.Op != match.Allocate {
		left = before
	}
	after := slices.DeleteFunc(l.jobs(t), func(j match.Job) bool { return !held && j.ID == id })
	if !reflect.DeepEqual(append([]match.Job{}, left...), append([]match.Job{}, after...)) {
		t.Fatalf("Match(%d), which replaces %q of job %d, changed others (-want +got):\n%s", id, replacesKeys, replaces, cmp.Diff(left, after))
	}
	var refusal *match.Refusal
	switch {
	case errors.As(err, &refusal), errors.Is(err, match.ErrConflict):
		return
	case errors.Is(err, match.ErrInvalid) && strings.Contains(err.Error(), `no level "rack"`):
		return
	case err != nil:
		t.Fatalf("Match(%d) = %v", id, err)
	case r.Op == match.Allocate && held:
		return // It is a repeat.
	}
	if r.Op == match.Allocate {
		l.by[id] = holder
	}
	if bad := narrow(a); bad != "" {
		t.Fatalf("Match(%d) gave %s: %s", id, written(a.Slots), bad)
	}
	for _, s := range a.Slots {
		if r.Op == match.Allocate {
			delete(l.brought, modelSlot{id, s.Key})
		}
		for k, kind := range puzzleKinds {
			f := free[s.Node]
			if f[k] -= matchtest.Amounts(s.R)[kind]; f[k] < 0 && r.Op == match.Allocate {
				t.Fatalf("Match(%d) gave %s, more than %s has", id, written(a.Slots), s.Node)
			}
			free[s.Node] = f
		}
	}
}

// addRandomLimits sometimes adds a limit and a topology to a jobspec. The returned function names what an
// answer violates.
func addRandomLimits(in *tape, js *jobspec.Jobspec) func(a *match.Allocation) string {
	most, kind := in.next(4), in.next(6)
	if most > 0 {
		for _, r := range js.Resources {
			matchtest.Limited(js, r.Label, jobspec.Limit{Name: "l", Level: "node", Most: int64(most)})
		}
	}
	if kind > 0 {
		matchtest.Together(js, []jobspec.Topology{
			{Required: "node"}, {Required: "rack"}, {Preferred: []string{"rack", "node"}}, {Balanced: "node"}, {Required: "rack", Balanced: "node"},
		}[kind-1])
	}
	return func(a *match.Allocation) string {
		on := make(map[string]int)
		for _, s := range a.Slots {
			on[s.Node]++
		}
		fewest, largest := len(a.Slots), 0
		for _, n := range on {
			fewest, largest = min(fewest, n), max(largest, n)
		}
		switch {
		case most > 0 && largest > most:
			return "the limit is broken"
		case kind == 1 && len(on) > 1:
			return "it stands on several nodes"
		case kind > 3 && largest > fewest+1:
			return "the shares are not equal"
		}
		return ""
	}
}

// expected returns expected slots, usually none.
func (l *engineModel) expected(in *tape) []match.Slot {
	slots := make([]match.Slot, max(0, in.next(5)-2))
	for i := range slots {
		slots[i] = matchtest.Held("0", fmt.Sprintf("n%d", in.next(5)), amountPools([2]int64{int64(in.next(9)), int64(in.next(9))})...)
		slots[i].Holder = holders[in.next(3)]
		slots[i].Shared = slots[i].Holder == "" && in.next(2) == 1
	}
	return slots
}

func (l *engineModel) jobs(t *testing.T) []match.Job {
	jobs, err := l.e.Jobs(t.Context(), l.epoch)
	if err != nil {
		t.Fatalf("Jobs() = %v", err)
	}
	return jobs
}

// released returns jobs without the slots of a job with these keys, or without the job if there are no keys.
func released(jobs []match.Job, id match.JobID, keys []string) []match.Job {
	var left []match.Job
	for _, j := range jobs {
		if j.ID == id {
			j.Slots = slices.DeleteFunc(slices.Clone(j.Slots), func(s match.Slot) bool { return len(keys) == 0 || slices.Contains(keys, s.Key) })
		}
		if len(j.Slots) > 0 {
			left = append(left, j)
		}
	}
	return left
}

// free computes what these jobs leave of every node for a holder.
func (l *engineModel) free(holder string, whole bool, jobs []match.Job) map[string][2]int64 {
	free := make(map[string][2]int64)
	for name, n := range l.nodes {
		if !n.down {
			free[name] = n.size
		}
	}
	for _, j := range jobs {
		for _, s := range j.Slots {
			f, ok := free[s.Node]
			if !ok {
				continue
			}
			if s.Holder != "" && s.Holder != holder || whole && s.Holder == "" && !s.Shared {
				delete(free, s.Node)
				continue
			}
			for k, kind := range puzzleKinds {
				f[k] -= matchtest.Amounts(s.R)[kind]
			}
			free[s.Node] = f
		}
	}
	for name, f := range free {
		free[name] = [2]int64{max(0, f[0]), max(0, f[1])}
	}
	return free
}

// compare counts what fits of every pool of every node, once without a holder and once for a holder
// of whole nodes.
func (l *engineModel) compare(t *testing.T) {
	for _, holder := range []string{"", "x"} {
		whole := holder != ""
		free := l.free(holder, whole, l.jobs(t))
		for name := range l.nodes {
			for k := range puzzleKinds {
				l.count(t, name, k, holder, free[name][k])
			}
		}
	}
}

// count matches as much as fits of one pool of a node. With a holder, it matches whole nodes.
func (l *engineModel) count(t *testing.T, name string, k int, holder string, want int64) {
	r := l.request(0, matchtest.Constrain(
		matchtest.Jobspec(matchtest.Slot("a", jobspec.Between(1, 100), matchtest.Pool{Type: puzzleKinds[k], Amount: 1})),
		"a", jobspec.SlotAttributes{Constraints: matchtest.Hosts(name)}))
	r.Op = match.WithoutAllocating
	if holder != "" {
		r.Holder, r.Policy = holder, match.PolicyLonodex
	}
	a, err := l.e.Match(t.Context(), r)
	got := int64(0)
	if err == nil {
		got = int64(len(a.Slots))
	}
	if got != want {
		t.Fatalf("%d of %s are free on %s for %q (%v), want %d", got, puzzleKinds[k], name, holder, err, want)
	}
}

// checkExclusive checks the nodes with a matched slot that has a holder: all matched slots there are for the
// same holder.
func (l *engineModel) checkExclusive(t *testing.T) {
	owner := make(map[string]string)
	tenants := make(map[string]map[string]bool)
	for _, j := range l.jobs(t) {
		for _, s := range j.Slots {
			if l.brought[modelSlot{j.ID, s.Key}] {
				continue
			}
			if tenants[s.Node] == nil {
				tenants[s.Node] = make(map[string]bool)
			}
			tenants[s.Node][l.by[j.ID]] = true
			if s.Holder != "" {
				owner[s.Node] = s.Holder
			}
		}
	}
	for node, holder := range owner {
		if len(tenants[node]) > 1 || !tenants[node][holder] {
			t.Fatalf("node %s is %q's as a whole, and was given to %v", node, holder, tenants[node])
		}
	}
}
