package report

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/reason"
)

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
