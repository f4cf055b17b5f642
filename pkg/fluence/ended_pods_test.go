package fluence

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// nodeInfos is a snapshot of the scheduler's cache, by node.
type nodeInfos struct {
	fwk.NodeInfoLister
	byName map[string]*schedulerframework.NodeInfo
}

// Get implements NodeInfoLister.
func (n nodeInfos) Get(node string) (fwk.NodeInfo, error) {
	if info := n.byName[node]; info != nil {
		return info, nil
	}
	return nil, fmt.Errorf("there is no node %s", node)
}

// The slots of pods that have ended count until the snapshot lacks the pods.
func TestEndedPods(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	slot := func(uid, node string) match.Slot { return match.Slot{Key: uid, Node: node, Holder: "someone"} }
	pod := func(uid string) *corev1.Pod {
		return objects.Pod(uid, func(p *corev1.Pod) { p.UID = types.UID(uid) })
	}
	cases := map[string]struct {
		then func(e *endedPods, s nodeInfos) time.Time
		want string
	}{
		"nothing happens": {
			then: func(*endedPods, nodeInfos) time.Time { return noon },
			want: "a@n1 b@n2",
		},
		"the cache drops one": {
			then: func(_ *endedPods, s nodeInfos) time.Time {
				if err := s.byName["n1"].RemovePod(klog.Background(), pod("a")); err != nil {
					t.Fatal(err)
				}
				return noon
			},
			want: "b@n2",
		},
		"another pod of the node goes": {
			then: func(_ *endedPods, s nodeInfos) time.Time {
				if err := s.byName["n1"].RemovePod(klog.Background(), pod("other")); err != nil {
					t.Fatal(err)
				}
				return noon
			},
			want: "a@n1 b@n2",
		},
		"a node goes": {
			then: func(_ *endedPods, s nodeInfos) time.Time { delete(s.byName, "n2"); return noon },
			want: "a@n1",
		},
		"the cache dropped it before": {
			then: func(e *endedPods, _ nodeInfos) time.Time { e.add(slot("c", "n1"), noon); return noon },
			want: "a@n1 b@n2",
		},
		"one ends twice": {
			then: func(e *endedPods, _ nodeInfos) time.Time { e.add(slot("a", "n1"), noon); return noon },
			want: "a@n1 b@n2",
		},
		"one comes back and ends again": {
			then: func(e *endedPods, s nodeInfos) time.Time {
				if err := s.byName["n1"].RemovePod(klog.Background(), pod("a")); err != nil {
					t.Fatal(err)
				}
				e.slots(s, noon)
				s.byName["n1"].AddPod(pod("a"))
				e.add(slot("a", "n1"), noon)
				return noon
			},
			want: "b@n2 a@n1",
		},
		"the cache never drops them": {
			then: func(*endedPods, nodeInfos) time.Time { return noon.Add(maxCacheLag + time.Nanosecond) },
		},
		"one is older than the other": {
			then: func(e *endedPods, _ nodeInfos) time.Time {
				e.add(slot("other", "n1"), noon.Add(time.Second))
				return noon.Add(maxCacheLag + time.Nanosecond)
			},
			want: "other@n1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := nodeInfos{byName: map[string]*schedulerframework.NodeInfo{
				"n1": schedulerframework.NewNodeInfo(pod("a"), pod("other")),
				"n2": schedulerframework.NewNodeInfo(pod("b")),
			}}
			var e endedPods
			if e.takeCounted() {
				t.Error("counted before any pod has ended")
			}
			e.add(slot("a", "n1"), noon)
			e.add(slot("b", "n2"), noon)
			e.slots(s, noon)
			if !e.takeCounted() || e.takeCounted() {
				t.Error("want counted once after slots")
			}
			var got []string
			for _, s := range e.slots(s, tc.then(&e, s)) {
				got = append(got, s.Key+"@"+s.Node)
				if s.Holder != "" || !s.Shared {
					t.Errorf("slot %+v keeps others from the rest of its node", s)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("slots: %q, want %q", got, tc.want)
			}
			if counted := e.takeCounted(); counted != (tc.want != "") {
				t.Errorf("counted: %v, want %v", counted, tc.want != "")
			}
		})
	}
}

// slowCache is a scheduler's cache that drops pods only when catchUp is closed.
type slowCache struct {
	internalcache.Cache
	catchUp chan struct{}
}

func (c slowCache) RemovePod(logger klog.Logger, pod *corev1.Pod) error {
	<-c.catchUp
	return c.Cache.RemovePod(logger, pod)
}

