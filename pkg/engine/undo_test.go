package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// listed renders the jobs that hold something, and the jobs with a reservation.
func (d *driver) listed(t *testing.T) string {
	t.Helper()
	jobs, err := d.e.Jobs(t.Context(), d.epoch)
	if err != nil {
		t.Fatalf("Jobs() = %v", err)
	}
	out := ""
	for _, j := range jobs {
		if j.Reserved {
			out += fmt.Sprintf("%d reserved ", j.ID)
		} else {
			out += fmt.Sprintf("%d holds ", j.ID)
		}
	}
	return out
}

// reserve reserves cores of n0 for job 1, for the hour after a time.
func (d *driver) reserve(t *testing.T, cores int64, from time.Time) {
	t.Helper()
	err := d.e.Update(t.Context(), d.epoch, match.Job{
		ID: 1, Reserved: true, Start: from, End: from.Add(time.Hour), Slots: []match.Slot{matchtest.Held("0", "n0", core(cores))},
	})
	if err != nil {
		t.Fatalf("Update() = %v", err)
	}
}

// TestTheOrderInWhichAMatchChangesTheGraphAndUndoesIt checks rules that hold only if a match
// changes the graph in this order, and undoes the changes in reverse order: the request's job is looked
// up; reservations that have ended are dropped; jobs are ignored, and slots replaced; the expected slots are
// added; the job's reservation is taken out; a placement is searched for; all this is undone; what is replaced is
// released, and the job is booked.
func TestTheOrderInWhichAMatchChangesTheGraphAndUndoesIt(t *testing.T) {
	later := matchtest.Now.Add(2 * time.Hour)
	cases := map[string]func(t *testing.T, d *driver){
		"the job that asks is looked up before jobs leave": func(t *testing.T, d *driver) {
			d.match(t, 1, matchtest.Slots("a", 1, core(1)))
			d.match(t, 2, matchtest.Slots("a", 1, core(1)))
			d.e.SetLockedSteps(1)
			r := d.request(1, matchtest.Slots("a", 1, core(1)))
			r.Op, r.Ignore = match.WithoutAllocating, []match.JobID{2}
			again := d.request(1, matchtest.Slots("a", 1, core(1)))
			again.Replaces = 2
			for _, r := range []match.Request{r, again} {
				if _, err := d.e.Match(t.Context(), r); err != nil {
					t.Errorf("Match() of a job that holds something = %v, however much there is to ignore", err)
				}
			}
			if got, want := d.listed(t), "1 holds 2 holds "; got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
		},
		"what takes too much work to replace stays": func(t *testing.T, d *driver) {
			d.match(t, 2, matchtest.Slots("a", 4, core(1)))
			d.e.SetLockedSteps(1)
			r := d.request(1, matchtest.Slots("a", 1, core(1)))
			r.Replaces = 2
			var no *match.Refusal
			if _, err := d.e.Match(t.Context(), r); !errors.As(err, &no) || no.Reason.Code != match.TooHard {
				t.Errorf("Match() = %v, want %s", err, match.TooHard)
			}
			if got, want := d.listed(t), "2 holds "; got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
		},
		"a job that is ignored asks as if it held nothing": func(t *testing.T, d *driver) {
			d.match(t, 1, matchtest.Slots("a", 1, core(4)))
			r := d.request(1, matchtest.Slots("a", 1, core(3)))
			r.Op, r.Ignore = match.WithoutAllocating, []match.JobID{1}
			if a, err := d.e.Match(t.Context(), r); err != nil || written(a.Slots) != "0@n0" {
				t.Errorf("Match() = %v, %v", a, err)
			}
		},
		"expected slots go before ignored jobs come back": func(t *testing.T, d *driver) {
			d.match(t, 1, matchtest.Slots("a", 1, core(2)))
			r := d.request(9, matchtest.Slots("a", 1, core(1)))
			r.Op, r.Ignore = match.WithoutAllocating, []match.JobID{1}
			for range 3 {
				r.Expected = []match.Slot{matchtest.Held("e", "n0", core(1)), matchtest.WithHolder(matchtest.Held("f", "n0", core(1)), "x")}
				r.Policy, r.Holder = match.PolicyLonodex, "x"
				var no *match.Refusal
				if a, err := d.e.Match(t.Context(), r); err != nil && !errors.As(err, &no) {
					t.Fatalf("Match() = %v, %v", a, err)
				}
			}
			if got, want := d.listed(t), "1 holds "; got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
			d.match(t, 2, matchtest.Slots("a", 2, core(1)))
			if _, err := d.e.Match(t.Context(), d.request(3, matchtest.Slots("a", 1, core(1)))); !errors.Is(err, match.ErrBusy) {
				t.Errorf("Match() of more than there is = %v, want %v", err, match.ErrBusy)
			}
		},
		"an answer given again drops nothing that ended": func(t *testing.T, d *driver) {
			d.reserve(t, 1, matchtest.Now)
			again := d.request(2, matchtest.Slots("a", 1, core(1)))
			if _, err := d.e.Match(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			again.Now = later
			if _, err := d.e.Match(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			if got, want := d.listed(t), "1 reserved 2 holds "; got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
			other := d.request(3, matchtest.Slots("a", 1, core(64)))
			other.Now = later
			if _, err := d.e.Match(t.Context(), other); !errors.Is(err, match.ErrUnsatisfiable) {
				t.Fatal(err)
			}
			if got, want := d.listed(t), "2 holds "; got != want {
				t.Errorf("after another has asked the jobs are %s, want %s", got, want)
			}
		},
		"what ended is dropped before a place is looked for": func(t *testing.T, d *driver) {
			d.reserve(t, 4, matchtest.Now)
			r := d.request(2, matchtest.Slots("a", 1, core(4)))
			r.Now = later
			if _, err := d.e.Match(t.Context(), r); err != nil {
				t.Errorf("Match() = %v", err)
			}
			if got, want := d.listed(t), "2 holds "; got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
		},
		"a reservation is left out for its job, and gone once that holds": func(t *testing.T, d *driver) {
			d.reserve(t, 4, matchtest.Now)
			d.match(t, 1, matchtest.Slots("a", 1, core(4)))
			if got, want := d.listed(t), "1 holds "; got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
			if err := d.e.Release(t.Context(), d.epoch, 1); err != nil {
				t.Fatal(err)
			}
			d.match(t, 2, matchtest.Slots("a", 1, core(4)))
		},
		"a reservation is gone once its job is refused": func(t *testing.T, d *driver) {
			d.reserve(t, 4, matchtest.Now)
			if _, err := d.e.Match(t.Context(), d.request(1, matchtest.Slots("a", 1, core(5)))); !errors.Is(err, match.ErrUnsatisfiable) {
				t.Fatal(err)
			}
			if got := d.listed(t); got != "" {
				t.Errorf("the jobs are %s, want none", got)
			}
			d.match(t, 2, matchtest.Slots("a", 1, core(4)))
		},
		"a reservation stays where it took too much work to look for a place": func(t *testing.T, d *driver) {
			d.reserve(t, 4, matchtest.Now)
			d.e.SetLockedSteps(1)
			d.e.SetUnlockedSteps(1)
			var no *match.Refusal
			if _, err := d.e.Match(t.Context(), d.request(1, matchtest.Slots("a", 1, core(4)))); !errors.As(err, &no) || no.Reason.Code != match.TooHard {
				t.Errorf("Match() = %v, want %s", err, match.TooHard)
			}
			if got, want := d.listed(t), "1 reserved "; got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
		},
		"a reservation comes back where nothing is booked": func(t *testing.T, d *driver) {
			d.reserve(t, 4, matchtest.Now)
			r := d.request(1, matchtest.Slots("a", 1, core(4)))
			r.Op = match.WithoutAllocating
			if _, err := d.e.Match(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if got, want := d.listed(t), "1 reserved "; got != want {
				t.Errorf("the jobs are %s, want %s", got, want)
			}
			if _, err := d.e.Match(t.Context(), d.request(2, matchtest.Slots("a", 1, core(1)))); !errors.Is(err, match.ErrBusy) {
				t.Errorf("Match() of another = %v, want %v", err, match.ErrBusy)
			}
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t, matchtest.Node("n0", nil, core(4)))
			test(t, d)
			d.e.SetLockedSteps(engine.LockedSteps)
		})
	}
}
