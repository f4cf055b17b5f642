// Package chaos lets everything happen to a cluster that can happen to one, in an
// order that a seed decides, and has Fluence watched by a checker meanwhile.
//
// A plan is a pure function of the seed, the number of events and the
// configuration: what is created, deleted, killed, stopped and broken, with all
// parameters. A run carries a plan out on a real control plane. What a victim's
// number stands for is decided then, by what lives; so a seed gives the same
// pressure again, and not the same interleaving.
package chaos

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Config says what happens, and on what. The zero value of a field is its default.
type Config struct {
	// Seed decides everything that is drawn.
	Seed uint64
	// Events is how many events happen. Defaults to 500.
	Events int
	// Weights of the kinds of events, by name, over the defaults; they need not
	// add up to anything. An event of weight 0 never happens.
	Weights map[string]int
	// Nodes is how many nodes there are at first. Defaults to 24.
	Nodes int
	// MaxGroups is how many groups live at a time; what would create another
	// deletes one. Defaults to 60.
	MaxGroups int
	// MaxPods is the same for the pods of all groups. Defaults to 400.
	MaxPods int
	// Rate is how many events happen a second at the most. Defaults to 25.
	Rate float64
	// Standby runs a second scheduler, with a sidecar of its own.
	Standby bool
	// Lease is how long a scheduler that says nothing still leads. Defaults to 3s.
	Lease time.Duration
	// Settle bounds the wait for rest at the end. Defaults to 2m.
	Settle time.Duration
	// Dir is the folder of the cluster's state. Defaults to a temporary one.
	Dir string
	// Keep leaves the folder of a run in place in which something was wrong.
	Keep bool
	// Log receives progress for a human reader. Defaults to nowhere.
	Log io.Writer
}

// complete fills in the defaults, and fails where a value cannot be used.
func (c Config) complete() (Config, error) {
	for _, f := range []struct {
		field string
		value *int
		usual int
	}{
		{"events", &c.Events, 500},
		{"nodes", &c.Nodes, 24},
		{"maxGroups", &c.MaxGroups, 60},
		{"maxPods", &c.MaxPods, 400},
	} {
		if *f.value < 0 {
			return c, fmt.Errorf("%s: %d is less than 0", f.field, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.usual
		}
	}
	for _, f := range []struct {
		field string
		value *time.Duration
		usual time.Duration
	}{
		{"lease", &c.Lease, 3 * time.Second},
		{"settle", &c.Settle, 2 * time.Minute},
	} {
		if *f.value < 0 {
			return c, fmt.Errorf("%s: %v is less than 0", f.field, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.usual
		}
	}
	if c.Lease%time.Second != 0 {
		return c, fmt.Errorf("lease: %v is no whole number of seconds, as a Lease says it", c.Lease)
	}
	if c.Rate < 0 {
		return c, fmt.Errorf("rate: %v is less than 0", c.Rate)
	}
	if c.Rate == 0 {
		c.Rate = 25
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	var err error
	c.Weights, err = completeWeights(c.Weights)
	return c, err
}

// completeWeights lays weights over the defaults.
func completeWeights(given map[string]int) (map[string]int, error) {
	all, total := map[string]int{}, 0
	for _, k := range kinds {
		all[k.name] = k.weight
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("weights: no event is called %q; there are %v", name, slices.Sorted(maps.Keys(all)))
		}
		if given[name] < 0 {
			return nil, fmt.Errorf("weights: %s: %d is less than 0", name, given[name])
		}
		all[name] = given[name]
	}
	for _, w := range all {
		total += w
	}
	if total == 0 {
		return nil, errors.New("weights: none is above 0, so nothing can happen")
	}
	return all, nil
}
