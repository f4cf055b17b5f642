package gang

import (
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// equals are groups a, b, c, ... of one pod each, in this order, which ask for the same.
type equals struct {
	*testing.T
	*Groups
	now time.Time
}

// newEquals returns equal groups, each of which was refused a minute ago.
func newEquals(t *testing.T, names string) *equals {
	e := &equals{T: t, Groups: New(seenOwners{}, match.PolicyLonode), now: noon}
	for _, name := range names {
		e.PutPod(objects.Pod(string(name), objects.Created(noon)), e.now)
	}
	for _, name := range names {
		e.refuse(string(name), alike())
	}
	e.now = e.now.Add(time.Minute)
	return e
}

func alike() Refusal {
	return Refusal{Reason: "NoRoom", RetryOn: []Event{Released, NodeChanged}, WaitsFor: WaitsForRoom, Equivalence: "one kind"}
}

func (e *equals) refuse(name string, r Refusal) {
	e.refuseAfter(name, r, func() {})
}

// refuseAfter refuses a group after something has happened during its match.
func (e *equals) refuseAfter(name string, r Refusal, meanwhile func()) {
	e.Helper()
	p, _ := e.Plan(types.UID(name), e.now)
	if p.Job == 0 {
		e.Fatalf("group %s may not be placed: %+v", name, p.Wait)
	}
	meanwhile()
	e.Refuse(p, r, e.now)
}

func (e *equals) place(name string) {
	e.Helper()
	p, _ := e.Plan(types.UID(name), e.now)
	if p.Job == 0 {
		e.Fatalf("group %s may not be placed: %+v", name, p.Wait)
	}
	if _, _, _, err := e.Assign(p, []match.Slot{{Key: name, Node: "n"}}, e.now.Add(time.Hour)); err != nil {
		e.Fatal(err)
	}
}

// wantDue checks which groups may retry after some time.
func (e *equals) wantDue(after time.Duration, want ...string) {
	e.Helper()
	e.now = e.now.Add(after)
	keys, _ := e.Due(e.now)
	var got []string
	for _, k := range keys {
		got = append(got, path.Base(k.Name))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		e.Fatalf("groups %v may retry, want %v", got, want)
	}
	for _, name := range want {
		if !e.PreEnqueue(types.UID(name), e.now).Pass {
			e.Errorf("group %s does not come into the queue", name)
		}
	}
}

func TestOneOfEqualGroupsRetries(t *testing.T) {
	for name, test := range map[string]func(e *equals){
		"an event lets the first retry, and the others only if it is placed": func(e *equals) {
			e.ObserveEvent(Released)
			e.wantDue(0, "a")
			e.refuse("a", alike())
			e.wantDue(time.Minute)
			e.ObserveEvent(NodeChanged)
			e.wantDue(0, "a")
			e.place("a")
			e.wantDue(0, "b")
			e.place("b")
			e.wantDue(0, "c")
			e.refuse("c", alike())
			e.wantDue(time.Minute)
			e.ObserveEvent(Released)
			e.wantDue(0, "c")
		},
		"an event that helps none lets none retry": func(e *equals) {
			e.ObserveEvent(StorageChanged)
			e.wantDue(time.Hour)
		},
		"a group before the others retries for them": func(e *equals) {
			e.PutPod(objects.Pod("first", objects.Created(noon.Add(-time.Hour))), e.now)
			e.refuse("first", alike())
			e.ObserveEvent(Released)
			e.wantDue(time.Second, "first")
		},
		"a group after the others does not": func(e *equals) {
			e.PutPod(objects.Pod("last", objects.Created(noon.Add(time.Second))), e.now)
			e.refuse("last", alike())
			e.ObserveEvent(Released)
			e.wantDue(time.Second, "a")
		},
		"a group before the others that is refused during the retry is the next that retries": func(e *equals) {
			e.ObserveEvent(Released)
			e.wantDue(0, "a")
			e.PutPod(objects.Pod("first", objects.Created(noon.Add(-time.Hour))), e.now)
			e.refuse("first", alike())
			e.refuse("a", alike())
			e.wantDue(time.Minute)
			e.ObserveEvent(Released)
			e.wantDue(0, "first")
		},
		"the next retries if the first is deleted": func(e *equals) {
			e.DropPod("a")
			e.wantDue(0, "b")
		},
		"the next retries if the first is deleted during its retry": func(e *equals) {
			e.ObserveEvent(Released)
			e.wantDue(0, "a")
			e.DropPod("a")
			e.wantDue(0, "b")
		},
		"nothing happens if a group is deleted that does not retry for others": func(e *equals) {
			e.DropPod("b")
			e.wantDue(time.Minute)
		},
		"the next retries if the first is bound by another scheduler": func(e *equals) {
			e.PutPod(objects.Pod("a", objects.Created(noon), objects.OnNode("n")), e.now)
			e.wantDue(0, "b")
		},
		"the next retries if the first is refused for another reason": func(e *equals) {
			e.ObserveEvent(Released)
			e.wantDue(0, "a")
			e.refuse("a", Refusal{Reason: "NodeRefused", Backoff: true, RetryOn: ClusterEvents()})
			e.wantDue(0, "b")
		},
		"the next retries if the first has another request": func(e *equals) {
			e.ObserveEvent(Released)
			e.wantDue(0, "a")
			other := alike()
			other.Equivalence = "another kind"
			e.refuse("a", other)
			e.wantDue(0, "b")
			e.refuse("b", alike())
			e.ObserveEvent(Released)
			e.wantDue(time.Second, "a", "b")
		},
		"the next retries if the first does not come to its retry": func(e *equals) {
			e.ObserveEvent(Released)
			e.wantDue(0, "a")
			e.wantDue(scoutTimeout - time.Millisecond)
			e.wantDue(time.Millisecond, "b")
			e.refuse("a", alike())
			e.refuse("b", alike())
			e.ObserveEvent(Released)
			e.wantDue(time.Second, "a")
		},
		"an event during the match of any lets the first retry": func(e *equals) {
			e.RetryNow(lonePodKey("b"))
			e.refuseAfter("b", alike(), func() { e.ObserveEvent(Released) })
			e.wantDue(time.Second, "a")
		},
		"one whose pods end at another time retries, also if that changed during its match": func(e *equals) {
			e.EndsChanged(lonePodKey("b"))
			if !e.MayPlace(lonePodKey("b"), e.now) {
				e.Error("it may not retry")
			}
			e.refuseAfter("b", alike(), func() { e.EndsChanged(lonePodKey("b")) })
			e.wantDue(time.Second, "b")
		},
		"an event during the match of the first, which another then precedes, lets the other retry": func(e *equals) {
			e.ObserveEvent(Released)
			e.wantDue(0, "a")
			e.refuseAfter("a", alike(), func() {
				e.PutPod(objects.Pod("first", objects.Created(noon.Add(-time.Hour))), e.now)
				e.refuse("first", alike())
				e.ObserveEvent(NodeChanged)
			})
			e.wantDue(time.Second, "first")
		},
		"the others retry in turns after the first was refused, once they are old": func(e *equals) {
			e.ObserveEvent(Released)
			e.wantDue(0, "a")
			e.refuse("a", alike())
			e.wantDue(maxFollow - time.Minute - time.Millisecond)
			e.wantDue(time.Millisecond, "b")
			e.refuse("b", alike())
			e.wantDue(turnEvery, "c")
			e.refuse("c", alike())
			e.wantDue(time.Hour)
		},
		"a group that could be placed later retries after a younger one": func(e *equals) {
			e.PutPodGroup(types.NamespacedName{Namespace: "ns", Name: "old"}, PodGroup{UID: "old", MinMember: 2, Created: noon.Add(-time.Hour)})
			e.PutPod(objects.Pod("old-0", objects.InGroup("old"), objects.Created(noon.Add(-time.Hour))), e.now)
			e.PutPod(objects.Pod("old-1", objects.InGroup("old"), objects.Created(noon.Add(time.Second))), e.now)
			e.refuse("old-0", alike())
			e.ObserveEvent(Released)
			e.wantDue(time.Second, "a")
		},
		"the request of one that changes does not concern the others": func(e *equals) {
			e.PutPod(objects.Pod("b", objects.Created(noon), objects.OfApp("b")), e.now)
			e.wantDue(0, "b")
			e.refuse("b", alike())
			e.wantDue(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) { test(newEquals(t, "abc")) })
	}
}

// Each of many equal groups makes an attempt within about five minutes while
// events come, so that no message becomes older than that.
func TestAllEqualGroupsRetryInTurns(t *testing.T) {
	names := make([]string, 1000)
	e := &equals{T: t, Groups: New(seenOwners{}, match.PolicyLonode), now: noon}
	for i := range names {
		names[i] = fmt.Sprintf("g%03d", i)
		e.PutPod(objects.Pod(names[i], objects.Created(noon)), e.now)
	}
	for _, name := range names {
		e.refuse(name, alike())
	}
	last, attempts := map[string]time.Time{}, 0
	for e.now.Before(noon.Add(time.Hour)) {
		e.now = e.now.Add(100 * time.Millisecond)
		e.ObserveEvent(Released)
		for keys, _ := e.Due(e.now); len(keys) > 0; keys, _ = e.Due(e.now) {
			for _, k := range keys {
				e.refuse(path.Base(k.Name), alike())
				last[path.Base(k.Name)] = e.now
				attempts++
			}
		}
	}
	for _, name := range names {
		if age := e.now.Sub(last[name]); age > 2*maxFollow {
			t.Errorf("group %s made its last attempt %s ago", name, age)
		}
	}
	// One a second by the first, and one by each in five minutes.
	if most := 3600 + 1000*12 + 1000; attempts > most {
		t.Errorf("%d attempts, want at most %d", attempts, most)
	}
}
