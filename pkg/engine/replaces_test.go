package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/trials"
)

// drawReplaced sometimes makes a request replace slots.
func (c *timeModel) drawReplaced(r *match.Request) {
	id := match.JobID(0)
	for range 3 {
		if id = match.JobID(c.IntN(10)); c.jobs[id] != nil {
			break
		}
	}
	if id != 0 && id != r.ID && r.Op != match.AllocateOrElseReserve {
		r.Replaces, r.ReplacesKeys = id, [][]string{nil, {"0"}, {"1", "2"}}[c.IntN(3)]
	}
}

// replaces reports whether a request replaces the slot of a job with this key.
func replaces(r *match.Request, id match.JobID, key string) bool {
	return r.Replaces == id && (len(r.ReplacesKeys) == 0 || slices.Contains(r.ReplacesKeys, key))
}

// replace removes what a request has replaced.
func (c *timeModel) replace(r *match.Request) {
	j := c.jobs[r.Replaces]
	if j == nil {
		return
	}
	maps.DeleteFunc(j.slots, func(key string, _ timeModelSlot) bool {
		gone := replaces(r, r.Replaces, key)
		if gone && j.reserved {
			c.came["replaced reserved slots"]++
		} else if gone {
			c.came["replaced slots"]++
		}
		return gone
	})
	if len(j.slots) == 0 {
		delete(c.jobs, r.Replaces)
	}
}

// TestReplacedSlotsAreAsReleasedOnes checks that a request that replaces slots answers as if they had been released
// before, and that it leaves the same behind. If it books nothing, it leaves everything as it was.
func TestReplacedSlotsAreAsReleasedOnes(t *testing.T) {
	came := make(map[string]int)
	for seed := range trials.Seeds(150) {
		random := rand.New(rand.NewPCG(seed, 24))
		gone := random.Perm(12)[:6]
		begin := func() *driver {
			d := occupied(t, seed)
			for _, id := range gone {
				d.release(t, match.JobID(id+1))
			}
			return d
		}
		replacing, released := begin(), begin()
		r := replacing.request(99, matchtest.Slots("a", 1+random.Int64N(4), core(1+random.Int64N(2)), memory(1+random.Int64N(9))))
		r.Op = []match.Op{match.Allocate, match.Allocate, match.WithoutAllocating, match.WithoutAllocatingFuture}[random.IntN(4)]
		r.Duration = time.Duration(random.IntN(3)) * time.Hour
		if random.IntN(3) == 0 {
			r.Policy, r.Holder = match.PolicyLonodex, "x"
		}
		if random.IntN(3) == 0 {
			r.Expected = []match.Slot{matchtest.Held("e", "n1", core(1))}
		}
		unlocked := r.Op != match.WithoutAllocatingFuture && random.IntN(3) == 0
		if unlocked {
			replacing.e.SetLockedSteps(60)
			released.e.SetLockedSteps(60)
		}
		before := replacing.jobs(t)
		id, keys := match.JobID(77), [][]string{nil, {"0"}, {"1", "9"}}[random.IntN(3)]
		if len(before) > 0 && random.IntN(8) > 0 {
			id = before[random.IntN(len(before))].ID
		}
		released.release(t, id, keys...)
		want, booked := released.rendered(t, r, unlocked)
		r.Replaces, r.ReplacesKeys = id, keys
		got, _ := replacing.rendered(t, r, unlocked)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: %+v (-after a release +got):\n%s", seed, r, diff)
		}
		if booked {
			came["booked"]++
			if again, _ := replacing.rendered(t, r, unlocked); again != want {
				t.Errorf("seed %d: the request again is answered\n%s\nwant\n%s", seed, again, want)
			}
		} else {
			came["not booked"]++
			released = begin()
			if diff := cmp.Diff(before, replacing.jobs(t)); diff != "" {
				t.Errorf("seed %d: what is held (-before +got):\n%s", seed, diff)
			}
		}
		replacing.e.SetLockedSteps(engine.LockedSteps)
		released.e.SetLockedSteps(engine.LockedSteps)
		if diff := cmp.Diff(released.jobs(t), replacing.jobs(t)); diff != "" {
			t.Errorf("seed %d: what is held (-want +got):\n%s", seed, diff)
		}
		if diff := cmp.Diff(released.allocateRest(t), replacing.allocateRest(t)); diff != "" {
			t.Errorf("seed %d: what is left (-want +got):\n%s", seed, diff)
		}
	}
	t.Logf("requests were %v", came)
}

