// Package traverser matches jobspecs (RFC 14) against a resource graph (RFC 4)
// vertex by vertex, with the answers of Fluxion (flux-sched 0.54.0) in the same
// order.
//
// A vertex is given out whole: a job that needs one unit of a pool of 64 takes
// the pool. The package does no I/O, takes no lock and reads no clock.
package traverser

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A Traverser is a graph and what jobs hold of it. Its methods are not safe for
// concurrent use.
type Traverser struct {
	options Options
	filters filters
	policy  policy
	g       graph
	jobs    map[match.JobID]*job
	// holding counts the jobs that hold something, and slots what they hold: what is
	// reserved counts for nothing.
	holding, slots int
	// queue is the last one that a jobspec named: with Fluxion every later R is of
	// it until another is named.
	queue string
	// due orders the jobs that have an end by it.
	due deadlines
	// budget bounds the vertices that are looked through to find a time for a
	// reservation.
	budget  int
	byName  []vid // the nodes by name; nil until somebody asks
	space   workspace
	attempt attempt
}

// defaultBudget takes about half a second.
const defaultBudget = 50_000_000

// New returns a traverser with an empty graph. It fails, naming option and
// value, if the options are wrong.
func New(o Options) (*Traverser, error) {
	p, err := o.check()
	if err != nil {
		return nil, err
	}
	t := &Traverser{options: o, policy: p, g: newGraph(), jobs: make(map[match.JobID]*job), budget: defaultBudget}
	if t.filters, err = parseFilters(o.PruneFilters); err != nil {
		return nil, fmt.Errorf("prune_filters: %w", err)
	}
	return t, nil
}

// Empty says whether the graph has no vertex.
func (t *Traverser) Empty() bool { return t.g.root == none }

// Vertices counts the vertices of the containment tree.
func (t *Traverser) Vertices() int { return t.g.count }

// Sizes returns how many jobs hold something, how many slots that is, and how many vertices
// are nodes.
func (t *Traverser) Sizes() (jobs, slots, nodes int) { return t.holding, t.slots, len(t.g.nodes) }

// errNoRoot is the error for a graph without containment.
var errNoRoot = errors.New("graph has no root of containment")

// invalid is the error for arguments that are wrong.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}

// The times that plans can tell apart, in nanoseconds since 1970. What is before or
// after counts as the first or the last of them.
const (
	firstInstant = math.MinInt64 / 2
	lastInstant  = math.MaxInt64 - int64(time.Hour)
)

// Instant writes a time as plans have it: nanoseconds since 1970, from the year 1823
// to 2262; a zero time is 1970.
func Instant(t time.Time) int64 {
	switch s := t.Unix(); {
	case t.IsZero():
		return 0
	case s <= firstInstant/int64(time.Second):
		return firstInstant
	case s >= lastInstant/int64(time.Second):
		return lastInstant
	}
	return t.UnixNano()
}
