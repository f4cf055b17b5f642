package inventory

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// embedded returns the real engine, with calls that can be made to fail.
func embedded() *matchtest.Fake {
	var epochs atomic.Uint64
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }})
	if err != nil {
		panic(err)
	}
	return matchtest.Spy(e)
}

// A cluster is the state of an API server that changes at random.
type cluster struct {
	*world
	random *rand.Rand
	nodes  map[string]*corev1.Node
	pods   map[string]*corev1.Pod
	uids   int
	away   bool
}

// TestTheEngineEqualsTheClusterWhateverHappens changes the cluster at
// random. Now and then it compares what the engine holds with the cluster,
// and the room that the engine sees with what is left by plain arithmetic.
func TestTheEngineEqualsTheClusterWhateverHappens(t *testing.T) {
	for seed := range trials.Seeds(30) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			run(t, embedded, auditOften, func(w *world) {
				c := &cluster{
					world:  w,
					random: rand.New(rand.NewPCG(seed, 1)),
					nodes:  map[string]*corev1.Node{},
					pods:   map[string]*corev1.Pod{},
				}
				for range 20 {
					c.happen()
				}
				w.begin()
				for range 20 {
					for range 1 + c.random.IntN(15) {
						c.happen()
						if c.random.IntN(3) == 0 {
							synctest.Wait()
						}
					}
					c.check()
				}
				if len(w.found()) > 0 {
					t.Errorf("the audit found what is none of the engine's doing: %+v", w.found())
				}
				if len(w.pages()) < 20 {
					t.Errorf("%d pages were compared", len(w.pages()))
				}
			})
		})
	}
}

// auditOften compares everything ten times a second. A
// difference that lasts for half a second is a drift.
func auditOften(c *Config) {
	c.AuditEvery, c.AuditRound, c.DriftAfter = 100*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond
}

// happen is one event.
func (c *cluster) happen() {
	switch n := c.random.IntN(100); {
	case n < 10:
		c.putNode()
	case n < 13:
		if name, ok := c.anyNode(); ok {
			c.world.nodes.remove(c.nodes[name])
			delete(c.nodes, name)
		}
	case n < 35:
		c.bindForeign()
	case n < 55:
		c.matchAndBind()
	case n < 65:
		c.changePod(func(p *corev1.Pod) { objects.CPU(c.cores())(p) })
	case n < 75:
		c.changePod(objects.InPhase(corev1.PodSucceeded))
	case n < 77:
		c.changePod(func(p *corev1.Pod) { set(c.world, c.jobs, p.UID, 0) })
	case n < 80:
		c.changeHolder()
	case n < 83:
		c.changeEnd()
	case n < 85:
		c.changePod(func(p *corev1.Pod) { p.Labels = map[string]string{"changed": "irrelevant"} })
	case n < 93:
		if name, ok := c.anyPod(); ok {
			if c.random.IntN(2) == 0 {
				c.world.pods.remove(c.pods[name])
			} else {
				c.world.pods.lose("default/" + name)
			}
			delete(c.pods, name)
		}
	case n < 95:
		// Another process takes over the engine.
		if _, err := c.fake.Reset(c.t.Context()); err != nil && !c.away {
			c.t.Errorf("reset: %v", err)
		}
	case n < 97:
		c.setAway(!c.away)
	default:
		time.Sleep(time.Duration(c.random.IntN(1000)) * time.Millisecond)
	}
}

func (c *cluster) cores() string { return fmt.Sprintf("%dm", 250*(1+c.random.IntN(8))) }

func (c *cluster) putNode() {
	name := fmt.Sprintf("n%d", c.random.IntN(6))
	n := node(name, fmt.Sprint(1+c.random.IntN(8)), inRack(fmt.Sprintf("r%d", c.random.IntN(2))))
	if c.random.IntN(4) == 0 {
		notReady(n)
	}
	if c.nodes[name] == nil {
		c.world.nodes.add(n)
	} else {
		c.world.nodes.update(n)
	}
	c.nodes[name] = n
}

// bindForeign lets another scheduler bind a pod, maybe where there is no room or no node any more.
func (c *cluster) bindForeign() {
	c.put(pod(c.name(), c.uid(), fmt.Sprintf("n%d", c.random.IntN(7)), c.cores()))
}

