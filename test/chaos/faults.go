package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// freeze stops one of Fluence's processes for a while, once or repeatedly.
type freeze struct {
	Process string
	For     time.Duration
	// Turn is the length of each stop and of each run, alternately. Zero means one stop.
	Turn time.Duration
	Rest time.Duration
}

func drawFreeze(d *dice) Action {
	f := freeze{
		Process: oneOf(d, stack.Sidecar, stack.Sidecar, stack.Scheduler, stack.Scheduler, stack.Controller),
		For:     time.Duration(min(d.between(500, 8000), d.between(500, 8000))) * time.Millisecond,
		Rest:    time.Duration(d.IntN(1000)) * time.Millisecond,
	}
	if d.chance(30) {
		f.Process, f.Turn = stack.Sidecar, time.Duration(d.between(50, 400))*time.Millisecond
	}
	return f
}

func (f freeze) String() string {
	return fmt.Sprintf("%s for %v by turns of %v, rest %v", f.Process, f.For, f.Turn, f.Rest)
}

func (f freeze) do(ctx context.Context, r *run) error {
	return r.begin(ctx, func(ctx context.Context) error {
		name := r.present(ctx, []string{f.Process})[0]
		excuse := r.checker.ExcuseTime
		if name == stack.Scheduler || name == stack.StandbyScheduler {
			excuse = r.checker.Excuse
		}
		end := excuse("stopped " + name)
		defer end()
		r.stats.freezes.Add(1)
		until := time.Now().Add(f.For)
		if f.Turn == 0 {
			if err := r.stopFor(ctx, f.For, name); err != nil {
				return err
			}
		}
		for f.Turn > 0 && time.Now().Before(until) && ctx.Err() == nil {
			if err := r.stopFor(ctx, f.Turn, name); err != nil {
				return err
			}
			pause(ctx, f.Turn)
		}
		// A process that lost its lease ends when it finds out.
		pause(ctx, time.Second)
		return r.rest(ctx, end, f.Rest)
	})
}

// stopFor stops processes for a while and then continues them.
func (r *run) stopFor(ctx context.Context, d time.Duration, names ...string) error {
	var errs []error
	for _, name := range names {
		p := r.stack.Process(name)
		errs = append(errs, p.Signal(syscall.SIGSTOP))
		defer func() { _ = p.Signal(syscall.SIGCONT) }()
	}
	pause(ctx, d)
	return errors.Join(errs...)
}

// A Cut is a way in which the API server fails.
type Cut string

// These are the ways in which the API server fails.
const (
	Stopped     Cut = "stopped"      // it does not answer for a while
	Restarted   Cut = "restarted"    // all watches are dropped
	Away        Cut = "away"         // longer than any lease
	EtcdStopped Cut = "etcd-stopped" // at best it answers from its cache
)

// awayFor is how long the API server is Away.
const awayFor = 30 * time.Second

type outage struct {
	Cut  Cut
	For  time.Duration
	Rest time.Duration
}

func drawOutage(d *dice) Action {
	o := outage{
		Cut:  Restarted,
		For:  time.Duration(d.between(1000, 5000)) * time.Millisecond,
		Rest: time.Duration(d.between(1000, 4000)) * time.Millisecond,
	}
	switch n := d.IntN(100); {
	case n < 45:
		o.Cut = Stopped
	case n < 65:
		o.Cut, o.For = EtcdStopped, min(o.For, 3*time.Second)
	case n < 69:
		o.Cut, o.For = Away, awayFor
	}
	return o
}

func (o outage) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s for %v, rest %v", o.Cut, o.For, o.Rest))
}

func (o outage) do(ctx context.Context, r *run) error {
	return r.begin(ctx, func(ctx context.Context) error {
		end := r.checker.Excuse("API server " + string(o.Cut))
		defer end()
		r.stats.outages.Add(1)
		var err error
		switch o.Cut {
		case Stopped:
			err = r.stopFor(ctx, o.For, cluster.KubeAPIServer)
		case EtcdStopped:
			err = r.stopFor(ctx, o.For, cluster.Etcd)
		case Restarted:
			err = r.keeper.kill(ctx, 0, cluster.KubeAPIServer)
		case Away:
			err = r.keeper.kill(ctx, o.For, cluster.KubeAPIServer)
		}
		if err != nil {
			return err
		}
		pause(ctx, time.Second)
		return r.rest(ctx, end, o.Rest)
	})
}
