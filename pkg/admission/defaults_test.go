package admission

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

func TestAQueueSaysWhichNamespacesAnOlderOneIsTheDefaultOf(t *testing.T) {
	defaultFor := func(s *metav1.LabelSelector, age time.Duration) func(*v1alpha1.Queue) {
		return func(q *v1alpha1.Queue) {
			q.Spec.DefaultFor, q.CreationTimestamp = s, metav1.NewTime(begin.Add(-age))
		}
	}
	all, team := &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"of": "team"}}
	r := newRig(t, 1, easy("b-team", defaultFor(team, time.Hour)), easy("c-all", defaultFor(all, 0)), easy("d-twin", defaultFor(team, 0)), easy("none"))
	store := r.d.cfg.Cluster.Namespaces.GetStore()
	put := func(name, of string) *corev1.Namespace {
		obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": of}}}
		var before any
		if was, has, _ := store.GetByKey(name); has {
			before = was
		}
		r.must(store.Update(obj))
		r.d.namespaceChanged(before, obj)
		return obj
	}
	says := func(want map[string]string) {
		t.Helper()
		r.after(tick)
		for name := range r.d.loop.asker.queues {
			got := ""
			if c := meta.FindStatusCondition(r.api.statuses[name].Conditions, v1alpha1.ConditionDefaultOverlaps); c != nil {
				got = string(c.Status) + " " + c.Reason + " " + c.Message
			}
			if got != want[name] {
				t.Errorf("queue %s says %q, want %q", name, got, want[name])
			}
			if !meta.IsStatusConditionTrue(r.api.statuses[name].Conditions, v1alpha1.ConditionReady) {
				t.Errorf("queue %s is not ready", name)
			}
		}
	}
	const taken = "True DefaultTaken spec.defaultFor: Jobs of "
	says(nil)
	x := put("x", "team")
	says(map[string]string{"c-all": taken + "x go into Queue b-team, which is older", "d-twin": taken + "x go into Queue b-team, which is older"})
	writes := r.api.queueWrites
	for range 3 {
		r.after(tick)
		put("x", "team")
	}
	if r.api.queueWrites != writes {
		t.Errorf("%d writes of what was said before", r.api.queueWrites-writes)
	}
	for _, name := range []string{"y", "z", "u", "v"} {
		put(name, "team")
	}
	const five = "u, v, x and 2 other namespaces go into Queue "
	says(map[string]string{"c-all": taken + five + "b-team, which is older", "d-twin": taken + five + "b-team, which is older"})
	r.editQueue("b-team", func(q *v1alpha1.Queue) { q.Spec.DefaultFor = nil })
	says(map[string]string{"d-twin": taken + five + "c-all, which is as old, and comes first by its name"})
	put("y", "other")
	put("z", "other")
	put("u", "other")
	says(map[string]string{"d-twin": taken + "v, x go into Queue c-all, which is as old, and comes first by its name"})
	put("v", "other")
	r.must(store.Delete(x))
	r.d.namespaceChanged(nil, cache.DeletedFinalStateUnknown{Key: "x", Obj: x})
	says(nil)
}
