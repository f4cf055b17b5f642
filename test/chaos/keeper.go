package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// restartDelay is how long after its end a process that ended by itself is started again.
	restartDelay = 500 * time.Millisecond
	// recovery bounds the time until all processes run again and one scheduler leads.
	recovery = 90 * time.Second
	askEvery = 50 * time.Millisecond
)

// a keeper restarts processes that have ended, as a
// kubelet does. It knows whether all of them are well.
type keeper struct {
	stack *stack.Stack
	logs  map[string]*follower // of the schedulers
	// before is called before a process is killed.
	before func(ctx context.Context, name string)
	// after is called when a process was started again.
	after func(name string)

	mu      sync.Mutex
	delays  map[string]time.Duration // of the processes that are being killed
	ended   map[string]int           // how often a process ended by itself
	filled  map[string]int           // fills of a scheduler's engine before it or its sidecar last ended
	err     error
	leaving bool
}

func newKeeper(ctx context.Context, s *stack.Stack, standby bool, before func(context.Context, string), after func(string)) *keeper {
	k := &keeper{
		stack:  s,
		before: before,
		after:  after,
		logs:   map[string]*follower{},
		delays: map[string]time.Duration{},
		ended:  map[string]int{},
		filled: map[string]int{},
	}
	names := []string{stack.Scheduler, stack.Sidecar, stack.Controller}
	if standby {
		names = append(names, stack.StandbyScheduler, stack.StandbySidecar)
	}
	for _, name := range names {
		if name == stack.Scheduler || name == stack.StandbyScheduler {
			k.logs[name] = follow(ctx, s.Process(name).Log())
		}
		go k.keep(ctx, name, func(ctx context.Context) error { return s.StartNamed(ctx, name) })
	}
	for _, name := range []string{cluster.Etcd, cluster.KubeAPIServer, cluster.KubeControllerManager, cluster.Kwok, cluster.FakeKubelet} {
		go k.keep(ctx, name, func(ctx context.Context) error { return s.Restart(ctx, name) })
	}
	return k
}

// keep starts a process again whenever it has ended.
func (k *keeper) keep(ctx context.Context, name string, start func(context.Context) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.stack.Process(name).Done():
		}
		if k.over() {
			return
		}
		k.mu.Lock()
		delay, killed := k.delays[name]
		if !killed {
			delay = restartDelay
			k.ended[name]++
		}
		delete(k.delays, name)
		if scheduler := schedulerOf(name); k.logs[scheduler] != nil {
			k.filled[scheduler] = k.logs[scheduler].count(lineFilled)
		}
		k.mu.Unlock()
		pause(ctx, delay)
		if ctx.Err() != nil || k.over() {
			return
		}
		// A component that does not reach etcd ends again.
		err := wait.PollUntilContextTimeout(ctx, restartDelay, recovery, true, func(ctx context.Context) (bool, error) {
			err := start(ctx)
			return err == nil, nil
		})
		if err != nil && ctx.Err() == nil && !k.over() {
			k.mu.Lock()
			k.err = fmt.Errorf("start %s again: %w", name, err)
			k.mu.Unlock()
			return
		}
		k.after(name)
	}
}

// schedulerOf returns the scheduler whose engine a process
// holds or fills. It returns "" for other processes.
func schedulerOf(process string) string {
	switch process {
	case stack.Scheduler, stack.Sidecar:
		return stack.Scheduler
	case stack.StandbyScheduler, stack.StandbySidecar:
		return stack.StandbyScheduler
	default:
		return ""
	}
}

// leave stops all restarts.
func (k *keeper) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leaving = true
}

func (k *keeper) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leaving
}

// kill ends processes by SIGKILL, all at once. Each is started again after the delay.
func (k *keeper) kill(ctx context.Context, delay time.Duration, names ...string) error {
	for _, name := range names {
		k.before(ctx, name)
	}
	for _, name := range names {
		p := k.stack.Process(name)
		if p.State() != nil {
			continue // it has ended by itself
		}
		k.mu.Lock()
		k.delays[name] = delay
		k.mu.Unlock()
		if err := p.Kill(ctx); err != nil {
			return fmt.Errorf("kill %s: %w", name, err)
		}
	}
	return nil
}

// endedByThemselves returns how often each process ended by itself.
func (k *keeper) endedByThemselves() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.ended)
}

// well waits until all processes run, the API server answers, one scheduler
// leads, and its engine was filled after the scheduler or its sidecar last ended.
func (k *keeper) well(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	var why string
	err := wait.PollUntilContextCancel(ctx, askEvery, true, func(ctx context.Context) (bool, error) {
		k.mu.Lock()
		err := k.err
		k.mu.Unlock()
		if err != nil {
			return false, err
		}
		why = k.unwell(ctx)
		return why == "", nil
	})
	if err != nil {
		return fmt.Errorf("wait until all is well again: %s: %w", why, err)
	}
	return nil
}

// unwell returns the reason why a process is not well, "" if all are well.
func (k *keeper) unwell(ctx context.Context) string {
	for _, name := range []string{cluster.Etcd, cluster.KubeAPIServer, cluster.KubeControllerManager, cluster.Kwok, cluster.FakeKubelet} {
		if k.down(name) {
			return name + " does not run"
		}
	}
	names := []string{stack.Sidecar, stack.Controller}
	for _, name := range append(names, slices.Sorted(maps.Keys(k.logs))...) {
		if k.down(name) {
			return name + " does not run"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	leader, err := k.stack.Leader(ctx)
	if err != nil {
		return err.Error()
	}
	if leader == "" {
		return "nobody leads"
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// The scheduler has not filled its engine since it or its sidecar ended.
	if before, ended := k.filled[leader]; ended && k.logs[leader].count(lineFilled) <= before {
		return "the engine of " + leader + " is not filled"
	}
	return ""
}

func (k *keeper) down(name string) bool { return k.stack.Process(name).State() != nil }
