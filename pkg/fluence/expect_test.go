package fluence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// valueOf returns the served value of a metric for a namespace.
func valueOf(name, namespace string) float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "namespace" && l.GetValue() == namespace {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

// The argument, the label of the namespace, the annotation and the quotas say which groups get
// seats. A group without them starts all the same, and its message says why it has none.
func TestWhoGetsSeats(t *testing.T) {
	cases := map[string]struct {
		argument, label, annotation string
		quota                       *corev1.ResourceQuota
		wantKeys                    int // the pods of the match: a leader, and up to three workers
		why                         string
	}{
		"all":                          {argument: ExpectAll, wantKeys: 4},
		"none":                         {argument: ExpectNone, wantKeys: 1, why: "no room is held for 3 expected pods: the argument expect of the scheduler is none"},
		"labelled, and it asks":        {argument: ExpectLabelled, annotation: "true", wantKeys: 4},
		"labelled, and it does not":    {argument: ExpectLabelled, wantKeys: 1, why: "the group has no annotation"},
		"the namespace goes before":    {argument: ExpectAll, label: group.ExpectNone, wantKeys: 1, why: `the label fluence.flux-framework.org/expect of namespace ns is "none"`},
		"the quota leaves one":         {argument: ExpectAll, quota: quota("team", objects.Amounts("requests.cpu", "3"), nil), wantKeys: 2, why: `room is held for 1 of 3 expected pods: ResourceQuota "team" leaves no more requests.cpu`},
		"the quota of another is none": {argument: ExpectAll, quota: quota("team", objects.Amounts("requests.cpu", "0"), nil, func(q *corev1.ResourceQuota) { q.Namespace = "other" }), wantKeys: 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				r.pl.args.Expect = tc.argument
				if tc.label != "" {
					space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{group.ExpectLabel: tc.label}}}
					_, err := r.client.CoreV1().Namespaces().Update(r.ctx, space, metav1.UpdateOptions{})
					r.must(err)
				}
				if tc.quota != nil {
					r.add(tc.quota)
				}
				r.node("n1", 8)
				r.leader(ns, "g", 3, "2", func(pg *scheduling.PodGroup) {
					if tc.annotation != "" {
						pg.Annotations = map[string]string{group.ExpectAnnotation: tc.annotation}
					}
				})
				r.schedule()
				r.pass(10 * time.Second)
				if m := r.matches(); len(m) != 1 || len(m[0].Keys) != tc.wantKeys {
					t.Fatalf("matches %+v, want one of %d pods", m, tc.wantKeys)
				}
				if r.assigned()["g-0"] != "n1" {
					t.Error("the leader does not start")
				}
				c := meta.FindStatusCondition(r.podGroupAPI.get(g).Status.Conditions, report.ConditionScheduled)
				if c == nil || !strings.Contains(c.Message, tc.why) || tc.why == "" && strings.Contains(c.Message, "room is held") {
					t.Errorf("condition %+v, want it to say %q", c, tc.why)
				}
			})
		})
	}
}

// The metrics of seats are by namespace, as long as it exists.
func TestSeatsAreCountedByNamespace(t *testing.T) {
	inLeaderRig(t, func(r *leaderRig) {
		taken, wasted := valueOf("fluence_seats_taken_total", ns), valueOf("fluence_seats_wasted_total", ns)
		r.pl.apply(r.ctx, gang.Output{Seats: []gang.SeatUse{{Namespace: ns}, {Namespace: ns, Taken: 2, Wasted: 3}, {Namespace: "gone", Wasted: 1}}})
		if got := valueOf("fluence_seats_taken_total", ns) - taken; got != 2 {
			t.Errorf("%v are counted as taken, want 2", got)
		}
		if got := valueOf("fluence_seats_wasted_total", ns) - wasted; got != 3 {
			t.Errorf("%v are counted as wasted, want 3", got)
		}
		if got := valueOf("fluence_seats_wasted_total", "gone"); got != 0 {
			t.Errorf("%v are counted of a namespace that does not exist", got)
		}
		r.pl.forgetNamespace(ns)
		if got := valueOf("fluence_seats_wasted_total", ns); got != 0 {
			t.Errorf("%v are left of a namespace that was deleted", got)
		}
	})
}
