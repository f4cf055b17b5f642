package fluence

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// A rival is a gang whose owner makes its pods again when they have been evicted.
type rival struct {
	name     string
	size     int
	cpu      string
	priority int32
	// lives is how often its pods were made.
	lives int
}

// prefix begins the names of the pods that were made last.
func (g *rival) prefix() string { return fmt.Sprintf("%s-%d-", g.name, g.lives) }

// live makes the pods of the gang.
func (g *rival) live(r *rig) {
	r.Helper()
	g.lives++
	for i := range g.size {
		r.pod(fmt.Sprint(g.prefix(), i), objects.InGroup(g.name), objects.CPU(g.cpu), atPriority(g.priority))
	}
}

// starts is how often the gang has started. Pods are evicted only after the start.
func (g *rival) starts(r *rig) int {
	r.Helper()
	on := 0
	for pod := range r.assigned() {
		if strings.HasPrefix(pod, g.prefix()) {
			on++
		}
	}
	if on == g.size {
		return g.lives
	}
	return g.lives - 1
}

// ended reports whether all pods of the gang were evicted, and have gone.
func (g *rival) ended(r *rig) bool {
	r.Helper()
	evicted := 0
	for _, pod := range r.podAPI.deleted() {
		if strings.HasPrefix(pod, g.prefix()) && !r.runs(pod) {
			evicted++
		}
	}
	return evicted == g.size
}

// Gangs that are made again whenever they are evicted do not evict each other in a circle. The evictions end, although
// no pod ends by itself, and a gang is evicted at most once for each start of a gang of a higher priority.
func TestEvictionsComeToAnEnd(t *testing.T) {
	const (
		step = 5 * time.Second
		// After quiet steps without an eviction no more are expected. A test has at most most steps.
		quiet, most = 24, 300
	)
	evicted := 0
	for seed := range trials.Seeds(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				dice := rand.New(rand.NewPCG(seed, 11))
				r.pl.args.Preemption.Mode = PreemptionLowerPriority
				r.podAPI.grace = time.Duration(dice.IntN(3)) * 7 * time.Second
				nodes := 4 + dice.IntN(5)
				for i := range nodes {
					r.node(fmt.Sprintf("n%02d", i), 8)
				}
				r.pass(settleTime)
				r.schedule()
				var rivals []*rival
				come := 6 + dice.IntN(7)
				deleted := 0
				for n, last := 0, 0; n-last < quiet; n++ {
					if n == most {
						t.Fatalf("pods are evicted after %s still: %v", time.Duration(n)*step, r.podAPI.deleted())
					}
					if len(rivals) < come && dice.IntN(2) == 0 {
						g := &rival{
							name: fmt.Sprintf("g%d", len(rivals)), size: 1 + dice.IntN(nodes), cpu: fmt.Sprint(4 + 4*dice.IntN(2)),
							priority: []int32{0, 10, 100, 1000}[dice.IntN(4)],
						}
						r.podGroupAPI.put(aPodGroup(g.name, int32(g.size), types.UID(g.name)))
						g.live(r)
						rivals = append(rivals, g)
					}
					r.pass(step)
					for _, g := range rivals {
						if g.ended(r) {
							g.live(r)
						}
					}
					if now := len(r.podAPI.deleted()); now > deleted || len(rivals) < come {
						deleted, last = now, n
					}
				}
				for _, g := range rivals {
					above := 0
					for _, other := range rivals {
						if other.priority > g.priority {
							above += other.starts(r)
						}
					}
					if g.lives-1 > above {
						t.Errorf("%s of priority %d was evicted %d times, and gangs of a higher priority have started %d times", g.name, g.priority, g.lives-1, above)
					}
					evicted += g.lives - 1
				}
			})
		})
	}
	if evicted == 0 {
		t.Error("nobody was evicted")
	}
	t.Logf("%d evictions", evicted)
}
