package golden

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A script answers from a list, whatever the call.
type script struct {
	answers []Answer
	calls   []uint64 // the jobs of cancels and infos
}

func (s *script) next() Answer {
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a
}
func (s *script) Match(_, _ string) Answer { return s.next() }
func (s *script) Satisfy(_ string) Answer  { return s.next() }
func (s *script) Cancel(id uint64, _ bool) Answer {
	s.calls = append(s.calls, id)
	return s.next()
}
func (s *script) Info(id uint64) Answer {
	s.calls = append(s.calls, id)
	return s.next()
}

func (s *script) open(_, _ []byte) (Program, error) { return s, nil }

// sample returns a case with one step of each kind and matching answers.
func sample() Case {
	steps := []Step{
		{Op: OpMatch, MatchOp: Allocate, Jobspec: "j"}, {Op: OpMatch, MatchOp: AllocateOrElseReserve, Jobspec: "j"},
		{Op: OpMatch, MatchOp: AllocateWithSatisfy, Jobspec: "j"}, {Op: OpSatisfy, Jobspec: "j"},
		{Op: OpInfo, JobID: 8}, {Op: OpCancel, JobID: 7}, {Op: OpInfo, JobID: 99},
	}
	answers := []Answer{
		{Status: Allocated, JobID: 7, Alloc: []string{"/c/n0[1:x]", "/c[1:s]"}, R: `{"n": [1, 2]}`},
		{Status: Reserved, JobID: 8, At: 60, Alloc: []string{"/c/n0[1:x]", "/c[1:s]"}},
		{Status: Unsatisfiable}, {Status: Satisfiable, Sat: true},
		{OK: true, Mode: "RESERVED", Reserved: true, At: 60}, {OK: true}, {},
	}
	return Case{
		ID: "sample", Family: "test", GraphText: json.RawMessage(`{}`), Options: json.RawMessage(`{}`),
		Jobspecs: map[string]string{"j": ""}, Steps: steps, Expect: Expect{Init: Init{OK: true}, Steps: answers},
	}
}

func answersOf(c Case) []Answer {
	list := make([]Answer, len(c.Expect.Steps))
	for i, a := range c.Expect.Steps {
		list[i] = a
		list[i].Alloc = append([]string(nil), a.Alloc...)
	}
	return list
}

func TestPlaySeesEveryFieldThatDiffers(t *testing.T) {
	cases := map[string]struct {
		step   int
		change func(*Answer)
		want   string
	}{
		"another status":                      {0, func(a *Answer) { a.Status = Busy }, "status"},
		"reserved instead of allocated":       {0, func(a *Answer) { a.Status = Reserved }, "status"},
		"another start":                       {1, func(a *Answer) { a.At = 61 }, "at"},
		"a vertex in another place":           {0, func(a *Answer) { a.Alloc[0], a.Alloc[1] = a.Alloc[1], a.Alloc[0] }, "alloc"},
		"a vertex less":                       {0, func(a *Answer) { a.Alloc = a.Alloc[:1] }, "alloc"},
		"a vertex more":                       {0, func(a *Answer) { a.Alloc = append(a.Alloc, "/c[1:s]") }, "alloc"},
		"shared instead of exclusive":         {1, func(a *Answer) { a.Alloc[0] = "/c/n0[1:s]" }, "alloc"},
		"no vertices":                         {0, func(a *Answer) { a.Alloc = nil }, "alloc"},
		"another R":                           {0, func(a *Answer) { a.R = `{"n": [2, 1]}` }, "resources"},
		"no R":                                {0, func(a *Answer) { a.R = "" }, "resources"},
		"R and more":                          {0, func(a *Answer) { a.R += " 1" }, "resources"},
		"busy instead of never":               {2, func(a *Answer) { a.Status = Busy }, "status"},
		"satisfiable without saying so":       {3, func(a *Answer) { a.Sat = false }, "sat"},
		"unsatisfiable":                       {3, func(a *Answer) { a.Status, a.Sat = Unsatisfiable, false }, "status"},
		"another mode":                        {4, func(a *Answer) { a.Mode = "ALLOCATED" }, "mode"},
		"info: not reserved":                  {4, func(a *Answer) { a.Reserved = false }, "reserved"},
		"info: another start":                 {4, func(a *Answer) { a.At = 0 }, "at"},
		"info: not found":                     {4, func(a *Answer) { *a = Answer{} }, "ok"},
		"cancel: not found":                   {5, func(a *Answer) { a.OK = false }, "ok"},
		"info of a job that there is not: ok": {6, func(a *Answer) { a.OK = true }, "ok"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := sample()
			s := &script{answers: answersOf(c)}
			tc.change(&s.answers[tc.step])
			err := Play(&c, s.open)
			if err == nil || !strings.Contains(err.Error(), ": "+tc.want+": ") {
				t.Errorf("Play: %v, want that %s differs", err, tc.want)
			}
		})
	}
	c := sample()
	if err := Play(&c, (&script{answers: answersOf(c)}).open); err != nil {
		t.Errorf("the same answers: %v", err)
	}
}

func TestPlayTranslatesTheNumbersOfJobs(t *testing.T) {
	c := sample()
	s := &script{answers: answersOf(c)}
	s.answers[0].JobID, s.answers[1].JobID = 1001, 1002
	if err := Play(&c, s.open); err != nil {
		t.Fatal(err)
	}
	if s.calls[0] != 1002 || s.calls[1] != 1001 || s.calls[2] == 99 || s.calls[2] == 1001 || s.calls[2] == 1002 {
		t.Errorf("jobs 8, 7 and 99 are asked for as %d, want 1002, 1001 and a number that was not given out", s.calls)
	}
}

