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

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/test/stack"
)

// burstSeed chooses the groups of the burst, to have one again.
var burstSeed = flag.Uint64("burst.seed", 0, "seed of the burst of groups; 0 takes one from the clock")

const (
	// burstNodes of burstCPUs each take a seventh of the burst's pods at a time.
	burstNodes, burstCPUs = 48, 16
	// burstRun is how long pods run.
	burstRun = 2 * time.Second
	// burstClients make and delete objects at the same time.
	burstClients = 16
	// burstPatience bounds the burst, and restPatience how long a group may have
	// some of its minimum on nodes and not all.
	burstPatience, restPatience = 8 * time.Minute, 20 * time.Second
	// burstLabel names the group of a pod for the test.
	burstLabel = "burst"
)

// burstBands say how many groups are how large. They are a thousand groups of some
// 5,200 pods: two in three have less than five, and 18 hold a sixth of all.
var burstBands = [...]struct{ groups, least, most int }{
	{380, 1, 1}, {300, 2, 4}, {180, 5, 8}, {90, 9, 16}, {32, 17, 32}, {18, 33, 64},
}

// A burstGroup is one group of the burst.
type burstGroup struct {
	name, kind string
	size       int
	// early groups are deleted before they have run: "made" as soon as they are,
	// "placed" when the first of their pods has a node. Others have "".
	early string
}

// minimum is how many pods the group starts with.
func (g *burstGroup) minimum() int {
	if g.kind == "Deployment" {
		return 1
	}
	return g.size
}

// burstGroups draws the groups: sizes from the bands, the four kinds in turn, and
// one in ten deleted early.
func burstGroups(seed uint64) []*burstGroup {
	draw := rand.New(rand.NewPCG(seed, 0))
	var sizes []int
	for _, b := range burstBands {
		for range b.groups {
			sizes = append(sizes, b.least+draw.IntN(b.most-b.least+1))
		}
	}
	sizes[len(sizes)-1] = 64
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

// State 6 of the lessons of earlier systems, tenfold: a thousand groups of all
// kinds, of 1 to 64 pods, come, run and go in one burst, a tenth of them while they
// are being placed. None is ever partly placed for long, and nothing of them is
// left.
func TestNothingIsLeftOfAThousandGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	seed := *burstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	groups := burstGroups(seed)
	s := tell(t)
	s.nodes("n", burstNodes, fmt.Sprint(burstCPUs))
	w := s.watchBurst(groups)
	t.Logf("-burst.seed=%d: %d groups of %d pods on %d CPUs", seed, len(groups), w.wanted, burstNodes*burstCPUs)
	s.burst(w)
	s.burstIsOver(w)
	w.verdict(t)
	s.countWrites(w)
}

// burst makes all groups, and deletes each when it has run or, some, before.
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

// deleteEnded deletes groups when the watch says so, until ctx ends.
func (s *story) deleteEnded(ctx context.Context, w *burstWatch) {
	for {
		select {
		case <-ctx.Done():
			return
		case g := <-w.ended:
			if err := s.deleteInBurst(ctx, g); err != nil && ctx.Err() == nil {
				s.Errorf("delete %s %s: %v", g.kind, g.name, err)
			}
			w.deleted()
		}
	}
}

// burstIsOver waits until nothing is left: no pod, no allocation, no PodGroup.
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
	if err := wait.PollUntilContextTimeout(s.Context(), time.Second, podgroup.DefaultConfig().EmptyDelay+patience, true, bareLeft); err != nil {
		_, bare := w.podGroupsLeft()
		s.Errorf("%d PodGroups of bare pods are left: %.5q", len(bare), bare)
	}
	s.Logf("%.0fs: nothing is left", time.Since(w.start).Seconds())
	for _, name := range []string{stack.Scheduler, stack.Sidecar, stack.Controller} {
		s.Logf("memory of %s: %d MiB", name, s.Process(name).Memory()>>20)
	}
}
