package fluxion_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

// A rig is an engine over the stand-in, with a graph.
type rig struct {
	*fluxion.Engine
	process *reapitest.Process
	epoch   match.Epoch
}

// newRig loads nodes into an engine over a release.
func newRig(t testing.TB, release reapitest.Release, nodes ...*resource.Graph) *rig {
	t.Helper()
	p := reapitest.NewProcess()
	return load(t, &rig{Engine: newEngine(t, release, p), process: p}, nodes...)
}

// newGrowingRig loads nodes into an engine over a library whose graph can grow and shrink.
func newGrowingRig(t testing.TB, policy string, nodes ...*resource.Graph) *rig {
	t.Helper()
	p := reapitest.NewProcess()
	return load(t, &rig{Engine: newGrowingEngine(t, policy, p), process: p}, nodes...)
}

// load loads nodes into the engine of a rig.
func load(t testing.TB, r *rig, nodes ...*resource.Graph) *rig {
	t.Helper()
	var err error
	if r.epoch, err = r.Reset(t.Context()); err != nil {
		t.Fatalf("Reset() = %v", err)
	}
	r.put(t, nodes...)
	if err := r.Ready(t.Context(), r.epoch); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
	return r
}

func (r *rig) put(t testing.TB, nodes ...*resource.Graph) {
	t.Helper()
	if err := r.PutNode(t.Context(), r.epoch, nodes...); err != nil {
		t.Fatalf("PutNode() = %v", err)
	}
}

func (r *rig) update(t testing.TB, id match.JobID, slots ...match.Slot) {
	t.Helper()
	if err := r.Update(t.Context(), r.epoch, match.Job{ID: id, Slots: slots}); err != nil {
		t.Fatalf("Update(%d) = %v", id, err)
	}
}

func (r *rig) release(t testing.TB, id match.JobID, keys ...string) {
	t.Helper()
	if err := r.Release(t.Context(), r.epoch, id, keys...); err != nil {
		t.Fatalf("Release(%d, %q) = %v", id, keys, err)
	}
}

func (r *rig) ask(id match.JobID, js *jobspec.Jobspec) match.Request {
	return match.Request{Epoch: r.epoch, ID: id, Jobspec: js, Now: matchtest.Now}
}

// places matches a jobspec that must fit, and checks where its slots are: "n1 n1 n2".
func (r *rig) places(t testing.TB, id match.JobID, js *jobspec.Jobspec, want string) *match.Allocation {
	t.Helper()
	a, err := r.Match(t.Context(), r.ask(id, js))
	r.placed(t, a, err, want)
	return a
}

// placed checks the answer to a match that must fit.
func (r *rig) placed(t testing.TB, a *match.Allocation, err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatalf("Match() = %v", err)
	}
	nodes := make([]string, len(a.Slots))
	for i, s := range a.Slots {
		nodes[i] = s.Node
	}
	if got := strings.Join(nodes, " "); got != want {
		t.Errorf("Match(%d) placed on %q, want %q", a.ID, got, want)
	}
}

// refuses matches a jobspec that must not fit.
func (r *rig) refuses(t testing.TB, id match.JobID, js *jobspec.Jobspec, verdict error) match.Reason {
	t.Helper()
	a, err := r.Match(t.Context(), r.ask(id, js))
	var refusal *match.Refusal
	if !errors.Is(err, verdict) || !errors.As(err, &refusal) {
		t.Fatalf("Match(%d) = %v, %v, want a refusal with the error %q", id, a, err, verdict)
	}
	return refusal.Reason
}

// A tally is what the library's jobs hold, by its node and type.
type tally = map[string]map[string]int64

// holds checks what the library has booked.
func (r *rig) holds(t testing.TB, want tally) {
	t.Helper()
	if diff := cmp.Diff(want, r.process.Current.Held(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what the library has booked differs (-want +got):\n%s", diff)
	}
}

// loads checks how often the graph was loaded into the library.
func (r *rig) loads(t testing.TB, want int) {
	t.Helper()
	if got := r.process.Calls["Load"]; got != want {
		t.Errorf("the graph was loaded %d times, want %d", got, want)
	}
}

// four is two nodes of four cores and 8 GiB.
func four() []*resource.Graph {
	return []*resource.Graph{
		matchtest.Node("a", nil, matchtest.Cores(4), matchtest.Memory(8)),
		matchtest.Node("b", nil, matchtest.Cores(4), matchtest.Memory(8)),
	}
}

// cores requests n slots of one core.
func cores(n int64) *jobspec.Jobspec { return matchtest.Slots("w", n, matchtest.Cores(1)) }

// boundByNode bounds the slots on a node.
func boundByNode(n int64) jobspec.SlotAttributes {
	return jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"node": n}}
}
