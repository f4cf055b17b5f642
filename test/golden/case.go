// Package golden reads recorded answers of Fluxion and compares them with a
// matcher's. test/testdata/golden/README.md describes what is compared, and how.
package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A Case is a series of calls on one graph, and the expected answers.
type Case struct {
	ID     string `json:"id"`
	Family string `json:"family"`
	Title  string `json:"title"`
	// Graph is the path of the graph's file, relative to the folder
	// above the cases. It is empty if the case has GraphText.
	Graph string `json:"graph,omitempty"`
	// GraphText is the graph in JGF.
	GraphText json.RawMessage `json:"graphText,omitempty"`
	// Options are the library's options: a JSON object, or a JSON string that contains one.
	Options  json.RawMessage   `json:"options"`
	Jobspecs map[string]string `json:"jobspecs"`
	Steps    []Step            `json:"steps"`
	Expect   Expect            `json:"expect"`
	Seed     int64             `json:"seed,omitempty"`
}

// These are the calls of a Step.
const (
	OpMatch   = "match"
	OpSatisfy = "satisfy"
	OpCancel  = "cancel"
	OpInfo    = "info"
)

// These are the operations of a Step of OpMatch.
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
	// JobID is a number from an answer of Expect, or an unknown number.
	JobID   uint64 `json:"jobid,omitempty"`
	NoentOK bool   `json:"noent_ok,omitempty"`
}

// Expect has the expected answers, one for each step. It has none if the graph must be refused.
type Expect struct {
	Init  Init     `json:"init"`
	Steps []Answer `json:"steps"`
}

// Init is whether the graph must be accepted.
type Init struct {
	OK     bool   `json:"ok"`
	ErrMsg string `json:"errmsg,omitempty"`
}

// These are the values of Status in an Answer to a match or a satisfy.
const (
	Allocated     = "allocated"
	Reserved      = "reserved"
	Busy          = "busy"
	Unsatisfiable = "unsatisfiable"
	NoMatch       = "nomatch"
	Invalid       = statusWrong
	Satisfiable   = statusSatisfiable
)

// An Answer is the result of one step. Fields for other kinds of steps are zero.
type Answer struct {
	Status string `json:"status,omitempty"`
	// JobID is the program's number of a job that was allocated or reserved.
	JobID uint64 `json:"jobid,omitempty"`
	// At is the start in seconds.
	At int64 `json:"at,omitempty"`
	// Alloc lists vertices in emission order. It is nil if the case does not record them.
	Alloc []string `json:"alloc,omitempty"`
	// R is the resources in the case's format. It is "" if the case does not record them.
	R   string `json:"R,omitempty"`
	Sat bool   `json:"sat,omitempty"`
	// OK reports whether a cancel or an info found its job.
	OK bool `json:"ok,omitempty"`
	// Mode of a job is ALLOCATED, RESERVED or CANCELED.
	Mode     string `json:"mode,omitempty"`
	Reserved bool   `json:"reserved,omitempty"`
	ErrMsg   string `json:"errmsg,omitempty"`
}

// Load reads all cases in dir/cases, in the order of their ids. It fails if there is no case, or
// if a case cannot be read, names an unknown jobspec or call, or has not one answer for each step.
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

// Format returns the option match_format, "jgf" if it is not set.
func (c *Case) Format() string {
	options := struct {
		Format string `json:"match_format"`
	}{"jgf"}
	if text, err := c.OptionsText(); err != nil || json.Unmarshal(text, &options) != nil {
		return "" // the program must refuse such options
	}
	return options.Format
}
