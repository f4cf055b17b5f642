// Package traverser matches jobspecs (RFC 14) against a resource graph (RFC 4), vertex
// by vertex. Its answers, and their order, are those of Fluxion (flux-sched 0.54.0).
//
// A vertex is given out whole: a job that needs one unit of a pool of 64 takes
// the whole pool. The package does no I/O, takes no lock and reads no clock.
package traverser

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A Traverser is a graph and the resources of it that
// jobs hold. Its methods are not safe for concurrent use.
type Traverser struct {
	options Options
	filters filters
	policy  policy
	g       graph
	jobs    map[match.JobID]*job
	// holding is the number of jobs that hold something, and slots
	// the number of slots that they hold. Reservations do not count.
	holding, slots int
	// queue is the last queue that a jobspec named. As with Fluxion,
	// every later R has this queue until a jobspec names another.
	queue string
	// due orders the jobs that have an end by their ends.
	due deadlines
	// budget is how many vertices may be looked at to find a time for a reservation.
	budget  int
	byName  []vid // the nodes by name; nil until it is needed
	space   workspace
	attempt attempt
}

// defaultBudget takes about half a second.
const defaultBudget = 50_000_000

// New returns a traverser with an empty graph. If the options
// are wrong, it returns an error that names option and value.
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

// Empty reports whether the graph has no vertex.
func (t *Traverser) Empty() bool { return t.g.root == none }

// Vertices returns the number of vertices in the containment tree.
func (t *Traverser) Vertices() int { return t.g.count }

// Sizes returns how many jobs hold something, how many
// slots they hold, and how many vertices are nodes.
func (t *Traverser) Sizes() (jobs, slots, nodes int) { return t.holding, t.slots, len(t.g.nodes) }

// errNoRoot is the error for a graph without a root of containment.
var errNoRoot = errors.New("graph has no root of containment")

// invalid returns the error for invalid arguments.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}

// firstInstant and lastInstant are the first and the last time of a plan, in nanoseconds
// since 1970. An earlier time counts as the first, a later time as the last.
const (
	firstInstant = math.MinInt64 / 2
	lastInstant  = math.MaxInt64 - int64(time.Hour)
)

// Instant returns a time as plans have it: in nanoseconds
// since 1970, from the year 1823 to 2262. A zero time is 1970.
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