func TestTheThreeLiberties(t *testing.T) {
	cases := map[string]struct {
		op, want, got string
		same          bool
	}{
		"nomatch met by busy":                           {AllocateOrElseReserve, NoMatch, Busy, true},
		"nomatch met by unsatisfiable":                  {AllocateOrElseReserve, NoMatch, Unsatisfiable, true},
		"nomatch met by invalid":                        {AllocateOrElseReserve, NoMatch, Invalid, true},
		"nomatch not met by allocated":                  {AllocateOrElseReserve, NoMatch, Allocated, false},
		"nomatch not met by what is no answer":          {AllocateOrElseReserve, NoMatch, "unexpected", false},
		"error met by invalid":                          {Allocate, statusError, Invalid, true},
		"invalid met by error":                          {Allocate, Invalid, statusError, true},
		"error not met by busy":                         {Allocate, statusError, Busy, false},
		"allocate: busy met by unsatisfiable":           {Allocate, Busy, Unsatisfiable, true},
		"allocate: busy not met by nomatch":             {Allocate, Busy, NoMatch, false},
		"reserve: busy not met by unsatisfiable":        {AllocateOrElseReserve, Busy, Unsatisfiable, false},
		"satisfiability: unsatisfiable not met by busy": {AllocateWithSatisfy, Unsatisfiable, Busy, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := Step{Op: OpMatch, MatchOp: tc.op}
			err := s.compare(&Answer{Status: tc.want}, &Answer{Status: tc.got}, "jgf")
			if (err == nil) != tc.same {
				t.Errorf("%s is wanted, %s given: %v", tc.want, tc.got, err)
			}
		})
	}
}

func TestPlayOfAGraphThatIsToBeRefused(t *testing.T) {
	c := sample()
	c.Expect = Expect{}
	refuse := func(err error) Open { return func(_, _ []byte) (Program, error) { return nil, err } }
	if err := Play(&c, refuse(errors.New("no root"))); err != nil {
		t.Errorf("refused with a word: %v", err)
	}
	if Play(&c, refuse(errors.New(""))) == nil {
		t.Error("refused without a word, and that passes")
	}
	if Play(&c, (&script{}).open) == nil {
		t.Error("taken, and that passes")
	}
	c = sample()
	if Play(&c, refuse(errors.New("no root"))) == nil {
		t.Error("refused though it is to be taken, and that passes")
	}
}

func TestLoadRefuses(t *testing.T) {
	whole := func(c *Case) string {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	with := func(change func(*Case)) string {
		c := sample()
		change(&c)
		return whole(&c)
	}
	cases := map[string]struct{ text, want string }{
		"what is no JSON":                 {"{", "unexpected end"},
		"a case without a graph":          {with(func(c *Case) { c.GraphText = nil }), "no graph"},
		"a graph that is not there":       {with(func(c *Case) { c.GraphText, c.Graph = nil, "graphs/none.json" }), "none.json"},
		"too few answers":                 {with(func(c *Case) { c.Expect.Steps = c.Expect.Steps[1:] }), "7 steps, 6 answers"},
		"a jobspec that is not there":     {with(func(c *Case) { c.Steps[3].Jobspec = "k" }), `step 3: jobspec "k"`},
		"an unknown call":                 {with(func(c *Case) { c.Steps[2].Op = "grow" }), `step 2: op "grow"`},
		"an unknown kind of match":        {with(func(c *Case) { c.Steps[2].MatchOp = "now" }), `step 2: match_op "now"`},
		"options that are no object":      {with(func(c *Case) { c.Options = json.RawMessage("[]") }), "options"},
		"answers though graph is refused": {with(func(c *Case) { c.Expect.Init.OK = false }), "answers"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "cases"), 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err == nil {
				t.Error("a directory without cases is read")
			}
			if err := os.WriteFile(filepath.Join(dir, "cases", "one.json"), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "one.json") {
				t.Errorf("Load: %v, want one that names one.json and %q", err, tc.want)
			}
		})
	}
}

func TestLoadReadsAll(t *testing.T) {
	dir := filepath.Join("..", "testdata", "golden")
	files, err := filepath.Glob(filepath.Join(dir, "cases", "*"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != len(files) || len(cases) < 360 {
		t.Errorf("%d cases of %d files, want all and at least 360", len(cases), len(files))
	}
	for _, c := range cases {
		if c.Expect.Init.OK && len(c.Steps) == 0 {
			t.Errorf("%s has no step", c.ID)
		}
	}
}

func TestShrinkLeavesWhatFails(t *testing.T) {
	c := sample()
	c.GraphText = json.RawMessage(`{"graph":{"nodes":[{"id":"0"},{"id":"1"},{"id":"2"},{"id":"3"}],"edges":[{"source":"0","target":"1"},{"source":"1","target":"2"},{"source":"2","target":"1"},{"source":"0","target":"3"}]}}`)
	c.Jobspecs["unused"] = "x"
	right := func(_, _ []byte) (Program, error) { return &script{answers: make([]Answer, 7)}, nil }
	small := Shrink(c, right, func(c *Case) bool {
		for _, s := range c.Steps {
			if s.Op == OpSatisfy {
				return strings.Contains(string(c.GraphText), `"3"`)
			}
		}
		return false
	})
	if len(small.Steps) != 1 || small.Steps[0].Op != OpSatisfy || len(small.Expect.Steps) != 1 {
		t.Errorf("steps %v, want the satisfy alone", small.Steps)
	}
	if len(small.Jobspecs) != 1 || graphSize(small.GraphText) != 2 || strings.Contains(string(small.GraphText), `"1"`) {
		t.Errorf("jobspecs %v, graph %s: want those that matter", small.Jobspecs, small.GraphText)
	}
}
