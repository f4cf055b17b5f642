package golden

import (
	"errors"
	"fmt"
)

// A Program is a matcher that has loaded a graph. Every call is made at time 0.
type Program interface {
	// Match answers with Status. If resources were found it also sets JobID,
	// At, Alloc, and R in the format of the program's options. op is a MatchOp.
	Match(op, jobspec string) Answer
	// Satisfy answers with Status Satisfiable, Unsatisfiable or Invalid.
	Satisfy(jobspec string) Answer
	// Cancel answers with OK.
	Cancel(jobid uint64, noentOK bool) Answer
	// Info answers with OK. For a job that exists or existed it also sets Mode, Reserved and At.
	Info(jobid uint64) Answer
}

// Open starts a program with a graph (JGF) and the library's options
// (a JSON object). It fails if the library would refuse them.
type Open func(graph, options []byte) (Program, error)

// begin opens a program. It returns nil and the reason if graph or options are refused.
func begin(open Open, graph, options []byte) (p Program, refusal string) {
	p, err := open(graph, options)
	if err != nil {
		return nil, err.Error()
	}
	return p, ""
}

// unknown is added to numbers that no answer has had.
const unknown = 1 << 62

// Play makes the calls of a case in order, and fails at the
// first answer that differs. It does not change the case.
func Play(c *Case, open Open) error {
	options, err := c.OptionsText()
	if err != nil {
		return err
	}
	program, refusal := begin(open, c.GraphText, options)
	switch {
	case program == nil && c.Expect.Init.OK:
		return fmt.Errorf("the graph is to be taken: %s", refusal)
	case program != nil && !c.Expect.Init.OK:
		return fmt.Errorf("the graph is to be refused: %q", c.Expect.Init.ErrMsg)
	case program == nil && refusal == "":
		return errors.New("the graph is refused without a word")
	case program == nil:
		return nil
	}
	ours := map[uint64]uint64{} // the program's numbers by the library's
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

// Record makes the calls of a case and writes the answers into the case
// as the expected ones. It fails if the program uses a number twice.
func Record(c *Case, open Open) error {
	options, err := c.OptionsText()
	if err != nil {
		return err
	}
	c.Expect = Expect{}
	program, refusal := begin(open, c.GraphText, options)
	if program == nil {
		c.Expect.Init.ErrMsg = refusal
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

// String returns the name and the argument of the call.
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
