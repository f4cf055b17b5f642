package traverser

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// TestClocksFarOff checks that calls end, and that
// jobs keep what they hold, at any time of the clock.
func TestClocksFarOff(t *testing.T) {
	for name, now := range map[string]time.Time{
		"the year 2200":    time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
		"the year 3000":    time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC),
		"the year 300":     time.Date(300, 1, 1, 0, 0, 0, 0, time.UTC),
		"the last instant": time.Unix(1<<62, 0),
		"the first":        time.Unix(-1<<62, 0),
		"none":             {},
	} {
		t.Run(name, func(t *testing.T) {
			r := load(t, match.PolicyLow, one(2))
			r.gets(wants(1, 1_790_000_000, nodes(1), lasting(60)))
			q := wants(2, 0, nodes(2), lasting(60))
			q.Now = now
			r.fails(q, match.ErrBusy)
			q = wants(3, 0, nodes(1), lasting(60))
			q.Now = now
			if a := r.gets(q); !a.End.IsZero() && !a.End.After(a.Start) {
				t.Errorf("from %s to %s", a.Start, a.End)
			}
			r.Release(1)
			r.Release(3)
			q.ID = 4
			r.gets(q)
		})
	}
}

// TestUpdateWithAnEndFarOff checks that what is held far in the future is held.
func TestUpdateWithAnEndFarOff(t *testing.T) {
	r := load(t, match.PolicyLow, one(1))
	a := r.gets(wants(1, 0, nodes(1)))
	r.Release(1)
	j := match.Job{ID: 2, Start: seconds(1_790_000_000), End: time.Date(3026, 1, 1, 0, 0, 0, 0, time.UTC), Slots: a.Slots}
	if err := r.Update(j); err != nil {
		t.Fatal(err)
	}
	r.fails(wants(3, 5_000_000_000, nodes(1), lasting(1)), match.ErrBusy)
}

func TestAnswersAreTheCallersToChange(t *testing.T) {
	g := one(1)
	g.Vertices[1].Properties = map[string]string{"zone": "a"}
	r := load(t, match.PolicyLow, g)
	spoil := func(vertices []resource.Share) {
		for i := range vertices {
			clear(vertices[i].Properties)
			vertices[i].Path = "/changed"
		}
	}
	spoil(r.gets(wants(1, 0, nodes(1))).R.Vertices)
	set, err := r.Find("status=up", 0)
	if err != nil {
		t.Fatal(err)
	}
	spoil(set.Vertices)
	for _, n := range r.Nodes("", 10) {
		clear(n.Graph.Vertices[1].Properties)
	}
	if got := r.found("property=zone", 0); len(got) == 0 {
		t.Error("no vertex has the property any more")
	}
}

// TestReservationsAreNotSoughtForEver checks that a search for a
// reservation is bounded, and that the refusal names that reason.
func TestReservationsAreNotSoughtForEver(t *testing.T) {
	const n = 50
	r := load(t, match.PolicyLonode, grown(of("cluster", 1, of("node", n, of("core", 16)))))
	// Every node has a job with a different end, and a job without an end.
	for i := range n {
		r.gets(wants(match.JobID(i+1), 0, cores(1, 8), lasting(int64(1000+i))))
		r.gets(wants(match.JobID(n+i+1), 0, cores(1, 8)))
	}
	a, err := r.try(wants(3*n, 0, nodes(1), lasting(1), doing(match.AllocateOrElseReserve)))
	var refusal *match.Refusal
	if !errors.As(err, &refusal) || !errors.Is(err, match.ErrBusy) || refusal.Reason.Code != match.TooFew {
		t.Fatalf("%v, %v; want busy, and no time found", a, err)
	}
	whole := r.attempt.seen
	r.budget = whole / 2
	_, err = r.try(wants(3*n, 0, nodes(1), lasting(1), doing(match.AllocateOrElseReserve)))
	if !errors.As(err, &refusal) || !errors.Is(err, match.ErrBusy) || refusal.Reason.Code != match.NotFound {
		t.Fatalf("%v, want busy, and %s", err, match.NotFound)
	}
	if r.attempt.seen > whole*3/4 {
		t.Errorf("%d vertices were looked through, %d would be without a bound", r.attempt.seen, whole)
	}
}

func TestTooManyTypes(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"graph":{"nodes":[{"id":"0","metadata":{"type":"cluster","paths":{"containment":"/cluster0"}}}`)
	for i := range maxTypes + 1 {
		fmt.Fprintf(&text, `,{"id":"%d","metadata":{"type":"t%d","paths":{"containment":"/cluster0/t%d%d"}}}`, i+1, i, i, i+1)
	}
	text.WriteString(`],"edges":[]}}`)
	if _, err := Read([]byte(text.String())); !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), "types") {
		t.Errorf("Read() = %v, want an error that says types", err)
	}
}

// TestOtherSubsystemsAreKept checks that vertices and edges
// of other subsystems are kept, also while the graph changes.
func TestOtherSubsystemsAreKept(t *testing.T) {
	g := one(2)
	apart := resource.Vertex{UniqID: 99, Type: "pdu", Basename: "pdu", Name: "pdu0", Rank: resource.NoRank, Size: 1,
		Paths: map[string]string{"power": "/pdu0"}}
	g.Vertices = append(g.Vertices, apart)
	last := len(g.Vertices) - 1
	for i := range g.Vertices {
		if g.Vertices[i].Type == "node" {
			g.Edges = append(g.Edges, resource.Edge{Source: last, Target: i, Subsystem: "power"})
		}
	}
	r := load(t, match.PolicyLow, g)
	powered := func() (names []string) {
		w := r.Graph()
		for _, e := range w.Edges {
			if e.Subsystem == "power" {
				names = append(names, w.Vertices[e.Source].Name+" "+w.Vertices[e.Target].Name)
			}
		}
		return names
	}
	if got := fmt.Sprint(powered()); got != "[pdu0 node0 pdu0 node1]" {
		t.Errorf("power goes %s", got)
	}
	if err := r.Remove("/cluster0/node0"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(powered()); got != "[pdu0 node1]" {
		t.Errorf("without node0 power goes %s", got)
	}
}
