package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// An Event is one thing that is done to the cluster.
type Event struct {
	// N is the number of the event, from 1.
	N int
	// Kind is the name of its kind, as in Config.Weights.
	Kind string
	// Do is the action with its parameters.
	Do Action
}

// String returns the event in one line.
func (e Event) String() string { return fmt.Sprintf("%d %s %v", e.N, e.Kind, e.Do) }

// An Action is what an event does, with all its parameters.
type Action interface {
	fmt.Stringer
	// do carries the action out on the objects that exist by then.
	do(ctx context.Context, r *run) error
}

// A Plan is a sequence of events.
type Plan []Event

// String returns the plan, one event a line.
func (p Plan) String() string {
	var b strings.Builder
	for _, e := range p {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

// a kind is a kind of events: its weight, in thousandths
// by default, and a function that draws the parameters.
type kind struct {
	name   string
	weight int
	draw   func(d *dice) Action
}

// dice are the random numbers that a plan is drawn by.
type dice struct {
	*rand.Rand
	cfg Config
	// stands are separate dice for the Stand of groups.
	// Everything else is drawn as it would be without them.
	stands *dice
	// ends are separate dice for when groups end. They are only thrown if groups are promised room.
	ends *dice
	// queues are separate dice for what is in queues. They are only thrown if there are queues.
	queues *dice
	// late are separate dice for the kinds after firstKinds, one for each.
	late []*dice
}

// endsStream is the stream of random numbers for when groups end, and queuesStream that for what is in queues. They are none of the later
// kinds'.
const (
	endsStream   = 1 << 32
	queuesStream = 1 << 33
)

// NewPlan draws a plan. A longer plan of the same seed begins with the events of a shorter one.
func NewPlan(cfg Config) (Plan, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	order := rand.New(rand.NewPCG(cfg.Seed, 1))
	d := &dice{Rand: rand.New(rand.NewPCG(cfg.Seed, 2)), cfg: cfg}
	d.stands = &dice{Rand: rand.New(rand.NewPCG(cfg.Seed, 3)), cfg: cfg}
	d.ends = &dice{Rand: rand.New(rand.NewPCG(cfg.Seed, endsStream)), cfg: cfg}
	d.queues = &dice{Rand: rand.New(rand.NewPCG(cfg.Seed, queuesStream)), cfg: cfg}
	for i := range kinds[firstKinds:] {
		own := &dice{Rand: rand.New(rand.NewPCG(cfg.Seed, 4+uint64(i))), cfg: cfg}
		own.stands, own.ends, own.queues = own, d.ends, d.queues
		d.late = append(d.late, own)
	}
	plan := make(Plan, 0, cfg.Events)
	var deck []int
	for n := 1; n <= cfg.Events; n++ {
		if len(deck) == 0 {
			deck = shuffled(order, d.late, cfg.Weights)
		}
		k := kinds[deck[0]]
		deck = deck[1:]
		plan = append(plan, Event{N: n, Kind: k.name, Do: k.draw(d)})
	}
	return plan, nil
}

// shuffled returns a deck of cards with each kind as often as its weight. Because
// events are dealt from decks, a rare kind happens about as often in every run.
func shuffled(r *rand.Rand, late []*dice, weights map[string]int) []int {
	var deck []int
	for i, k := range kinds[:firstKinds] {
		for range weights[k.name] {
			deck = append(deck, i)
		}
	}
	r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	for i, k := range kinds[firstKinds:] {
		for range weights[k.name] {
			deck = slices.Insert(deck, late[i].IntN(len(deck)+1), firstKinds+i)
		}
	}
	return deck
}

// chance returns true in the given percentage of cases.
func (d *dice) chance(percent int) bool { return d.IntN(100) < percent }

// between returns a random integer from least to most.
func (d *dice) between(least, most int) int { return least + d.IntN(most-least+1) }

// oneOf returns one of several values at random.
func oneOf[T any](d *dice, all ...T) T { return all[d.IntN(len(all))] }
