package inventory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/trials"
)

// A scheduler is the caller of an inventory's engine. Its groups are created, wait for their
// answers, are assigned, bound and end, all at the same time. Events reach it with a delay.
type scheduler struct {
	*world
	assignments *source
}

// TestNothingIsFoundInHealthHoweverSlow creates and ends groups while every answer, every release
// and every event takes as long as it may. Now and then the engine is restarted or does not answer.
func TestNothingIsFoundInHealthHoweverSlow(t *testing.T) {
	for seed := range trials.Seeds(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			s := &scheduler{assignments: &source{}}
			run(t, embedded, func(c *Config) {
				c.Sources = []Source{s.assignments}
				c.AuditEvery = 200 * time.Millisecond
				c.JobOf = func(p *corev1.Pod) match.JobID { return s.jobOf(p.UID) }
			}, func(w *world) {
				s.world = w
				for n := range 8 {
					w.nodes.add(node(fmt.Sprintf("n%d", n), "8", inRack(fmt.Sprintf("r%d", n/4))))
				}
				w.begin()
				s.live(seed)
				if len(w.found()) > 0 {
					t.Errorf("found %+v", w.found())
				}
				if rounds := len(w.pages()); rounds < 500 {
					t.Errorf("%d rounds, want one every 200 ms", rounds)
				}
				time.Sleep(w.cfg.DriftAfter)
				synctest.Wait()
				for _, line := range w.portrait() {
					if line[0] != 'n' {
						t.Errorf("all have ended, and there is still %s", line)
					}
				}
			})
		})
	}
}

// live creates groups for some minutes, and waits for their end.
func (s *scheduler) live(seed uint64) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg, faults sync.WaitGroup
	faults.Go(func() { s.disturb(ctx, rand.New(rand.NewPCG(seed, 1000))) })
	for g := range 12 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(g)))
			for n := range 20 {
				s.group(random, fmt.Sprintf("%d-%d", g, n))
			}
		})
	}
	wg.Wait()
	cancel()
	faults.Wait()
}

// disturb restarts the engine or keeps it from answering, every now and then.
func (s *scheduler) disturb(ctx context.Context, random *rand.Rand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(upTo(random, 40*time.Second)):
		}
		if random.IntN(2) == 0 {
			_, err := s.fake.Reset(ctx)
			done(err)
			continue
		}
		methods := []matchtest.Method{
			matchtest.Update, matchtest.PutNode, matchtest.Release, matchtest.Match, matchtest.Nodes, matchtest.Reset,
		}
		for _, m := range methods {
			s.fake.Fail(m, match.ErrUnavailable)
		}
		time.Sleep(upTo(random, 3*time.Second))
		for _, m := range methods {
			s.fake.Fail(m, nil)
		}
	}
}

// group is the life of a pod: it is matched, assigned,
// bound where it was matched or given up, and ends.
func (s *scheduler) group(random *rand.Rand, name string) {
	job, p := match.NewJobID("group", name), pod(name, types.UID(name), "", fmt.Sprintf("%dm", 250*(1+random.IntN(8))))
	epoch := s.Epoch()
	a, err := s.fake.Match(s.t.Context(), match.Request{
		Epoch: epoch, ID: job, Keys: []string{name},
		Jobspec: translate.Jobspec([]translate.ShapeRequest{{Label: "a", Amounts: translate.Requests(p), Min: 1, Max: 1}}),
	})
	time.Sleep(upTo(random, s.cfg.Timeout)) // the answer's way
	if err != nil {
		s.give(random, job)
		return
	}
	s.assign(hold{job: job, slot: a.Slots[0]})
	if s.Epoch() != epoch { // maybe loaded again without this assignment
		s.revoke(name)
		s.give(random, job)
		return
	}
	if random.IntN(3) == 0 {
		time.Sleep(upTo(random, 10*time.Second))
		s.revoke(name)
		s.give(random, job)
		return
	}
	time.Sleep(upTo(random, 10*time.Second))
	set(s.world, s.jobs, p.UID, job)
	p.Spec.NodeName = a.Slots[0].Node
	s.tell(random, func() { done(s.pods.store.Add(p)) }, func() { s.pods.handler.OnAdd(p, false) })
	s.revoke(name)
	time.Sleep(upTo(random, 20*time.Second))
	s.tell(random, func() { done(s.pods.store.Delete(p)) }, func() { s.pods.handler.OnDelete(p) })
}

// tell changes the store, and calls the handler a while later.
func (s *scheduler) tell(random *rand.Rand, store, handler func()) {
	store()
	time.Sleep(upTo(random, time.Second))
	handler()
}

// give releases a job until the engine has done so.
func (s *scheduler) give(random *rand.Rand, job match.JobID) {
	time.Sleep(upTo(random, s.cfg.Timeout))
	for {
		if e := s.Epoch(); e != 0 && s.fake.Release(s.t.Context(), e, job) == nil {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (s *scheduler) assign(h hold) {
	s.assignments.mu.Lock()
	defer s.assignments.mu.Unlock()
	s.assignments.seats = append(s.assignments.seats, h)
}

func (s *scheduler) revoke(key string) {
	s.assignments.mu.Lock()
	defer s.assignments.mu.Unlock()
	s.assignments.seats = slices.DeleteFunc(slices.Clone(s.assignments.seats), func(h hold) bool { return h.slot.Key == key })
}

func (s *scheduler) jobOf(uid types.UID) match.JobID { return locked(s.world, s.jobs, uid) }

// upTo draws a time.
func upTo(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}
