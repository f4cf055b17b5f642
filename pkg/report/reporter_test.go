package report

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// anyPodGroups is a Store that has each PodGroup. It counts the writes.
type anyPodGroups struct{ writes int }

func (*anyPodGroups) Get(k types.NamespacedName) *scheduling.PodGroup {
	return &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}}
}

func (a *anyPodGroups) Apply(context.Context, *scheduling.PodGroup, ...metav1.Condition) error {
	a.writes++
	return nil
}

// The numbers of many groups change at once. Their writes share one bound. A change of the words does not wait.
func TestNumbersOfManyGroupsAreWrittenSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &anyPodGroups{}
		r := NewReporter(Config{
			Store: store, Recorder: events.NewFakeRecorder(10 * numbersBurst), Leading: func() bool { return true },
			Exclusive: func(types.NamespacedName) (bool, string, uint64) { return false, "", 0 },
		})
		tell := func(text string) int {
			before := store.writes
			for i := range 2 * numbersBurst {
				k := types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(i)}
				r.Report(k, NotScheduled(reason.NoRoom, text), nil)
				if err := r.write(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(maxMessageInterval)
			return store.writes - before
		}
		for _, step := range []struct {
			text string
			want int
		}{{"room for 0", 2 * numbersBurst}, {"room for 1", numbersBurst}, {"other words", 2 * numbersBurst}} {
			if got := tell(step.text); got != step.want {
				t.Errorf("%q is written %d times, want %d", step.text, got, step.want)
			}
		}
		r.Stop()
	})
}

// A thousand groups of another namespace have news. The news of this group is written
// after one of theirs.
func TestNamespaceDoesNotWaitForAnother(t *testing.T) {
	r := NewReporter(Config{Exclusive: func(types.NamespacedName) (bool, string, uint64) { return false, "", 0 }})
	defer r.Stop()
	of := func(namespace string, i int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}
	}
	for i := range 1000 {
		r.Report(of("many", i), NotScheduled(reason.NoRoom, "no"), nil)
	}
	r.Report(of("one", 0), NotScheduled(reason.NoRoom, "no"), nil)
	first, _ := r.queue.Get()
	second, _ := r.queue.Get()
	if first != of("many", 0) || second != of("one", 0) {
		t.Errorf("told first are %v and %v, want one of each namespace", first, second)
	}
}
