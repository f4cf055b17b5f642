package traverser

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

func TestSlotsNameTheirNode(t *testing.T) {
	yes := true
	rack := several("slot", 1, several("rack", 1, several("node", 1)))
	exclusive := several("node", 1, several("core", 1))
	exclusive.Exclusive = &yes
	cases := map[string]struct {
		ask  jobspec.Resource
		want string // the keys and nodes
	}{
		"cores of one node":              {cores(2, 2), "0@node0 1@node0"},
		"a node itself":                  {nodes(2), "0@node0 1@node1"},
		"two nodes in one slot":          {several("slot", 1, several("node", 2)), "0@"},
		"a rack":                         {rack, "0@"},
		"below nodes":                    {several("node", 2, cores(1, 3)), "0@node0 1@node1"},
		"what is taken outside of slots": {exclusive, "@node0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := load(t, match.PolicyLonode, grown(of("cluster", 1, of("rack", 1, of("node", 3, of("core", 4))))))
			var got []string
			for _, s := range r.gets(wants(1, 0, tc.ask)).Slots {
				got = append(got, s.Key+"@"+s.Node)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("slots %q, want %q", got, tc.want)
			}
		})
	}
}

// TestDown checks that no request gets a vertex that is down or
// any vertex below it, and that jobs keep what they hold there.
func TestDown(t *testing.T) {
	for _, policy := range drawnPolicies {
		for _, path := range []string{"/cluster0", "/cluster0/rack0", "/cluster0/rack0/node0", "/cluster0/rack0/node0/core1"} {
			r := load(t, policy, small())
			r.gets(wants(1, 0, several("node", 4, several("slot", 1, several("core", 1)))))
			before, jobs := r.dump(), len(r.Jobs()[0].Slots)
			set := func(s resource.Status) {
				t.Helper()
				if err := r.SetStatus(path, s); err != nil {
					t.Fatal(err)
				}
			}
			set(resource.Down)
			same(t, "down", r.dump(), before)
			if got := len(r.Jobs()[0].Slots); got != jobs {
				t.Errorf("%d slots are held, want %d", got, jobs)
			}
			for id := match.JobID(2); ; id++ {
				a, err := r.try(wants(id, 0, cores(1, 1)))
				if err != nil {
					if !errors.Is(err, match.ErrBusy) {
						t.Errorf("%s with %s down: %v, want busy", policy, path, err)
					}
					break
				}
				if strings.HasPrefix(held(a)+"/", path+"/") {
					t.Fatalf("%s gives out %s with %s down", policy, held(a), path)
				}
			}
			for _, j := range r.Jobs() {
				r.Release(j.ID)
			}
			r.fails(wants(2, 0, cores(16, 1)), match.ErrBusy)
			if _, err := r.try(wants(2, 0, cores(16, 1), doing(match.Satisfiability))); err != nil {
				t.Errorf("%s with %s down: never: %v", policy, path, err)
			}
			set(resource.Up)
			r.gets(wants(2, 0, cores(16, 1)))
			r.Release(2)
			same(t, "up again", r.dump(), load(t, policy, small()).dump())
		}
	}
}

func TestSetNodeStatus(t *testing.T) {
	r := load(t, match.PolicyLow, one(2))
	if err := r.SetNodeStatus("node1", resource.Down); err != nil {
		t.Fatal(err)
	}
	if got := r.found("status=down", 0); len(got) != 3 || got[0] != "/cluster0/node1" {
		t.Errorf("down: %q, want node1 and its cores", got)
	}
	if err := r.SetNodeStatus("node2", resource.Up); !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), "node2") {
		t.Errorf("SetNodeStatus(node2) = %v, want ErrInvalid that names it", err)
	}
}