// slowCache makes the scheduler's cache drop pods only once catchUp is called.
func (r *rig) slowCache() (catchUp func()) {
	observed := r.sched.Cache.(observedCache)
	slow := slowCache{observed.Cache, make(chan struct{})}
	observed.Cache = slow
	r.sched.Cache = observed
	return sync.OnceFunc(func() { close(slow.catchUp) })
}

// A group waits for room without a backoff while only the
// matcher has released it. It starts once the cache has, too.
func TestRoomThatTheCacheHasNotReleased(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		catchUp := r.slowCache()
		defer catchUp()
		r.node("n1", 4)
		r.node("n2", 4)
		r.pod("old", objects.OnNode("n1"), objects.CPU("4"))
		r.pod("stays", objects.OnNode("n2"), objects.CPU("2"))
		r.gang(4, 4)
		r.schedule()
		r.pass(time.Minute)
		matches := len(r.matches())
		r.remove("old")
		r.pass(maxCacheLag - time.Second)
		if n := len(r.matches()) - matches; n == 0 {
			r.Error("no match after the end of a pod")
		}
		if got := r.assigned(); len(got) > 2 {
			r.Fatalf("on nodes: %v, want none of the group", got)
		}
		if c := r.scheduledCondition(); c.Reason != reason.NoRoom {
			r.Errorf("condition %+v, want %s", c, reason.NoRoom)
		}
		matches = len(r.matches())
		catchUp()
		r.pass(time.Second)
		if got := r.assigned(); len(got) != 5 {
			r.Errorf("on nodes: %v, want the group too", got)
		}
		if n := len(r.matches()) - matches; n != 1 {
			r.Errorf("%d matches once the cache has caught up, want 1", n)
		}
	})
}

// The plugin may release the slot of a pod that has ended before the inventory
// does. So it records the end itself, once for each pod that was on a node.
func TestThePluginRecordsEndsToo(t *testing.T) {
	cases := map[string]struct {
		node string
		end  func(r *rig, pod *corev1.Pod)
		want int
	}{
		"deleted":        {node: "n1", end: func(r *rig, pod *corev1.Pod) { r.pl.podGone(r.ctx, pod) }, want: 1},
		"succeeded":      {node: "n1", end: func(r *rig, pod *corev1.Pod) { r.pl.observePod(r.ctx, pod, succeeded(pod)) }, want: 1},
		"without a node": {end: func(r *rig, pod *corev1.Pod) { r.pl.podGone(r.ctx, pod) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.node("n1", 4)
				pod := r.pod("p", objects.OnNode(tc.node))
				tc.end(r, pod)
				tc.end(r, pod)
				if n := len(r.pl.endedPods.pods); n != tc.want {
					r.Errorf("%d ends are recorded, want %d", n, tc.want)
				}
			})
		})
	}
}

func succeeded(pod *corev1.Pod) *corev1.Pod {
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	return ended
}

// A group is retried although the cache dropped the pod between the
// snapshot of the cycle and the attempt, so that no event follows.
func TestTheCacheCatchesUpInsideACycle(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		catchUp := r.slowCache()
		defer catchUp()
		r.node("n1", 4)
		r.pod("old", objects.OnNode("n1"), objects.CPU("4"))
		pod := r.gang(1, 1, objects.CPU("4"))[0]
		r.must(r.sched.Cache.UpdateSnapshot(klog.FromContext(r.ctx), r.snapshot))
		r.remove("old")
		r.pass(10 * time.Second) // all events of the end are past
		catchUp()
		r.pass(10 * time.Second)
		if _, status, _ := r.fwk.RunPreFilterPlugins(r.ctx, schedulerframework.NewCycleState(), pod); status.IsSuccess() {
			t.Fatal("the group got the room that the snapshot does not have")
		}
		r.schedule()
		r.pass(5 * time.Second)
		if !r.runs(pod.Name) {
			t.Errorf("the group does not run: %s", r.condition())
		}
	})
}

// If all pods of a group fit only with room that the cache has not
// released yet, the group starts with the pods that fit already.
func TestAnAlternativeThatFitsAlready(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		catchUp := r.slowCache()
		defer catchUp()
		r.node("n0", 2, inRack("r0"))
		r.pod("old", objects.OnNode("n0"), objects.CPU("1"))
		r.gang(2, 3, objects.OfApp("x"), objects.SpreadOver("rack", "x", 1))
		r.schedule()
		r.pass(time.Minute)
		r.remove("old")
		r.node("n1", 1, inRack("r1"))
		r.pass(10 * time.Second)
		if got := r.assigned(); len(got) != 2 {
			r.Errorf("on nodes: %v, want two pods of the group", got)
		}
		catchUp()
		r.pass(10 * time.Second)
		if got := r.assigned(); len(got) != 3 {
			r.Errorf("on nodes once the cache has caught up: %v, want three pods of the group", got)
		}
	})
}
