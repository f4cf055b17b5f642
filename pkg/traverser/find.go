package traverser

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Find returns the vertices that meet criteria, and the vertices above them, each after
// the vertices below it. As in Fluxion, the vertices that meet the criteria themselves
// are marked as exclusive. A vertex counts as down, allocated or reserved if it or a
// vertex above it is. Find fails with match.ErrInvalid for unknown criteria.
//
// Besides the criteria of match.GraphEngine there are names=NAME,...,
// property=KEY, jobid-alloc=ID and jobid-reserved=ID.
func (t *Traverser) Find(criteria string, now int64) (*resource.Set, error) {
	p := criteriaParser{words: splitCriteria(criteria)}
	c, err := p.any()
	if err == nil && p.at < len(p.words) {
		err = fmt.Errorf("%q: not expected here", p.words[p.at])
	}
	if err != nil {
		return nil, invalid("criteria: %q: %w", criteria, err)
	}
	set := &resource.Set{}
	if t.Empty() {
		return set, nil
	}
	t.advance(now)
	f := finder{t: t, holders: make(map[vid][]*job), criterion: c}
	for _, j := range t.jobs {
		for i := range j.emissions {
			if e := &j.emissions[i]; e.exclusive {
				f.holders[e.u] = append(f.holders[e.u], j)
			}
		}
	}
	f.visit(t.g.root, state{})
	set.Vertices = t.g.shares(f.out)
	return set, nil
}

// A state is the state of a vertex to which criteria apply.
type state struct {
	g         *graph
	u         vid
	down      bool
	jobs      []*job
	allocated bool
	reserved  bool
}

// A criterion reports whether a vertex meets it.
type criterion func(s *state) bool

// A finder collects the vertices that meet a criterion.
type finder struct {
	t         *Traverser
	holders   map[vid][]*job
	criterion criterion
	out       []emission
}

// visit adds each vertex at u and below that meets the criterion, and
// the vertices above it up to u. It reports whether it added any.
func (f *finder) visit(u vid, above state) bool {
	g := &f.t.g
	s := above
	s.g, s.u = g, u
	s.down = s.down || g.flags[u]&isDown != 0
	for _, j := range f.holders[u] {
		s.jobs = append(slices.Clip(s.jobs), j)
		s.allocated = s.allocated || !j.reserved
		s.reserved = s.reserved || j.reserved
	}
	listed := false
	if in := g.in(u); in != nil {
		for _, c := range in.children {
			listed = f.visit(c, s) || listed
		}
	}
	meets := f.criterion(&s)
	if !meets && !listed {
		return false
	}
	f.out = append(f.out, emission{u: u, slot: -1, exclusive: meets, amount: g.size[u]})
	return true
}

// splitCriteria splits criteria at blanks and parentheses.
func splitCriteria(text string) []string {
	text = strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)
	return strings.Fields(text)
}

// A criteriaParser parses criteria. The word "and" binds more
// tightly than "or". A blank between two criteria means "and".
type criteriaParser struct {
	words []string
	at    int
	depth int
}

func (p *criteriaParser) peek() string {
	if p.at < len(p.words) {
		return p.words[p.at]
	}
	return ""
}

// any parses criteria that are joined by "or".
func (p *criteriaParser) any() (criterion, error) {
	left, err := p.all()
	for err == nil && p.peek() == "or" {
		p.at++
		var right criterion
		if right, err = p.all(); err == nil {
			one, other := left, right
			left = func(s *state) bool { return one(s) || other(s) }
		}
	}
	return left, err
}

// all parses criteria that are joined by "and" or a blank.
func (p *criteriaParser) all() (criterion, error) {
	left, err := p.one()
	for err == nil {
		switch p.peek() {
		case "", "or", ")":
			return left, nil
		case "and":
			p.at++
		}
		var right criterion
		if right, err = p.one(); err == nil {
			one, other := left, right
			left = func(s *state) bool { return one(s) && other(s) }
		}
	}
	return nil, err
}

// maxNesting is the largest depth of parentheses in criteria.
const maxNesting = 64

// one parses a single criterion or criteria in parentheses.
func (p *criteriaParser) one() (criterion, error) {
	word := p.peek()
	p.at++
	switch {
	case word == "":
		return nil, fmt.Errorf("a criterion is missing")
	case word != "(":
		return readCriterion(word)
	case p.depth >= maxNesting:
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	p.depth++
	inside, err := p.any()
	p.depth--
	if err == nil && p.peek() != ")" {
		err = fmt.Errorf("%q is missing", ")")
	}
	p.at++
	return inside, err
}

// readCriterion parses KEY=VALUE.
func readCriterion(word string) (criterion, error) {
	key, value, ok := strings.Cut(word, "=")
	if !ok || value == "" {
		return nil, fmt.Errorf("%q: must be KEY=VALUE", word)
	}
	switch key + "=" + value {
	case "status=up":
		return func(s *state) bool { return !s.down }, nil
	case "status=down":
		return func(s *state) bool { return s.down }, nil
	case "sched-now=allocated":
		return func(s *state) bool { return s.allocated }, nil
	case "sched-now=free":
		return func(s *state) bool { return !s.allocated }, nil
	case "sched-future=reserved":
		return func(s *state) bool { return s.reserved }, nil
	case "sched-future=free":
		return func(s *state) bool { return !s.reserved }, nil
	}
	switch key {
	case "status", "sched-now", "sched-future":
		return nil, fmt.Errorf("%s: %q: unknown state", key, value)
	case "names":
		names := strings.Split(value, ",")
		return func(s *state) bool { return slices.Contains(names, s.g.name(s.u)) }, nil
	case "property":
		return func(s *state) bool { _, has := s.g.properties[s.u][value]; return has }, nil
	case "jobid-alloc", "jobid-reserved":
		id, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: not a job id", key, value)
		}
		return func(s *state) bool {
			return slices.ContainsFunc(s.jobs, func(j *job) bool {
				return j.id == match.JobID(id) && j.reserved == (key == "jobid-reserved")
			})
		}, nil
	}
	return nil, fmt.Errorf("%q: unknown key", key)
}
