package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// A Step is a point in the progress of a group at which something is killed.
type Step string

// These are the steps.
const (
	Created   Step = "created"    // its pods exist
	Matched   Step = "matched"    // it has been matched
	FirstBind Step = "first-bind" // one pod has a node
	HalfBound Step = "half-bound"
	LastBind  Step = "last-bind" // all pods have nodes
)

// stepTimeout is how long a group may take to its step. After that the kill happens anyway.
const stepTimeout = 3 * time.Second

// kill creates a group, and kills processes when the group has reached a step.
type kill struct {
	Processes []string
	Step      Step
	Group     Workload
	// Delay is the time until the processes are started again.
	Delay time.Duration
	// Rest is how long after that nothing else is disturbed.
	Rest time.Duration
}

func drawKill(d *dice) Action {
	k := kill{
		Processes: oneOf(d,
			[]string{stack.Scheduler}, []string{stack.Scheduler}, []string{stack.Scheduler},
			[]string{stack.Sidecar}, []string{stack.Sidecar}, []string{stack.Sidecar},
			[]string{stack.Controller}, []string{stack.Controller},
			[]string{stack.Scheduler, stack.Sidecar},
			[]string{stack.Scheduler, stack.Controller},
			[]string{stack.Sidecar, stack.Controller},
			[]string{stack.Scheduler, stack.Sidecar, stack.Controller},
		),
		Step:  oneOf(d, Created, Matched, FirstBind, HalfBound, LastBind),
		Delay: time.Duration(oneOf(d, 0, 0, 0, d.IntN(500), d.IntN(3000))) * time.Millisecond,
		Rest:  time.Duration(d.IntN(1000)) * time.Millisecond,
	}
	k.Group = drawWorkload(d, oneOf(d, Job, Job, Pods, StatefulSet))
	// A group that will probably be placed soon.
	k.Group.Workers, k.Group.Worker = d.between(4, 16), Shape{MilliCPU: oneOf(d, 50, 100, 250), MiB: 64}
	k.Group.Leader, k.Group.Zone, k.Group.Policy, k.Group.Priority = nil, -1, "", 100
	k.Group.OwnPodGroup = false
	if k.Group.Stand.Unknown || k.Group.Stand.Exclusive != "" {
		k.Group.Stand = Stand{}
	}
	if k.Group.Min > k.Group.Workers {
		k.Group.Min = k.Group.Workers
	}
	return k
}

func (k kill) String() string {
	return fmt.Sprintf("%s at %s of %v, again after %v, rest %v", strings.Join(k.Processes, "+"), k.Step, k.Group, k.Delay, k.Rest)
}

func (k kill) do(ctx context.Context, r *run) error {
	return r.begin(ctx, func(ctx context.Context) error {
		g := r.reserve(k.Group)
		matched, giveUp := nextOf(slices.Collect(maps.Values(r.keeper.logs)), lineMatched, g.keyPrefix())
		defer giveUp()
		watching, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		if err := r.createObjects(ctx, g); err != nil && !r.moot(err) {
			return fmt.Errorf("the group of a kill: %w", err)
		}
		if err := r.comeTo(watching, g, k.Step, matched); err != nil {
			r.stats.miss(k.Step)
		}
		processes := r.present(ctx, k.Processes)
		end := r.checker.ExcuseTime("killed " + strings.Join(processes, "+"))
		defer end()
		r.stats.kills.Add(1)
		if err := r.keeper.kill(ctx, k.Delay, processes...); err != nil {
			return err
		}
		return r.rest(ctx, end, k.Rest)
	})
}

// rest waits until all processes are well, ends the
// excuse, and keeps off other disturbances for a while.
func (r *run) rest(ctx context.Context, end func(), d time.Duration) error {
	if err := r.keeper.well(ctx); err != nil {
		return err
	}
	end()
	pause(ctx, d)
	return nil
}

// keyPrefix returns the beginning of a group's key in a log. A PodGroup that the
// controller made is called KIND-NAME-HASH. A group by label has the label's name.
func (g *group) keyPrefix() string {
	if g.Maker == Pods {
		return g.ns + "/" + g.object + `"`
	}
	return g.ns + "/" + string(g.Maker) + "-" + g.object + "-"
}

var errMissed = errors.New("the group did not come so far")

// comeTo waits until a group has reached a step.
func (r *run) comeTo(ctx context.Context, g *group, s Step, matched <-chan struct{}) error {
	want := map[Step]int{FirstBind: 1, HalfBound: (g.Size() + 1) / 2, LastBind: g.Size()}
	switch s {
	case Created:
		return r.view.until(ctx, func() bool { return len(r.view.podsOf(g.ns, g.object)) >= g.Size() })
	case Matched:
		select {
		case <-matched:
			return nil
		case <-ctx.Done():
			return errMissed
		}
	default:
		return r.view.until(ctx, func() bool {
			bound := 0
			for _, p := range r.view.podsOf(g.ns, g.object) {
				if p.Spec.NodeName != "" {
					bound++
				}
			}
			return bound >= want[s]
		})
	}
}

// present replaces the scheduler and the sidecar among some processes by the leader's.
func (r *run) present(ctx context.Context, names []string) []string {
	leader, err := r.stack.Leader(ctx)
	if err != nil || leader != stack.StandbyScheduler {
		return names
	}
	out := make([]string, len(names))
	for i, name := range names {
		switch name {
		case stack.Scheduler:
			name = stack.StandbyScheduler
		case stack.Sidecar:
			name = stack.StandbySidecar
		}
		out[i] = name
	}
	return out
}

// killKubelet kills a process that simulates the kubelets. It is restarted at once.
type killKubelet struct {
	// Kwok kills KWOK, otherwise the fake kubelet is killed.
	Kwok bool
}

func (k killKubelet) String() string { return k.name() }

func (k killKubelet) name() string {
	if k.Kwok {
		return cluster.Kwok
	}
	return cluster.FakeKubelet
}

func (k killKubelet) do(ctx context.Context, r *run) error {
	return r.begin(ctx, func(ctx context.Context) error {
		if err := r.keeper.kill(ctx, 0, k.name()); err != nil {
			return err
		}
		return r.keeper.well(ctx)
	})
}
