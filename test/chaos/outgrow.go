package chaos

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

// outgrow scales a running group to more pods than there is room for, and
// kills the controller. The group's policy is restart. Neither controller
// process may evict the pods because of pods that the group never had.
type outgrow struct {
	Group Workload
	// More is how many pods more than nodes the group then has.
	More int
	// Lose deletes a pod that ran, before the controller is killed.
	Lose bool
	// Grown is the time from the scaling to the kill of the controller.
	Grown time.Duration
	// Delay is the time until the controller is started again.
	Delay time.Duration
}

func drawOutgrow(d *dice) Action {
	o := outgrow{
		Group: Workload{
			Maker: StatefulSet, Namespace: d.IntN(namespaces), Name: d.IntN(names), Workers: d.between(2, 4), Worker: Shape{MilliCPU: 10, MiB: 16},
			Incomplete: "restart", Patience: time.Duration(d.between(1, 3)) * time.Second, Priority: 100, Zone: -1,
			Stand: Stand{Apart: true},
		},
		More:  d.between(5, 10),
		Lose:  d.chance(50),
		Grown: time.Duration(d.between(0, 4)) * time.Second,
		Delay: time.Duration(d.IntN(1000)) * time.Millisecond,
	}
	return o
}

func (o outgrow) String() string {
	text := fmt.Sprintf("%v, by %d more than there are nodes, %v before the controller is killed, again after %v", o.Group, o.More, o.Grown, o.Delay)
	if o.Lose {
		text += ", and a pod is lost"
	}
	return text
}

func (o outgrow) do(ctx context.Context, r *run) error {
	return r.begin(ctx, func(ctx context.Context) error {
		g := r.reserve(o.Group)
		if err := r.createObjects(ctx, g); err != nil && !r.moot(err) {
			return fmt.Errorf("the group that is to grow: %w", err)
		}
		watching, cancel := context.WithTimeout(ctx, 2*stepTimeout)
		defer cancel()
		if err := r.comeTo(watching, g, LastBind, nil); err != nil {
			r.stats.miss(LastBind)
		}
		// Time for the controller to see the group complete.
		pause(ctx, time.Second)
		if err := r.outgrow(ctx, g, o); err != nil && !r.moot(err) {
			return err
		}
		pause(ctx, o.Grown)
		end := r.checker.ExcuseTime("killed " + stack.Controller)
		defer end()
		r.stats.kills.Add(1)
		if err := r.keeper.kill(ctx, o.Delay, stack.Controller); err != nil {
			return err
		}
		// The new process may find the group incomplete after its timeout.
		if err := r.rest(ctx, end, o.Group.Patience+4*time.Second); err != nil {
			return err
		}
		if err := r.delete(ctx, g); !r.moot(err) {
			return err
		}
		return nil
	})
}

// outgrow scales a group to more pods than there are nodes. Each node takes one.
func (r *run) outgrow(ctx context.Context, g *group, o outgrow) error {
	nodes := len(r.view.room())
	if err := r.patchOwner(ctx, g, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, nodes+o.More)); err != nil || !o.Lose {
		return err
	}
	return r.try(ctx, func(ctx context.Context) error {
		return r.client.CoreV1().Pods(g.ns).Delete(ctx, g.object+"-0", metav1.DeleteOptions{})
	})
}