// matchAndBind does what the scheduler does: a pod of a group gets a node
// from the engine and is bound there, or to another node, or not at all.
func (c *cluster) matchAndBind() {
	p := pod(c.name(), c.uid(), "", c.cores())
	group := match.NewJobID("group", fmt.Sprint(c.random.IntN(4)), string(p.UID))
	a, err := c.fake.Match(c.t.Context(), match.Request{
		Epoch: c.Epoch(),
		ID:    group,
		Keys:  []string{string(p.UID)},
		Jobspec: translate.Jobspec([]translate.ShapeRequest{{
			Label: "a", Amounts: translate.Requests(p), Min: 1, Max: 1,
		}}),
	})
	if err != nil {
		var refusal *match.Refusal
		if !errors.As(err, &refusal) && !errors.Is(err, match.ErrStale) && !errors.Is(err, match.ErrUnavailable) {
			c.t.Fatalf("match: %v", err)
		}
		return
	}
	p.Spec.NodeName = a.Slots[0].Node
	switch c.random.IntN(4) {
	case 0:
		if err := c.fake.Release(c.t.Context(), c.Epoch(), group); err != nil {
			c.t.Fatalf("release: %v", err)
		}
		return
	case 1:
		p.Spec.NodeName = fmt.Sprintf("n%d", c.random.IntN(7))
	}
	set(c.world, c.jobs, p.UID, group)
	c.put(p)
}

// put sends an event of a pod. The pod may have the name of another one and replace it.
func (c *cluster) put(p *corev1.Pod) {
	if c.pods[p.Name] == nil {
		c.world.pods.add(p)
	} else {
		c.world.pods.update(p)
	}
	c.pods[p.Name] = p
}

func (c *cluster) changePod(change func(*corev1.Pod)) {
	if name, ok := c.anyPod(); ok {
		p := c.pods[name].DeepCopy()
		change(p)
		c.put(p)
	}
}

// changeHolder changes whether the node of a pod has a holder.
func (c *cluster) changeHolder() {
	if name, ok := c.anyPod(); ok {
		uid := c.pods[name].UID
		set(c.world, c.holders, uid, []string{"", "x", "y"}[c.random.IntN(3)])
		c.Recheck(uid)
	}
}

// changeEnd changes when the room of a pod is expected to be free.
func (c *cluster) changeEnd() {
	if name, ok := c.anyPod(); ok {
		uid, end := c.pods[name].UID, time.Time{}
		if n := c.random.IntN(4); n > 0 {
			end = time.Now().Truncate(time.Second).Add(time.Duration(n-2) * time.Minute).UTC()
		}
		set(c.world, c.ends, uid, end)
		c.Recheck(uid)
	}
}

func (c *cluster) setAway(away bool) {
	c.away = away
	var err error
	if away {
		err = match.ErrUnavailable
	}
	for _, m := range []matchtest.Method{
		matchtest.Match, matchtest.Release, matchtest.Update, matchtest.PutNode,
		matchtest.RemoveNode, matchtest.Reset, matchtest.Ready, matchtest.Nodes,
	} {
		c.fake.Fail(m, err)
	}
}

func (c *cluster) name() string { return fmt.Sprintf("p%d", c.random.IntN(40)) }

func (c *cluster) uid() types.UID {
	c.uids++
	return types.UID(fmt.Sprintf("uid%d", c.uids))
}

func (c *cluster) anyNode() (string, bool) { return anyOf(c.random, c.nodes) }
func (c *cluster) anyPod() (string, bool)  { return anyOf(c.random, c.pods) }

func anyOf[V any](random *rand.Rand, m map[string]V) (string, bool) {
	names := slices.Sorted(maps.Keys(m))
	if len(names) == 0 {
		return "", false
	}
	return names[random.IntN(len(names))], true
}

// check lets the engine come back and the inventory finish, and compares.
func (c *cluster) check() {
	c.t.Helper()
	c.setAway(false)
	// An engine that answers is in service within a second, whatever happened before.
	time.Sleep(time.Second)
	synctest.Wait()
	if !c.loaded() {
		c.t.Fatal("the engine answers for a second and is not in service")
	}
	nodes, pods := slices.Collect(maps.Values(c.nodes)), slices.Collect(maps.Values(c.pods))
	diff, err := difference(c.t.Context(), c.Epoch(), c.fake, nodes, pods, c.jobs, c.holders, c.ends)
	if err != nil {
		c.t.Fatal(err)
	}
	if diff != "" {
		c.t.Fatalf("the engine differs from the cluster: %s", diff)
	}
	if diff := misplaced(c.Inventory, pods); diff != "" {
		c.t.Fatal(diff)
	}
}
