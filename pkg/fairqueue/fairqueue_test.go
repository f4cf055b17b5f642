package fairqueue

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// next takes n items from a queue, and marks each as done.
func next(q workqueue.TypedRateLimitingInterface[string], n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i], _ = q.Get()
		q.Done(items[i])
	}
	return items
}

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
	return New("", limiter, func(item string) string { namespace, _, _ := strings.Cut(item, "/"); return namespace })
}

func TestNamespacesTakeTurns(t *testing.T) {
	cases := map[string]struct{ add, want string }{
		"nothing":                         {},
		"one namespace, in order":         {"a/1 a/2 a/3", "a/1 a/2 a/3"},
		"one after another":               {"a/1 a/2 a/3 b/1 c/1 c/2", "a/1 b/1 c/1 a/2 c/2 a/3"},
		"what is there already is once":   {"a/1 a/2 a/1 b/1", "a/1 b/1 a/2"},
		"a late one waits for one of all": {"a/1 a/2 b/1 b/2 c/1", "a/1 b/1 c/1 a/2 b/2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := newQueue()
			defer q.ShutDown()
			for item := range strings.FieldsSeq(tc.add) {
				q.Add(item)
			}
			want := strings.Fields(tc.want)
			if q.Len() != len(want) {
				t.Fatalf("%d items, want %d", q.Len(), len(want))
			}
			if got := next(q, len(want)); !slices.Equal(got, want) {
				t.Errorf("in the order %v, want %v", got, want)
			}
			if q.Len() != 0 {
				t.Errorf("%d items are left", q.Len())
			}
		})
	}
}

// A namespace that comes late has its turn before any other namespace has two more.
func TestALateNamespaceHasTheNextTurn(t *testing.T) {
	q := newQueue()
	defer q.ShutDown()
	for item := range strings.FieldsSeq("a/1 a/2 a/3 b/1 b/2") {
		q.Add(item)
	}
	got := next(q, 2)
	q.Add("c/1")
	got = append(got, next(q, 4)...)
	if want := strings.Fields("a/1 b/1 a/2 b/2 c/1 a/3"); !slices.Equal(got, want) {
		t.Errorf("in the order %v, want %v", got, want)
	}
}

// An item that is added after a delay takes its turn then, as in any work queue.
func TestWhatIsAddedLaterTakesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		defer q.ShutDown()
		q.AddRateLimited("a/1")
		q.Add("a/2")
		q.Add("a/3")
		q.Add("b/1")
		got := next(q, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got = append(got, next(q, 3)...)
		if want := strings.Fields("a/2 b/1 a/3 a/1"); !slices.Equal(got, want) {
			t.Errorf("in the order %v, want %v", got, want)
		}
	})
}

// Urgent items go first in their namespace, also if they have waited
// already. They are taken once, and other namespaces keep their turns.
func TestUrgentItemsGoFirstInTheirNamespace(t *testing.T) {
	order := NewRoundRobin(func(item string) string { namespace, _, _ := strings.Cut(item, "/"); return namespace })
	q := NewDelayingQueue("", order)
	defer q.ShutDown()
	add := func(urgent bool, items ...string) {
		for _, item := range items {
			if urgent {
				order.MarkUrgent(item)
			}
			q.Add(item)
		}
	}
	take := func(n int) (items []string) {
		for range n {
			item, _ := q.Get()
			q.Done(item)
			items = append(items, item)
		}
		return items
	}
	add(false, "a/1", "a/2", "a/3", "b/1")
	add(true, "a/3", "a/4", "a/3")
	if got, want := take(5), strings.Fields("a/3 b/1 a/4 a/1 a/2"); !slices.Equal(got, want) {
		t.Errorf("in the order %v, want %v", got, want)
	}
	add(false, "a/1", "a/3")
	if got, want := take(2), strings.Fields("a/1 a/3"); !slices.Equal(got, want) {
		t.Errorf("what was urgent before goes in the order %v, want %v", got, want)
	}
	if order.Len()+len(order.lines)+len(order.turns)+len(order.urgent) > 0 {
		t.Errorf("of an empty queue are kept %d items, %d namespaces and %d urgent items", order.Len(), len(order.lines), len(order.urgent))
	}
}