// rendered makes a request, and renders the answer. It leaves out what only a match under the lock finds, if
// unlocked. booked reports whether the answer was booked.
func (d *driver) rendered(t *testing.T, r match.Request, unlocked bool) (text string, booked bool) {
	t.Helper()
	a, err := d.e.Match(t.Context(), r)
	if no, refused := errors.AsType[*match.Refusal](err); refused {
		reason, more := no.Reason, ""
		if !unlocked {
			more = fmt.Sprintf("%+v %+v", reason.Blocker, reason.Promised)
		}
		reason.Blocker, reason.Promised = nil, nil
		return fmt.Sprintf("%v %+v %s", no.Err, reason, more), false
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s from %s to %s: %v", written(a.Slots), a.Start, a.End, shares(a.R)), r.Op == match.Allocate
}

// jobs lists all jobs.
func (d *driver) jobs(t *testing.T) []match.Job {
	t.Helper()
	jobs, err := d.e.Jobs(t.Context(), d.epoch)
	if err != nil {
		t.Fatalf("Jobs() = %v", err)
	}
	return jobs
}

// TestWhatIsReplacedMayChangeDuringAnUnlockedSearch checks that a match replaces what there is when it books.
func TestWhatIsReplacedMayChangeDuringAnUnlockedSearch(t *testing.T) {
	cases := map[string]struct {
		change func(t *testing.T, d *driver)
		busy   bool
		want   string
	}{
		"nothing changes": {func(*testing.T, *driver) {}, false, "2 holds "},
		"the job goes":    {func(t *testing.T, d *driver) { d.release(t, 1) }, false, "2 holds "},
		"a slot of the job comes": {func(t *testing.T, d *driver) {
			d.update(t, match.Job{ID: 1, Slots: []match.Slot{matchtest.Held("k", "n1", core(1))}})
		}, false, "2 holds "},
		"the job goes, and another takes its room": {func(t *testing.T, d *driver) {
			d.release(t, 1)
			d.match(t, 3, matchtest.Slots("a", 4, core(1)))
		}, true, "3 holds "},
		"another comes where the job is": {func(t *testing.T, d *driver) {
			d.update(t, match.Job{ID: 3, Slots: []match.Slot{matchtest.Held("k", "n0", core(1))}})
		}, true, "1 holds 3 holds "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &driver{e: newEngine(t)}
				d.load(t, matchtest.Node("n0", nil, core(4)), matchtest.Node("n1", nil, core(1)))
				d.update(t, match.Job{ID: 1, Slots: []match.Slot{matchtest.Held("k", "n0", core(3))}})
				d.e.SetLockedSteps(30) // enough to replace a slot, and too few for a search
				release := d.e.HoldUnlockedSearches()
				done := make(chan error, 1)
				go func() {
					r := d.request(2, matchtest.Slots("a", 4, core(1)))
					r.Replaces = 1
					r.Jobspec = matchtest.Constrain(r.Jobspec, "a", jobspec.SlotAttributes{Constraints: matchtest.Hosts("n0")})
					_, err := d.e.Match(t.Context(), r)
					done <- err
				}()
				synctest.Wait()
				d.e.SetLockedSteps(engine.LockedSteps)
				tc.change(t, d)
				release()
				if err := <-done; errors.Is(err, match.ErrBusy) != tc.busy || err != nil && !tc.busy {
					t.Errorf("Match() = %v, want busy %t", err, tc.busy)
				}
				if got := d.listed(t); got != tc.want {
					t.Errorf("the jobs are %s, want %s", got, tc.want)
				}
			})
		})
	}
}

func (d *driver) release(t *testing.T, id match.JobID, keys ...string) {
	t.Helper()
	if err := d.e.Release(t.Context(), d.epoch, id, keys...); err != nil {
		t.Fatal(err)
	}
}

func (d *driver) update(t *testing.T, jobs ...match.Job) {
	t.Helper()
	if err := d.e.Update(t.Context(), d.epoch, jobs...); err != nil {
		t.Fatal(err)
	}
}
