package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flux-k8s/fluence/test/stack"
)

var (
	// burstSeed determines the groups of the burst, so that a burst can be repeated.
	burstSeed = flag.Uint64("burst.seed", 0, "seed of the burst of groups; 0 takes one from the clock")
	// burstSize is the number of groups. It is small enough for a run of all tests. The
	// number of nodes and the sizes are scaled with it, so that as many groups have to wait.
	burstSize = flag.Int("burst.groups", 200, "how many groups are in the burst, 100 at the least")
)

const (
	// burstNodes is the number of nodes for a thousand groups, with burstCPUs
	// CPUs each. They have room for a seventh of the pods at a time.
	burstNodes, burstCPUs = 48, 16
	// burstLargest is the size of the largest group.
	burstLargest = 64
	// burstLinger is how long a PodGroup of bare pods stays after its pods.
	burstLinger = 10 * time.Second
	// burstRun is how long a pod runs.
	burstRun = 2 * time.Second
	// burstClients is the number of concurrent creations and deletions.
	burstClients = 16
	// burstPatience bounds the burst. restPatience bounds how
	// long a group may have only some of its minimum on nodes.
	burstPatience, restPatience = 8 * time.Minute, 20 * time.Second
	// burstLabel is the label with a pod's group.
	burstLabel = "burst"
)

// burstBands are the numbers of groups of each size, of a thousand.
// A thousand groups have about 5,200 pods. Two in three groups have
// less than five pods, and 18 groups have a sixth of all pods.
var burstBands = [...]struct{ groups, least, most int }{
	{380, 1, 1}, {300, 2, 4}, {180, 5, 8}, {90, 9, 16}, {32, 17, 32}, {18, 33, burstLargest},
}

// A burstGroup is a group of the burst.
type burstGroup struct {
	name, kind string
	size       int
	// early is when a group is deleted that must not run to its end: "made" when it
	// is created, "placed" when its first pod has a node. It is "" for other groups.
	early string
}

// minimum returns the number of pods that the group starts with.
func (g *burstGroup) minimum() int {
	if g.kind == "Deployment" {
		return 1
	}
	return g.size
}

// burstGroups draws n groups: with sizes from burstBands,
// the four kinds in turn, and one in ten deleted early.
func burstGroups(seed uint64, n int) []*burstGroup {
	draw := rand.New(rand.NewPCG(seed, 0))
	var sizes []int
	upTo := 0
	for _, b := range burstBands {
		for upTo += b.groups; 1000*len(sizes) < upTo*n; {
			sizes = append(sizes, b.least+draw.IntN(b.most-b.least+1))
		}
	}
	sizes[len(sizes)-1] = burstLargest
	draw.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	kinds := [...]string{"Job", "StatefulSet", "Deployment", "Pod"}
	groups := make([]*burstGroup, len(sizes))
	for i, size := range sizes {
		groups[i] = &burstGroup{name: fmt.Sprintf("g%03d", i), kind: kinds[i%len(kinds)], size: size}
		switch draw.IntN(20) {
		case 0:
			groups[i].early = "made"
		case 1:
			groups[i].early = "placed"
		}
	}
	return groups
}

// State 6 of the lessons of earlier systems, and at full size with -burst.groups=1000: groups
// of all kinds and of 1 to 64 pods come, run and go in one burst. A tenth of them go while
// they are being placed. No group is partly placed for long, and nothing is left of any.
func TestNothingIsLeftOfABurstOfGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	if *burstSize < 100 {
		t.Fatalf("-burst.groups=%d: so few do not have to wait, want at least 100", *burstSize)
	}
	seed := *burstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	groups := burstGroups(seed, *burstSize)
	s := tell(t)
	s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = []string{"--empty-group-delay=" + burstLinger.String()} })
	defer s.restart(stack.Controller, func(c *stack.Config) { c.ControllerArgs = nil })
	nodes := (burstNodes*len(groups) + 999) / 1000
	s.nodes("n", nodes, fmt.Sprint(burstCPUs))
	w := s.watchBurst(groups)
	t.Logf("-burst.seed=%d: %d groups of %d pods on %d CPUs", seed, len(groups), w.wanted, nodes*burstCPUs)
	s.burst(w)
	s.burstIsOver(w)
	w.verdict(t)
	s.countWrites(w)
}

// burst creates all groups. It deletes each when it has run, and some before.
func (s *story) burst(w *burstWatch) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), burstPatience)
	defer cancel()
	for range burstClients {
		go s.deleteEnded(ctx, w)
	}
	makers, making := errgroup.WithContext(ctx)
	makers.SetLimit(burstClients)
	for _, g := range w.groups {
		makers.Go(func() error {
			if err := s.createInBurst(making, g); err != nil {
				return fmt.Errorf("create %s %s: %w", g.kind, g.name, err)
			}
			w.made(g)
			return nil
		})
	}
	if err := makers.Wait(); err != nil {
		s.Fatal(err)
	}
	s.Logf("%.0fs: all groups are made", time.Since(w.start).Seconds())
	w.wait(s)
}

// deleteEnded deletes groups when the watch demands it, until
// ctx ends. It tries again if the API server has no time.
func (s *story) deleteEnded(ctx context.Context, w *burstWatch) {
	for {
		select {
		case <-ctx.Done():
			return
		case g := <-w.ended:
			err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
				err := s.deleteInBurst(ctx, g)
				if err != nil {
					s.Logf("delete %s %s: %v", g.kind, g.name, err)
				}
				return err == nil, nil
			})
			if err == nil {
				w.deleted()
			}
		}
	}
}

// burstIsOver waits until no pod, no allocation and no PodGroup is left.
func (s *story) burstIsOver(w *burstWatch) {
	s.Helper()
	s.eventually("no pod is left", func(context.Context) (bool, string) {
		n := w.present()
		return n == 0, fmt.Sprintf("%d pods", n)
	})
	s.eventually("the matcher holds nothing", func(ctx context.Context) (bool, string) {
		jobs, err := metric(ctx, "fluence_sidecar_jobs")
		return err == nil && jobs == "0", fmt.Sprintf("jobs %s, error %v", jobs, err)
	})
	s.eventually("no PodGroup is left whose owner is gone", func(context.Context) (bool, string) {
		owned, _ := w.podGroupsLeft()
		return len(owned) == 0, fmt.Sprintf("%d PodGroups: %.5q", len(owned), owned)
	})
	s.Logf("%.0fs: all is gone, but for PodGroups of bare pods", time.Since(w.start).Seconds())
	bareLeft := func(context.Context) (bool, error) {
		_, bare := w.podGroupsLeft()
		return len(bare) == 0, nil
	}
	if err := wait.PollUntilContextTimeout(s.Context(), time.Second, burstLinger+patience, true, bareLeft); err != nil {
		_, bare := w.podGroupsLeft()
		s.Errorf("%d PodGroups of bare pods are left: %.5q", len(bare), bare)
	}
	s.Logf("%.0fs: nothing is left", time.Since(w.start).Seconds())
	for _, name := range []string{stack.Scheduler, stack.Sidecar, stack.Controller} {
		s.Logf("memory of %s: %d MiB", name, s.Process(name).Memory()>>20)
	}
}
