package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster/kubelet"
)

// foreignNamespace holds the pods that Fluence does not schedule.
const foreignNamespace = "foreign"

// burstRate is the number of foreign pods that a burst creates in a second. maxBursts is how many
// bursts may run at a time. maxForeign is the number of foreign pods above which no burst begins.
const (
	burstRate  = 100
	maxBursts  = 2
	maxForeign = 250
	// burstWriters is the number of a burst's pods that are created at a time.
	burstWriters = 32
)

// a foreignPod is a pod that another scheduler has bound or nominated.
type foreignPod struct {
	name      string
	nominated bool
}

// burst is another scheduler at work. It knows the cluster
// by its own watch, and is as optimistic as Fluence's.
type burst struct {
	Seed  uint64
	Count int
	// Wild is the percentage of pods that go to any node, whatever room it has.
	Wild int
	// Packed fills the nodes in the order of their names.
	// Fluence does so by default, so the two conflict.
	Packed bool
	// MilliCPU is the CPU request of the pods, in thousandths.
	MilliCPU int
	// Stay is the time after which the pods end by themselves.
	Stay time.Duration
}

func drawBurst(d *dice) Action {
	return burst{
		Seed:     d.Uint64(),
		Count:    d.between(20, 200),
		Wild:     oneOf(d, 0, 0, 5, 30),
		Packed:   d.chance(70),
		MilliCPU: oneOf(d, 100, 250, 500, 1000),
		Stay:     time.Duration(d.between(5, 40)) * time.Second / 2,
	}
}

func (b burst) String() string {
	return fmt.Sprintf("%d pods of %dm, %d%% anywhere, packed=%t, for %v, seed %d", b.Count, b.MilliCPU, b.Wild, b.Packed, b.Stay, b.Seed)
}

func (b burst) do(ctx context.Context, r *run) error {
	r.mu.Lock()
	busy := r.bursts >= maxBursts || len(r.foreign) > maxForeign
	if !busy {
		r.bursts++
	}
	r.mu.Unlock()
	if busy {
		return deleteForeign{Victim: uint32(b.Seed), Count: 20}.do(ctx, r)
	}
	r.background.Go(func() {
		if err := b.bind(ctx, r); err != nil && !r.moot(err) {
			r.fail(fmt.Errorf("foreign pods: %w", err))
		}
		r.mu.Lock()
		r.bursts--
		r.mu.Unlock()
	})
	return nil
}

// bind creates the pods of a burst, at burstRate.
func (b burst) bind(ctx context.Context, r *run) error {
	dice := rand.New(rand.NewPCG(b.Seed, 3))
	limit := rate.NewLimiter(burstRate, 1)
	begin, made := time.Now(), 0
	var all errgroup.Group
	all.SetLimit(burstWriters)
	for i := range b.Count {
		if err := limit.Wait(ctx); err != nil {
			return fmt.Errorf("wait for the next pod: %w", err)
		}
		ask := int64(b.MilliCPU)
		node := b.choose(dice, r, ask)
		if node == "" {
			continue
		}
		pod := foreign(fmt.Sprintf("f-%x-%d", b.Seed>>32, i), ask)
		pod.Spec.NodeName = node
		pod.Annotations = map[string]string{kubelet.RunFor: b.Stay.String()}
		r.remember(foreignPod{name: pod.Name})
		made++
		all.Go(func() error {
			r.stats.foreign.Add(1)
			return r.createPods(ctx, foreignNamespace, []*corev1.Pod{pod})
		})
	}
	err := all.Wait()
	r.stats.burst(made, time.Since(begin))
	return err
}

// choose returns a node that seems to have room, or
// sometimes any node. It returns "" if there is none.
func (b burst) choose(dice *rand.Rand, r *run, ask int64) string {
	wild := dice.IntN(100) < b.Wild
	pick := dice.Uint32()
	var all []string
	if wild {
		all = r.view.nodeNames()
	} else {
		for name, free := range r.view.room() {
			if free >= ask {
				all = append(all, name)
			}
		}
		slices.Sort(all)
	}
	switch {
	case len(all) == 0:
		return ""
	case b.Packed && !wild:
		return all[0]
	default:
		return all[int(pick)%len(all)]
	}
}

// foreign returns a pod of another scheduler.
func foreign(name string, milliCPU int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: foreignNamespace, Labels: map[string]string{foreignLabel: "true"}},
		Spec: corev1.PodSpec{
			SchedulerName:                 "elsewhere",
			TerminationGracePeriodSeconds: new(int64(1)),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:                    []corev1.Container{{Name: "main", Image: "none", Resources: Shape{MilliCPU: int(milliCPU), MiB: 16}.resources()}},
		},
	}
}

func (r *run) remember(p foreignPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.foreign = append(r.foreign, p)
}

// forget removes up to count foreign pods from the
// recorded ones, beginning at a number, and returns them.
func (r *run) forget(from uint32, count int, nominated bool) []foreignPod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken, left []foreignPod
	if len(r.foreign) == 0 {
		return nil
	}
	start := int(from) % len(r.foreign)
	for i := range r.foreign {
		p := r.foreign[(start+i)%len(r.foreign)]
		if len(taken) < count && p.nominated == nominated {
			taken = append(taken, p)
		} else {
			left = append(left, p)
		}
	}
	r.foreign = left
	return taken
}

type deleteForeign struct {
	Victim uint32
	Count  int
}

func (d deleteForeign) String() string { return fmt.Sprintf("%d from %d on", d.Count, d.Victim) }

func (d deleteForeign) do(ctx context.Context, r *run) error {
	var all errgroup.Group
	all.SetLimit(writers)
	for _, p := range r.forget(d.Victim, d.Count, false) {
		all.Go(func() error { return r.deletePod(ctx, p.name) })
	}
	return all.Wait()
}

func (r *run) deletePod(ctx context.Context, name string) error {
	err := r.try(ctx, func(ctx context.Context) error {
		return r.client.CoreV1().Pods(foreignNamespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
	if r.moot(err) {
		return nil
	}
	return err
}