func TestFind(t *testing.T) {
	r := load(t, match.PolicyLow, grown(of("cluster", 1, of("node", 3, of("core", 1)))))
	r.gets(wants(1, 0, nodes(1), lasting(10)))
	r.gets(wants(2, 0, nodes(3), lasting(10), doing(match.AllocateOrElseReserve)))
	if err := r.SetStatus("/cluster0/node2", resource.Down); err != nil {
		t.Fatal(err)
	}
	const all = "/cluster0 /cluster0/node0 /cluster0/node0/core0 /cluster0/node1 /cluster0/node1/core0 /cluster0/node2 /cluster0/node2/core0"
	const zero, last = "/cluster0/node0 /cluster0/node0/core0", "/cluster0/node2 /cluster0/node2/core0"
	const but0 = "/cluster0 /cluster0/node1 /cluster0/node1/core0 /cluster0/node2 /cluster0/node2/core0"
	for criteria, want := range map[string]string{
		"status=down":                                        last,
		"status=up or status=down":                           all,
		"sched-now=allocated":                                zero,
		"sched-now=free":                                     but0,
		"sched-now=free status=down":                         last,
		"sched-now=free and (status=down)":                   last,
		"sched-future=free":                                  "/cluster0",
		"sched-future=reserved and sched-now=allocated":      zero,
		"status=down or sched-now=allocated":                 zero + " " + last,
		"(status=down or sched-now=allocated) and status=up": zero,
		"status=down or sched-now=allocated and status=down": last,
		"jobid-alloc=1":                                      zero,
		"jobid-reserved=1":                                   "",
		"jobid-reserved=2 and sched-now=allocated":           zero,
		"names=node1,node2 and status=up":                    "/cluster0/node1",
		"property=gpu":                                       "",
	} {
		if got := strings.Join(r.found(criteria, 0), " "); got != want {
			t.Errorf("%s: %q, want %q", criteria, got, want)
		}
	}
	set, err := r.Find("jobid-alloc=1", 0)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for i := range set.Vertices {
		order = append(order, set.Vertices[i].Name)
	}
	if !slices.Equal(order, []string{"core0", "node0", "cluster0"}) {
		t.Errorf("order %q; want each after what it contains, the way up last", order)
	}
	for criteria, want := range map[string]string{
		"": "missing", "status": "status", "status=": "status=", "status=sideways": "sideways", "colour=red": "colour",
		"status=up and": "missing", "(status=up": ")", "status=up)": ")", "or": "or", "jobid-alloc=x": `"x"`,
		strings.Repeat("(", 100) + "status=up" + strings.Repeat(")", 100): "deeper",
	} {
		if _, err := r.Find(criteria, 0); !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q) = %v, want ErrInvalid that says %q", criteria, err, want)
		}
	}
}

// learned returns what the edges and filters keep of past bookings.
func (r *rig) learned() []string {
	var list []string
	for u := range vid(len(r.g.typ)) {
		if in := r.g.in(u); in != nil && in.free != nil {
			line := r.g.path(u)
			if in.free.booked {
				line += " was booked"
			}
			list = append(list, line)
		}
	}
	return append(list, "labels "+strings.Repeat("x", len(r.g.labels)))
}

// TestExpected checks that what other jobs are about to take is not given out, and not booked.
func TestExpected(t *testing.T) {
	g := small()
	expecting := func(paths ...string) func(*match.Request) {
		return func(q *match.Request) { q.Expected = holding(t, 7, g, paths...).Slots }
	}
	r := load(t, match.PolicyFirst, g)
	before, knew := r.dump(), r.learned()
	r.fails(wants(1, 0, cores(16, 1), expecting("/cluster0/rack0/node0/core0")), match.ErrBusy)
	r.fails(wants(1, 0, nodes(4), expecting("/cluster0/rack0/node0/core0")), match.ErrBusy)
	r.fails(wants(1, 0, nodes(3), expecting("/cluster0/rack0")), match.ErrBusy)
	r.fails(wants(1, 0, cores(1, 1), expecting("/cluster0")), match.ErrBusy)
	r.gets(wants(1, 0, cores(16, 1), expecting("/cluster0/rack0"), doing(match.Satisfiability)))
	same(t, "dump", r.dump(), before)
	same(t, "learned", r.learned(), knew)
	a := r.gets(wants(1, 0, cores(15, 1), expecting("/cluster0/rack0/node0/core0")))
	if strings.Contains(held(a)+" ", "/cluster0/rack0/node0/core0 ") {
		t.Errorf("%s are given out, core0 among them, which others are about to take", held(a))
	}
	if again := r.gets(wants(1, 0, cores(15, 1))); held(again) != held(a) {
		t.Errorf("the request again, with nothing expected: %s, want %s", held(again), held(a))
	}
	r.Release(1)
	r.gets(wants(2, 0, nodes(4)))
	before = r.dump()
	r.fails(wants(3, 0, cores(1, 1), expecting("/cluster0/rack0/node0/core0")), match.ErrBusy)
	same(t, "expected of what is held", r.dump(), before)
}

// TestIgnore checks that a request may use what ignored
// jobs hold, and that these jobs hold it again afterwards.
func TestIgnore(t *testing.T) {
	ignoring := func(ids ...match.JobID) func(*match.Request) {
		return func(q *match.Request) { q.Op, q.Ignore = match.WithoutAllocating, ids }
	}
	r := load(t, match.PolicyFirst, small())
	r.gets(wants(1, 0, nodes(2)))
	r.gets(wants(2, 0, nodes(2)))
	before, knew := r.dump(), r.learned()
	r.fails(wants(3, 0, nodes(1), doing(match.WithoutAllocating)), match.ErrBusy)
	if a := r.gets(wants(3, 0, nodes(2), ignoring(1, 1, 77))); held(a) == "" {
		t.Error("nothing is answered")
	}
	r.fails(wants(3, 0, nodes(3), ignoring(1)), match.ErrBusy)
	r.gets(wants(3, 0, nodes(4), ignoring(2, 1)))
	r.gets(wants(1, 0, nodes(3), func(q *match.Request) { ignoring(1, 2)(q) }))
	same(t, "dump", r.dump(), before)
	same(t, "learned", r.learned(), knew)
	if jobs := r.Jobs(); len(jobs) != 2 {
		t.Errorf("%d jobs, want 2", len(jobs))
	}
}
