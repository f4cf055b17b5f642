// Package chaos does to a cluster whatever may happen to one, in an
// order that a seed decides. A checker watches Fluence meanwhile.
//
// A plan is a pure function of the seed, the number of events and the
// configuration. It holds what is created, deleted, killed, stopped and broken,
// with all parameters. A run carries out a plan on a real control plane. A victim
// is a number in the plan. The run decides which of the objects that exist by then
// has the number. So the same seed repeats the pressure, but not the interleaving.
package chaos

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Config is what happens, and on which cluster. A field that is zero gets its default.
type Config struct {
	// Seed decides everything that is random.
	Seed uint64
	// Events is the number of events. Defaults to 500.
	Events int
	// Weights are the weights of the kinds of events, by name. They replace the
	// defaults. Only their ratio matters. An event of weight 0 never happens.
	Weights map[string]int
	// Nodes is the number of nodes at the beginning. Defaults to 24.
	Nodes int
	// MaxGroups is how many groups may exist at a time. An event
	// that would create another deletes one instead. Defaults to 60.
	MaxGroups int
	// MaxPods is how many pods of groups may exist at a time. Defaults to 400.
	MaxPods int
	// Rate is the highest number of events in a second. Defaults to 25.
	Rate float64
	// Standby runs a second scheduler, with its own sidecar.
	Standby bool
	// Preemption lets groups evict others of a lower priority. Then most groups have a priority other than 0.
	Preemption bool
	// Promises is how many groups that wait are promised room at a time. Then most groups have an end, and the controller
	// enforces durations. With 0, which is the default, nobody is promised anything.
	Promises int
	// Queues makes queues, and puts a part of the Jobs and of the lone pods into them.
	Queues bool
	// Lease is how long a silent scheduler remains the leader. Defaults to 3s.
	Lease time.Duration
	// Settle bounds the wait for rest at the end. Defaults to 2m.
	Settle time.Duration
	// Dir is the folder of the cluster's state. Defaults to a temporary one.
	Dir string
	// Keep keeps the folder of a run that did not pass.
	Keep bool
	// Log receives progress for a human reader. Defaults to io.Discard.
	Log io.Writer
}

// complete returns the configuration with the defaults.
// It returns an error for a value that cannot be used.
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
	if c.Promises < 0 {
		return c, fmt.Errorf("promises: %d is less than 0", c.Promises)
	}
	given := c.Weights
	c.Weights, err = completeWeights(c.Weights)
	for name, happens := range map[string]bool{editDuration: c.Promises > 0, holdJob: c.Queues, editTimeLimit: c.Queues, editQueue: c.Queues} {
		if _, is := given[name]; !is && !happens {
			delete(c.Weights, name)
		}
	}
	return c, err
}

// completeWeights returns the default weights, replaced by the given ones.
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
