package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

func TestNew(t *testing.T) {
	one := func() match.Epoch { return 1 }
	cases := map[string]struct {
		options engine.Options
		wantErr string
	}{
		"a source of epochs is enough":  {options: engine.Options{Epoch: one}},
		"a policy may be named":         {options: engine.Options{Epoch: one, Policy: match.PolicyLonode}},
		"without epochs it fails":       {wantErr: "Epoch is not set"},
		"an unknown policy is an error": {options: engine.Options{Epoch: one, Policy: "best"}, wantErr: `policy "best"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e, err := engine.New(tc.options)
			if tc.wantErr == "" && (err != nil || e == nil) || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("New() = %v, want the error %q", err, tc.wantErr)
			}
		})
	}
}

func TestResetRefusesAnEpochThatIsNone(t *testing.T) {
	for name, epochs := range map[string][]match.Epoch{"0": {0}, "the one before": {7, 7}} {
		t.Run(name, func(t *testing.T) {
			next := 0
			e, err := engine.New(engine.Options{Epoch: func() match.Epoch { next++; return epochs[next-1] }})
			if err != nil {
				t.Fatalf("New() = %v", err)
			}
			for i := range epochs {
				_, err := e.Reset(t.Context())
				if last := i == len(epochs)-1; last != (err != nil) {
					t.Errorf("Reset() number %d = %v", i, err)
				}
			}
		})
	}
}

func TestASecondReadyChangesNothing(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n5", nil, matchtest.Cores(1)))
	if err := d.e.PutNode(t.Context(), d.epoch, matchtest.Node("n1", nil, matchtest.Cores(1))); err != nil {
		t.Fatalf("PutNode() = %v", err)
	}
	if err := d.e.Ready(t.Context(), d.epoch); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
	if got, want := written(d.match(t, 1, matchtest.Slots("a", 1, matchtest.Cores(1))).Slots), "0@n5"; got != want {
		t.Errorf("placed %s, want %s: the numbers have changed", got, want)
	}
}

func TestUpdateRefuses(t *testing.T) {
	exclusive := matchtest.Held("a", "n1", matchtest.Cores(1))
	exclusive.R.Vertices[0].Exclusively = true
	cases := map[string]match.Slot{
		"a slot without R":      {Key: "a", Node: "n1"},
		"a share without type":  {Key: "a", Node: "n1", R: &resource.Set{Vertices: []resource.Share{{Amount: 1}}}},
		"a share not in common": exclusive,
	}
	for name, slot := range cases {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t, matchtest.Node("n1", nil, matchtest.Cores(1)))
			if err := d.e.Update(t.Context(), d.epoch, match.Job{ID: 1, Slots: []match.Slot{slot}}); !errors.Is(err, match.ErrInvalid) {
				t.Errorf("Update() = %v, want the error %q", err, match.ErrInvalid)
			}
		})
	}
}

// TestVerticesKeepTheirNumbers puts a node again, in another rack and with one more pool.
func TestVerticesKeepTheirNumbers(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n0", nil), matchtest.Node("n1", [][2]string{{"rack", "r1"}}, matchtest.Cores(2), matchtest.Pods(4)),
		matchtest.Node("n2", [][2]string{{"rack", "r1"}}, matchtest.Cores(2), matchtest.Pods(4)))
	js := matchtest.Slots("a", 2, matchtest.Cores(1), matchtest.Pods(1))
	before := d.match(t, 1, js)
	again := matchtest.Node("n1", [][2]string{{"rack", "r2"}}, matchtest.Memory(1), matchtest.Cores(4), matchtest.Pods(4))
	if err := d.e.PutNode(t.Context(), d.epoch, again); err != nil {
		t.Fatalf("PutNode() = %v", err)
	}
	after := d.match(t, 2, js)

	numbers := func(a *match.Allocation) map[string][2]int64 {
		m := make(map[string][2]int64)
		for _, v := range a.Slots[0].R.Vertices {
			m[v.Name] = [2]int64{v.UniqID, v.ID}
		}
		return m
	}
	if diff := cmp.Diff(numbers(before), numbers(after)); diff != "" {
		t.Errorf("the numbers of the vertices differ (-before +after):\n%s", diff)
	}
	seen := make(map[int64]string)
	for _, a := range []*match.Allocation{before, after} {
		for _, v := range a.R.Vertices {
			name := v.Type + " " + v.Name
			if v.Type != "node" && v.Type != "rack" && v.Type != "cluster" {
				continue
			}
			if other, ok := seen[v.UniqID]; ok && other != name {
				t.Errorf("%s and %s have both the number %d", name, other, v.UniqID)
			}
			seen[v.UniqID] = name
		}
	}
}

func TestAWholeLevelThatIsDownKeepsItsNodesAway(t *testing.T) {
	d := &driver{e: newEngine(t)}
	rack := func(name, rack string, s resource.Status) *resource.Graph {
		g := matchtest.Node(name, [][2]string{{"rack", rack}}, matchtest.Cores(1))
		g.Vertices[1].Status = s
		return g
	}
	d.load(t, rack("n1", "r1", resource.Up), rack("n2", "r1", resource.Down), rack("n3", "r2", resource.Up))
	js := matchtest.Slots("a", 1, matchtest.Cores(1))
	if got := written(d.match(t, 1, js).Slots); got != "0@n3" {
		t.Errorf("placed %s, want 0@n3: rack r1 is down", got)
	}
	if err := d.e.PutNode(t.Context(), d.epoch, rack("n2", "r1", resource.Up)); err != nil {
		t.Fatalf("PutNode() = %v", err)
	}
	if got := written(d.match(t, 2, js).Slots); got != "0@n1" {
		t.Errorf("placed %s, want 0@n1: rack r1 is up", got)
	}
}

func TestAnUnknownStatusIsInvalid(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t, matchtest.Node("n1", nil, matchtest.Cores(1)))
	if err := d.e.SetStatus(t.Context(), d.epoch, "n1", resource.Status(7)); !errors.Is(err, match.ErrInvalid) {
		t.Errorf("SetStatus() = %v, want the error %q", err, match.ErrInvalid)
	}
}

// TestARepeatOfASlotOnANodeThatIsNotThere checks that the answer leaves out the vertices above that
// node.
func TestARepeatOfASlotOnANodeThatIsNotThere(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t,
		matchtest.Node("n1", [][2]string{{"rack", "r1"}}, matchtest.Cores(1)),
		matchtest.Node("n2", [][2]string{{"rack", "r2"}}, matchtest.Cores(1)),
	)
	js := matchtest.Slots("a", 2, matchtest.Cores(1))
	d.match(t, 1, js)
	moved := match.Job{ID: 1, Slots: []match.Slot{matchtest.Held("0", "n9", matchtest.Cores(1))}}
	if err := d.e.Update(t.Context(), d.epoch, moved); err != nil {
		t.Fatalf("Update() = %v", err)
	}
	a := d.match(t, 1, js)
	if got := written(a.Slots); got != "0@n9 1@n2" {
		t.Errorf("the repeat says %s", got)
	}
	var names []string
	for _, v := range a.R.Vertices {
		names = append(names, v.Type+" "+v.Name)
	}
	want := []string{"core ", "core core0", "node n2", "rack r2", "cluster cluster0"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the whole differs (-want +got):\n%s", diff)
	}
}

// TestAPanicEndsTheEpoch checks that no call reads what a panic left behind: the epoch ends, and a
// Reset begins another.
func TestAPanicEndsTheEpoch(t *testing.T) {
	calls := map[string]func(*driver) error{
		"a match": func(d *driver) error {
			_, err := d.e.Match(t.Context(), d.request(1, matchtest.Slots("a", 1, pod...)))
			return err
		},
		"an update": func(d *driver) error {
			return d.e.Update(t.Context(), d.epoch, match.Job{ID: 9, Slots: []match.Slot{matchtest.Held("k", "n00000", matchtest.GPUs(1))}})
		},
		"a node": func(d *driver) error { return d.e.PutNode(t.Context(), d.epoch, cluster(3)[2]) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			d.load(t, cluster(2)...)
			d.e.Break()
			func() {
				defer func() {
					if recover() == nil {
						t.Error("it did not panic")
					}
				}()
				t.Errorf("it ended with %v", call(d))
			}()
			for name, call := range calls {
				if err := call(d); !errors.Is(err, match.ErrStale) {
					t.Errorf("%s after it: %v, want %v", name, err, match.ErrStale)
				}
			}
			was := d.epoch
			d.load(t, cluster(2)...)
			if d.epoch == was {
				t.Errorf("the epoch is %d again", was)
			}
			if err := call(d); err != nil {
				t.Errorf("after a Reset: %v", err)
			}
		})
	}
}
