package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// A Program is a matcher that has loaded a graph. Every call is made at time 0.
type Program interface {
	// Match answers with Status, and where resources were found with JobID, At,
	// Alloc, and R in the format that the program was opened with. Op is a MatchOp.
	Match(op, jobspec string) Answer
	// Satisfy answers with Status Satisfiable, Unsatisfiable or Invalid.
	Satisfy(jobspec string) Answer
	// Cancel answers with OK.
	Cancel(jobid uint64, noentOK bool) Answer
	// Info answers with OK, and of a job that there is or was with Mode, Reserved
	// and At.
	Info(jobid uint64) Answer
}

// Open starts a program with a graph (JGF) and the library's options (a JSON
// object). It fails where the library would refuse them.
type Open func(graph, options []byte) (Program, error)

// unknown stands for numbers that no answer gave out.
const unknown = 1 << 62

// Play makes the calls of a case in order and fails at the first answer that
// differs. It leaves the case as it is.
func Play(c *Case, open Open) error {
	options, err := c.OptionsText()
	if err != nil {
		return err
	}
	program, err := open(c.GraphText, options)
	switch {
	case err != nil && c.Expect.Init.OK:
		return fmt.Errorf("the graph is to be taken: %w", err)
	case err == nil && !c.Expect.Init.OK:
		return fmt.Errorf("the graph is to be refused: %q", c.Expect.Init.ErrMsg)
	case err != nil && err.Error() == "":
		return fmt.Errorf("the graph is refused without a word")
	case err != nil:
		return nil
	}
	ours := map[uint64]uint64{} // by the library's numbers
	for i, s := range c.Steps {
		want := &c.Expect.Steps[i]
		got := s.call(program, c.Jobspecs, ours)
		if err := s.compare(want, &got, c.Format()); err != nil {
			return fmt.Errorf("step %d of %d, %s: %w", i, len(c.Steps), s, err)
		}
		if want.JobID != 0 && (want.Status == Allocated || want.Status == Reserved) {
			ours[want.JobID] = got.JobID
		}
	}
	return nil
}

// Record makes the calls of a case and writes the answers into it as those that
// are wanted. It fails if the program gives a number out twice.
func Record(c *Case, open Open) error {
	options, err := c.OptionsText()
	if err != nil {
		return err
	}
	c.Expect = Expect{}
	program, err := open(c.GraphText, options)
	if err != nil {
		c.Expect.Init.ErrMsg = err.Error()
		return nil
	}
	c.Expect.Init.OK = true
	ids := map[uint64]uint64{}
	for _, s := range c.Steps {
		got := s.call(program, c.Jobspecs, ids)
		if got.JobID != 0 {
			if _, twice := ids[got.JobID]; twice {
				return fmt.Errorf("%s: number %d is given out twice", s, got.JobID)
			}
			ids[got.JobID] = got.JobID
		}
		c.Expect.Steps = append(c.Expect.Steps, got)
	}
	return nil
}

// String names the call.
func (s Step) String() string {
	switch s.Op {
	case OpMatch:
		return s.MatchOp + " " + s.Jobspec
	case OpSatisfy:
		return s.Op + " " + s.Jobspec
	}
	return fmt.Sprintf("%s %d", s.Op, s.JobID)
}

func (s Step) call(p Program, jobspecs map[string]string, ours map[uint64]uint64) Answer {
	id, known := ours[s.JobID]
	if !known {
		id = unknown + s.JobID
	}
	switch s.Op {
	case OpMatch:
		return p.Match(s.MatchOp, jobspecs[s.Jobspec])
	case OpSatisfy:
		return p.Satisfy(jobspecs[s.Jobspec])
	case OpCancel:
		return p.Cancel(id, s.NoentOK)
	}
	return p.Info(id)
}

// compare says in which field an answer differs from the one that is wanted.
func (s Step) compare(want, got *Answer, format string) error {
	switch s.Op {
	case OpCancel:
		return equal("ok", want.OK, got.OK)
	case OpInfo:
		if err := equal("ok", want.OK, got.OK); err != nil || !want.OK {
			return err
		}
		return first(equal("mode", want.Mode, got.Mode), equal("reserved", want.Reserved, got.Reserved), equal("at", want.At, got.At))
	case OpSatisfy:
		if err := s.status(want, got); err != nil || wrong(want.Status) {
			return err
		}
		return equal("sat", want.Sat, got.Sat)
	}
	if err := s.status(want, got); err != nil {
		return err
	}
	if want.Status != Allocated && want.Status != Reserved {
		return nil
	}
	err := equal("at", want.At, got.At)
	if want.Alloc != nil {
		err = first(err, sameList(want.Alloc, got.Alloc))
	}
	if want.R != "" && slices.Contains([]string{"jgf", "rlite", "rv1", "rv1_nosched"}, format) {
		err = first(err, sameValue(want.R, got.R))
	}
	return err
}

func wrong(status string) bool { return status == Invalid || status == statusError }

// status compares with the three liberties.
func (s Step) status(want, got *Answer) error {
	refused := got.Status == Busy || got.Status == Unsatisfiable
	switch {
	case want.Status == got.Status:
		return nil
	case want.Status == NoMatch && (refused || wrong(got.Status)):
		return nil
	case wrong(want.Status) && wrong(got.Status):
		return nil
	case (s.MatchOp == Allocate || s.MatchOp == WithoutAllocating) && (want.Status == Busy || want.Status == Unsatisfiable) && refused:
		return nil
	}
	return fmt.Errorf("status: %s is wanted, not %s %s (%s)", want.Status, got.Status, got.ErrMsg, want.ErrMsg)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func equal[T comparable](field string, want, got T) error {
	if want != got {
		return fmt.Errorf("%s: %v is wanted, not %v", field, want, got)
	}
	return nil
}

func sameList(want, got []string) error {
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			return fmt.Errorf("alloc: differs from entry %d on:\nwanted %q\ngot    %q", i, want, got)
		}
	}
	return nil
}

// sameValue compares two JSON texts by their values, whole numbers exactly.
func sameValue(want, got string) error {
	w, err := decode(want)
	if err != nil {
		return fmt.Errorf("R that is wanted: %w", err)
	}
	g, err := decode(got)
	if err != nil {
		return fmt.Errorf("R: %q: %w", got, err)
	}
	if !reflect.DeepEqual(w, g) {
		return fmt.Errorf("R: differs:\nwanted %s\ngot    %s", want, got)
	}
	return nil
}

func decode(text string) (any, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}
