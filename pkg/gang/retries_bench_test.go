package gang

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// refusedGroups returns 4,000 groups of two pods, each of which was refused at noon.
func refusedGroups(b *testing.B, r Refusal) *Groups {
	const groups = 4_000
	b.Helper()
	g := New(seenOwners{}, match.PolicyLonode)
	for i := range groups {
		name := fmt.Sprintf("g-%d", i)
		g.PutPodGroup(types.NamespacedName{Namespace: "ns", Name: name}, PodGroup{UID: types.UID(name), MinMember: 2})
		for j := range 2 {
			g.PutPod(benchPod(name, j), noon)
		}
		asks := g.EnqueueableOf([]types.NamespacedName{{Namespace: "ns", Name: name}}, noon)
		if len(asks) != 1 {
			b.Fatalf("%d pods ask for group %s", len(asks), name)
		}
		p, _ := g.Plan(asks[0].UID, noon)
		g.Refuse(p, r, noon)
	}
	return g
}

// BenchmarkObserveEvent measures an event while 4,000 groups are refused.
// The lock is held, and each change of the cluster causes an event.
func BenchmarkObserveEvent(b *testing.B) {
	for name, ev := range map[string]Event{"helps=none": StorageChanged, "helps=all": Released, "helps=none,nodes": NodeChanged} {
		b.Run(name, func(b *testing.B) {
			g := refusedGroups(b, Refusal{RetryOn: []Event{Released}, WaitsFor: WaitsForRoom})
			for b.Loop() {
				g.ObserveEvent(ev)
			}
		})
	}
}

// BenchmarkDue measures a search for groups that may retry, out of 4,000,
// of which none may. The lock is held, and each activation causes a search.
func BenchmarkDue(b *testing.B) {
	for name, r := range map[string]Refusal{"until=event": {RetryOn: []Event{Released}, WaitsFor: WaitsForRoom}, "until=time": {Backoff: true}} {
		b.Run(name, func(b *testing.B) {
			g := refusedGroups(b, r)
			for b.Loop() {
				if keys, _ := g.Due(noon.Add(time.Millisecond)); len(keys) > 0 {
					b.Fatalf("%d groups are due", len(keys))
				}
			}
		})
	}
}

// BenchmarkStarving measures the search for the groups whose turn it is, while 4,000 wait. The lock is
// held, and each tick searches. Nothing has changed since the last tick, or one group has.
func BenchmarkStarving(b *testing.B) {
	for name, changed := range map[string]bool{"changed=none": false, "changed=one": true} {
		b.Run(name, func(b *testing.B) {
			g := refusedGroups(b, Refusal{RetryOn: []Event{Released}, WaitsFor: WaitsForRoom})
			pod := benchPod("g-7", 0)
			for b.Loop() {
				if changed {
					g.PutPod(pod, noon)
				}
				if first := g.Starving(noon.Add(time.Minute), time.Second); len(first) != 1 {
					b.Fatalf("it is the turn of %d groups", len(first))
				}
			}
		})
	}
}

// BenchmarkWaitingSiblings measures a look at the siblings of 4,000 groups that have been told why they wait.
func BenchmarkWaitingSiblings(b *testing.B) {
	g := refusedGroups(b, Refusal{Reason: "NoRoom", Message: "no room", RetryOn: []Event{Released}, WaitsFor: WaitsForRoom})
	for _, w := range g.WaitingSiblings(noon) {
		g.Told(w)
	}
	for b.Loop() {
		if all := g.WaitingSiblings(noon); len(all) != 4_000 {
			b.Fatalf("%d groups wait", len(all))
		}
	}
}

// BenchmarkMoreUrgent measures the search for a replacement that goes before a pod, while
// 4,000 groups wait and none of them has lost a member. Each scheduling cycle searches once.
func BenchmarkMoreUrgent(b *testing.B) {
	g := refusedGroups(b, Refusal{RetryOn: []Event{Released}, WaitsFor: WaitsForRoom})
	pod := benchPod("lone", 0)
	g.PutPod(pod, noon)
	for b.Loop() {
		if uid, ok := g.MoreUrgent(pod.UID, noon); ok {
			b.Fatalf("pod %s goes first", uid)
		}
	}
}

// BenchmarkDueThrottled measures a step of a throttled namespace: one of its 4,000 groups retries.
func BenchmarkDueThrottled(b *testing.B) {
	g := refusedGroups(b, Refusal{RetryAfter: time.Second})
	now := noon.Add(time.Second)
	for b.Loop() {
		now = now.Add(retryStep)
		keys, _ := g.Due(now)
		if len(keys) != 1 {
			b.Fatalf("%d groups are due, want one", len(keys))
		}
		asks := g.EnqueueableOf(keys, now)
		p, _ := g.Plan(asks[0].UID, now)
		g.Refuse(p, Refusal{RetryAfter: time.Second}, now)
	}
}

// BenchmarkGroupOfJob measures the search for the group of a job among 4,000 groups with assignments.
func BenchmarkGroupOfJob(b *testing.B) {
	g := New(seenOwners{}, match.PolicyLonode)
	var job match.JobID
	for i := range 4_000 {
		name := fmt.Sprintf("g-%d", i)
		key := types.NamespacedName{Namespace: "ns", Name: name}
		g.PutPodGroup(key, PodGroup{UID: types.UID(name), MinMember: 1})
		pod := benchPod(name, 0)
		g.PutPod(pod, noon)
		p, _ := g.Plan(pod.UID, noon)
		if _, _, _, err := g.Assign(p, []match.Slot{{Key: string(pod.UID), Node: "n"}}, noon); err != nil {
			b.Fatal(err)
		}
		job = p.Job
	}
	for b.Loop() {
		if _, _, ok := g.GroupOfJob(job); !ok {
			b.Fatal("the job is nobody's")
		}
	}
}
