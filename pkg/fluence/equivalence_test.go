package fluence

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// waitingGangs creates n gangs of 4 pods that find no room, one after the other.
func (r *rig) waitingGangs(prefix string, n int, edit ...func(*corev1.Pod)) {
	r.Helper()
	for i := range n {
		name := fmt.Sprintf("%s%02d", prefix, i)
		pg := aPodGroup(name, 4, types.UID(name))
		pg.CreationTimestamp = metav1.NewTime(r.pl.now())
		r.podGroupAPI.put(pg)
		for j := range 4 {
			r.pod(fmt.Sprintf("%s-%d", name, j), append(edit, objects.InGroup(name), objects.Created(r.pl.now()))...)
		}
		r.pass(time.Second)
	}
}

// startedInOrder returns how many of the gangs that waitingGangs has made have all their pods on
// nodes. It fails unless these are the first.
func (r *rig) startedInOrder(prefix string) int64 {
	r.Helper()
	pods := map[string]int{}
	for name := range r.assigned() {
		if gang, _, _ := strings.Cut(name, "-"); strings.HasPrefix(gang, prefix) {
			pods[gang]++
		}
	}
	for i := range len(pods) {
		if gang := fmt.Sprintf("%s%02d", prefix, i); pods[gang] != 4 {
			r.Errorf("%d pods of %s are on nodes, want 4: %v", pods[gang], gang, pods)
		}
	}
	return int64(len(pods))
}

// After an event one of many equal groups is tried, and the next only if it is placed.
func TestEqualGroupsThatWaitCostFewMatches(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.schedule()
		r.node("full", 1)
		r.pass(settleTime)
		r.waitingGangs("big", 30)
		r.waitingGangs("small", 30, objects.CPU("500m"))
		if got := len(r.matches()); got != 60 {
			t.Fatalf("%d matches, want one of each group", got)
		}
		r.pass(time.Minute)
		var room int64
		for _, cpus := range []int64{4, 4, 2, 4} {
			room += cpus
			r.node(fmt.Sprintf("n%d", room), cpus)
			r.pass(5 * time.Second)
			// Of the two kinds either may be the first. A big group needs 4 CPUs, a small one 2.
			big, small := r.startedInOrder("big"), r.startedInOrder("small")
			if 4*big+2*small != room {
				t.Errorf("with room for %d CPUs %d big and %d small groups have started", room, big, small)
			}
		}
		// Each change is observed up to three times: by the plugin, and when the scheduler's cache has it.
		if got := len(r.matches()) - 60; got > 7+4*3*2 {
			t.Errorf("%d matches for at most seven groups that found room", got)
		}
	})
}

// Groups are equal only if they ask for the same, in the same namespace and at the same priority.
func TestGroupsThatAreNotEqualAllRetry(t *testing.T) {
	cases := map[string]struct {
		second  func(*rig)
		retries bool // besides the first, after an event that helps neither
	}{
		"the same request":  {func(r *rig) { r.waitingLonePod("b") }, false},
		"another request":   {func(r *rig) { r.waitingLonePod("b", objects.CPU("3")) }, true},
		"another namespace": {func(r *rig) { r.waitingLonePod("b", objects.In("elsewhere")) }, true},
		"another priority":  {func(r *rig) { r.waitingLonePod("b", func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](5) }) }, true},
		"another node selector": {func(r *rig) {
			r.waitingLonePod("b", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
		}, true},
		"another match policy": {func(r *rig) {
			r.waitingLonePod("b", func(p *corev1.Pod) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, group.MatchPolicyAnnotation, match.PolicyFirst)
			})
		}, true},
		"another topology": {func(r *rig) {
			r.waitingLonePod("b", func(p *corev1.Pod) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, group.TopologyRequiredAnnotation, "kubernetes.io/hostname")
			})
		}, true},
		"pods that depend on each other's places": {func(r *rig) { r.waitingLonePod("b", objects.OfApp("x"), objects.SpreadOver("zone", "x", 1)) }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.schedule()
				r.node("full", 1)
				r.pass(settleTime)
				r.waitingLonePod("a")
				tc.second(r)
				before := len(r.matches())
				r.node("small", 1)
				r.pass(time.Second)
				asked := sets.New[string]()
				for _, m := range r.matches()[before:] {
					asked.Insert(path.Base(m.Holder))
				}
				if !asked.Has("a") || asked.Has("b") != tc.retries || asked.Len() > 2 {
					t.Errorf("groups %v have retried after an event; want a, and b: %v", sets.List(asked), tc.retries)
				}
			})
		})
	}
}

// waitingLonePod creates a pod of 2 CPUs that finds no room.
func (r *rig) waitingLonePod(name string, edit ...func(*corev1.Pod)) {
	r.pod(name, append([]func(*corev1.Pod){objects.CPU("2")}, edit...)...)
	r.pass(10 * time.Second)
}

// A group for which nodes are reserved is tried when a pod there ends, though an older group that asks for the
// same comes before it in the queue: that one became complete later, and must leave the nodes free.
func TestAReservedGroupRetriesThoughAnOlderOneIsEqual(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		group := func(name string) {
			pg := aPodGroup(name, 2, types.UID(name))
			pg.CreationTimestamp = metav1.NewTime(r.pl.now())
			r.podGroupAPI.put(pg)
		}
		pod := func(group string, i int) {
			r.pod(fmt.Sprintf("%s-%d", group, i), objects.InGroup(group), objects.Created(r.pl.now()))
		}
		r.node("n0", 4)
		r.pass(settleTime)
		r.schedule()
		for _, name := range []string{"p1", "p2"} {
			r.pod(name, objects.CPU("2"), objects.Never, objects.OnNode("n0"))
		}
		r.pass(time.Second)
		group("old")
		pod("old", 0)
		r.pass(time.Minute)
		group("young")
		pod("young", 0)
		pod("young", 1)
		r.pass(time.Minute)
		pod("old", 1)
		r.pass(12 * time.Minute) // n0 is reserved for the young one
		r.remove("p1")
		r.pass(5 * time.Second)
		if !r.runs("young-0") || r.runs("old-0") {
			t.Errorf("pods on nodes: %v, want those of the young group", r.assigned())
		}
	})
}
