package fluxion_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
	"github.com/flux-k8s/fluence/test/trials"
)

// A world is what a random series has put, and the engine that got it.
type world struct {
	*rig
	random *rand.Rand
	// cores are the cores of each node in thousandths, and its number in the library.
	cores  map[string]int64
	number map[string]int
	down   map[string]bool
	next   int
}

// Whatever happens, the library holds at least what is held on a node, rounded up once,
// and at most the sum of all slots, each rounded up, and never more than the node has.
// A request is refused only if the second leaves no room. In the end all is free.
func TestWhatTheLibraryHoldsIsWhatIsHeld(t *testing.T) {
	rigs := map[string]func(t *testing.T) *rig{
		"with a graph that grows": func(t *testing.T) *rig { t.Helper(); return newGrowingRig(t, match.PolicyLonode) },
	}
	for _, release := range reapitest.Releases() {
		rigs[release.String()] = func(t *testing.T) *rig { t.Helper(); return newRig(t, release) }
	}
	for name, begin := range rigs {
		first := trials.Seed(t)
		for i := range uint64(trials.Count(5)) {
			seed := first + i
			t.Run(fmt.Sprint(name, "/seed ", seed), func(t *testing.T) {
				w := &world{
					random: rand.New(rand.NewPCG(seed, 0)), cores: make(map[string]int64),
					number: make(map[string]int), down: make(map[string]bool),
				}
				w.rig = begin(t)
				for range 120 {
					w.step(t)
					if t.Failed() {
						return
					}
				}
				for id := match.JobID(1); id <= 12; id++ {
					w.release(t, id)
				}
				w.put(t, matchtest.Node("last", nil, matchtest.Cores(1)))
				w.number["last"], w.cores["last"] = w.next, 1000
				w.check(t)
			})
		}
	}
}

// step does one random thing and checks the result.
func (w *world) step(t *testing.T) {
	t.Helper()
	name, id := string(rune('a'+w.random.IntN(5))), match.JobID(1+w.random.IntN(12))
	switch what := w.random.IntN(12); {
	case what < 2:
		if _, ok := w.cores[name]; !ok {
			w.number[name] = w.next
			w.next++
		}
		w.cores[name], w.down[name] = w.random.Int64N(9)*700, false
		w.put(t, matchtest.Node(name, nil, matchtest.MilliCores(w.cores[name])))
	case what == 2:
		if err := w.RemoveNode(t.Context(), w.epoch, name); err != nil {
			t.Fatalf("RemoveNode(%s) = %v", name, err)
		}
		delete(w.cores, name)
	case what == 3:
		if _, ok := w.cores[name]; ok {
			w.down[name] = !w.down[name]
			status := resource.Up
			if w.down[name] {
				status = resource.Down
			}
			if err := w.SetStatus(t.Context(), w.epoch, name, status); err != nil {
				t.Fatalf("SetStatus(%s) = %v", name, err)
			}
		}
	case what < 6:
		key := fmt.Sprint(w.random.IntN(3))
		w.update(t, id, matchtest.Held(key, name, matchtest.MilliCores(w.random.Int64N(2500))))
	case what < 8:
		w.release(t, id, fmt.Sprint(w.random.IntN(3)), fmt.Sprint(w.random.IntN(3)))
	case what == 8:
		w.release(t, id)
	default:
		w.request(t, id)
	}
	w.check(t)
}

