package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flux-k8s/fluence/test/golden"
)

// options are the library's options.
type options struct {
	LoadFormat   string `json:"load_format"`
	Policy       string `json:"matcher_policy"`
	Subsystems   string `json:"matcher_name"`
	Format       string `json:"match_format"`
	PruneFilters string `json:"prune_filters"`
}

// A job is a job that the model has allocated or reserved.
type job struct {
	reserved, cancelled bool
	at                  int64
}

type model struct {
	g      *graph
	policy policy
	format string
	queue  string // the last one named; it stays in all later results
	jobs   map[uint64]*job
}

// Open starts a model of the library. It is a golden.Open.
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

// A refusal is a status and its reason.
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

// nothing returns the answer for a match without a result. The
// library writes an empty result too, and rlite cannot represent one.
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
