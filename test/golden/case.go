// Package golden reads recorded answers of Fluxion and plays them against a
// matcher. What is compared, and how, stands in test/testdata/golden/README.md.
package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A Case is a series of calls on one graph, and the answers that are wanted.
type Case struct {
	ID     string `json:"id"`
	Family string `json:"family"`
	Title  string `json:"title"`
	// Graph is the path of the graph's file, from the directory of the cases up;
	// empty where GraphText is written into the case.
	Graph string `json:"graph,omitempty"`
	// GraphText is the graph as JGF.
	GraphText json.RawMessage `json:"graphText,omitempty"`
	// Options are the library's: a JSON object, or a JSON string that holds one.
	Options  json.RawMessage   `json:"options"`
	Jobspecs map[string]string `json:"jobspecs"`
	Steps    []Step            `json:"steps"`
	Expect   Expect            `json:"expect"`
	Seed     int64             `json:"seed,omitempty"`
}

// The calls of a Step.
const (
	OpMatch   = "match"
	OpSatisfy = "satisfy"
	OpCancel  = "cancel"
	OpInfo    = "info"
)

// What a Step of OpMatch is to do.
const (
	Allocate                 = "allocate"
	AllocateOrElseReserve    = "allocate_orelse_reserve"
	AllocateWithSatisfy      = "allocate_with_satisfiability"
	WithoutAllocating        = "without_allocating"
	WithoutAllocatingFuture  = "without_allocating_future"
	statusSatisfiable        = "satisfiable"
	statusError, statusWrong = "error", "invalid"
)

// A Step is one call.
type Step struct {
	Op      string `json:"op"`
	MatchOp string `json:"match_op,omitempty"`
	// Jobspec is a key of the case's Jobspecs.
	Jobspec string `json:"jobspec,omitempty"`
	// JobID is a number that an answer of Expect gave out, or one that none did.
	JobID   uint64 `json:"jobid,omitempty"`
	NoentOK bool   `json:"noent_ok,omitempty"`
}

// Expect holds the wanted answers, one a step. There is none where the graph is
// to be refused.
type Expect struct {
	Init  Init     `json:"init"`
	Steps []Answer `json:"steps"`
}

// Init says whether the graph is to be taken.
type Init struct {
	OK     bool   `json:"ok"`
	ErrMsg string `json:"errmsg,omitempty"`
}

// The Status of an Answer to a match or a satisfy.
const (
	Allocated     = "allocated"
	Reserved      = "reserved"
	Busy          = "busy"
	Unsatisfiable = "unsatisfiable"
	NoMatch       = "nomatch"
	Invalid       = statusWrong
	Satisfiable   = statusSatisfiable
)

// An Answer is what came of one step. Fields that go with other kinds of steps
// are zero.
type Answer struct {
	Status string `json:"status,omitempty"`
	// JobID is the number that the program knows the job by, of those that were
	// allocated or reserved.
	JobID uint64 `json:"jobid,omitempty"`
	// At is the start in seconds.
	At int64 `json:"at,omitempty"`
	// Alloc lists vertices in emission order; nil where the case does not tell.
	Alloc []string `json:"alloc,omitempty"`
	// R is the resources in the case's format, "" where the case does not tell.
	R   string `json:"R,omitempty"`
	Sat bool   `json:"sat,omitempty"`
	// OK says that a cancel or an info found its job.
	OK bool `json:"ok,omitempty"`
	// Mode of a job is ALLOCATED, RESERVED or CANCELED.
	Mode     string `json:"mode,omitempty"`
	Reserved bool   `json:"reserved,omitempty"`
	ErrMsg   string `json:"errmsg,omitempty"`
}

// Load reads all cases in dir/cases, in the order of their ids. It fails for a
// case that cannot be read, that names a jobspec or a call which there is not,
// or that has not one answer a step; and where there is no case.
func Load(dir string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "cases", "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no case in %s", dir)
	}
	cases := make([]Case, len(files))
	for i, file := range files {
		if err := cases[i].load(dir, file); err != nil {
			return nil, fmt.Errorf("case %s: %w", filepath.Base(file), err)
		}
	}
	slices.SortFunc(cases, func(a, b Case) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	for i := range cases[1:] {
		if cases[i].ID == cases[i+1].ID {
			return nil, fmt.Errorf("two cases have the id %s", cases[i].ID)
		}
	}
	return cases, nil
}

func (c *Case) load(dir, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, c); err != nil {
		return err
	}
	if c.Graph != "" {
		if c.GraphText, err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(c.Graph))); err != nil {
			return err
		}
	}
	return c.validate()
}

func (c *Case) validate() error {
	switch {
	case c.ID == "" || c.Family == "":
		return fmt.Errorf("no id or no family")
	case len(c.GraphText) == 0:
		return fmt.Errorf("no graph")
	case !c.Expect.Init.OK && len(c.Expect.Steps) > 0:
		return fmt.Errorf("answers, though the graph is refused")
	case c.Expect.Init.OK && len(c.Expect.Steps) != len(c.Steps):
		return fmt.Errorf("%d steps, %d answers", len(c.Steps), len(c.Expect.Steps))
	}
	if _, err := c.OptionsText(); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	for i, s := range c.Steps {
		if err := s.validate(c.Jobspecs); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func (s Step) validate(jobspecs map[string]string) error {
	switch s.Op {
	case OpMatch:
		ops := []string{Allocate, AllocateOrElseReserve, AllocateWithSatisfy, WithoutAllocating, WithoutAllocatingFuture}
		if !slices.Contains(ops, s.MatchOp) {
			return fmt.Errorf("match_op %q: none of %q", s.MatchOp, ops)
		}
	case OpSatisfy:
	case OpCancel, OpInfo:
		return nil
	default:
		return fmt.Errorf("op %q: unknown", s.Op)
	}
	if _, ok := jobspecs[s.Jobspec]; !ok {
		return fmt.Errorf("jobspec %q: the case has none of this name", s.Jobspec)
	}
	return nil
}

// OptionsText returns the options as the text of a JSON object.
func (c *Case) OptionsText() ([]byte, error) {
	var text string
	if err := json.Unmarshal(c.Options, &text); err == nil {
		return []byte(text), nil
	}
	var object map[string]any
	if err := json.Unmarshal(c.Options, &object); err != nil {
		return nil, err
	}
	return c.Options, nil
}

// Format returns the option match_format; "jgf" where it is not given.
func (c *Case) Format() string {
	options := struct {
		Format string `json:"match_format"`
	}{"jgf"}
	if text, err := c.OptionsText(); err != nil || json.Unmarshal(text, &options) != nil {
		return "" // such options are the program's to refuse
	}
	return options.Format
}