// request asks for slots, and checks a refusal.
func (w *world) request(t *testing.T, id match.JobID) {
	t.Helper()
	n, each := 1+w.random.Int64N(4), 1+w.random.Int64N(2200)
	r := w.ask(id, matchtest.Slots("w", n, matchtest.MilliCores(each)))
	if w.random.IntN(3) == 0 {
		r.Op = match.WithoutAllocating
		r.Ignore = []match.JobID{match.JobID(1 + w.random.IntN(12))}
		r.Expected = []match.Slot{matchtest.Held("x", "a", matchtest.MilliCores(w.random.Int64N(3000)))}
	}
	if other := match.JobID(1 + w.random.IntN(12)); other != id && w.random.IntN(2) == 0 {
		r.Replaces, r.ReplacesKeys = other, [][]string{nil, {"0"}, {"1", "2"}}[w.random.IntN(3)]
	}
	before := w.listed(t, match.Request{})
	left := w.listed(t, r)
	_, err := w.Match(t.Context(), r)
	if err != nil || r.Op != match.Allocate || before[id] != "" {
		left = before
	}
	after := w.listed(t, match.Request{})
	if before[id] == "" {
		delete(after, id)
	}
	if diff := cmp.Diff(left, after); diff != "" {
		t.Errorf("Match(%d), which replaces %q of job %d, changed others (-want +got):\n%s", id, r.ReplacesKeys, r.Replaces, diff)
	}
	switch {
	case err == nil, errors.Is(err, match.ErrConflict):
		return
	case !errors.Is(err, match.ErrBusy) && !errors.Is(err, match.ErrUnsatisfiable):
		t.Errorf("Match() = %v", err)
		return
	case r.Op != match.Allocate:
		return
	}
	room, whole := int64(0), int64(0)
	_, most := w.bounds(t, r)
	for name, size := range w.cores {
		whole += size / 1000 / up(each)
		if !w.down[name] {
			room += max(0, size/1000-most[name]) / up(each)
		}
	}
	if room >= n {
		t.Errorf("%d slots of %dm were refused, there is room for %d: %v", n, each, room, err)
	}
	if errors.Is(err, match.ErrUnsatisfiable) != (whole < n) {
		t.Errorf("%d slots of %dm, of which the empty graph has room for %d: %v", n, each, whole, err)
	}
}

// listed renders what each job would hold without what a request replaces.
func (w *world) listed(t *testing.T, without match.Request) map[match.JobID]string {
	t.Helper()
	jobs, err := w.Jobs(t.Context(), w.epoch)
	if err != nil {
		t.Fatalf("Jobs() = %v", err)
	}
	held := make(map[match.JobID]string)
	for _, j := range jobs {
		for _, s := range j.Slots {
			if !replaces(without, j.ID, s.Key) {
				held[j.ID] += fmt.Sprint(s.Key, "@", s.Node, matchtest.Amounts(s.R), " ")
			}
		}
	}
	return held
}

// replaces reports whether a request replaces a slot.
func replaces(r match.Request, id match.JobID, key string) bool {
	return r.Replaces == id && (len(r.ReplacesKeys) == 0 || slices.Contains(r.ReplacesKeys, key))
}

func up(m int64) int64 { return (m + 999) / 1000 }

// bounds returns the least and the most that the library may hold on each node, without what a request replaces.
func (w *world) bounds(t *testing.T, without match.Request) (least, most map[string]int64) {
	t.Helper()
	jobs, err := w.Jobs(t.Context(), w.epoch)
	if err != nil {
		t.Fatalf("Jobs() = %v", err)
	}
	sums := make(map[string]int64)
	least, most = make(map[string]int64), make(map[string]int64)
	for _, j := range jobs {
		for _, s := range j.Slots {
			if replaces(without, j.ID, s.Key) {
				continue
			}
			n := matchtest.Amounts(s.R)["core"]
			sums[s.Node] += n
			most[s.Node] += up(n)
		}
	}
	for name, n := range sums {
		least[name] = up(n)
	}
	return least, most
}

// check has the graph loaded, if needed, and checks what the library holds.
func (w *world) check(t *testing.T) {
	t.Helper()
	r := w.ask(99, matchtest.Slots("w", 1, matchtest.Cores(1)))
	r.Op = match.WithoutAllocating
	if _, err := w.Match(t.Context(), r); err != nil {
		if !errors.Is(err, match.ErrUnsatisfiable) && !errors.Is(err, match.ErrBusy) {
			t.Errorf("Match() = %v", err)
		}
		return // The library need not have been called, nor the graph loaded.
	}
	held := w.process.Current.Held()
	least, most := w.bounds(t, match.Request{})
	for name, size := range w.cores {
		got := held[fmt.Sprint("n", w.number[name])]["core"]
		if size /= 1000; got < min(size, least[name]) || got > min(size, most[name]) {
			t.Errorf("of %d cores of %s the library holds %d, want %d to %d", size, name, got, least[name], most[name])
		}
		delete(held, fmt.Sprint("n", w.number[name]))
	}
	if len(held) > 0 {
		t.Errorf("the library holds %v of nodes that are gone", held)
	}
	if slots := w.process.Current.Jobs(); slots > 0 && len(most) == 0 {
		t.Errorf("the library has %d jobs, and nothing is held", slots)
	}
}
