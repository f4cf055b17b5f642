package fluence

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/objects"
)

// gaugeValues returns the served samples of a gauge or a counter by
// the value of its label. It leaves out zeros.
func gaugeValues(name string) map[string]float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	by := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			label := ""
			for _, l := range m.GetLabel() {
				label = l.GetValue()
			}
			by[label] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	maps.DeleteFunc(by, func(_ string, v float64) bool { return v == 0 })
	return by
}

// wantGauges compares gauges, by name, with the expected ones.
func (r *rig) wantGauges(when string, want map[string]map[string]float64) {
	r.Helper()
	r.pass(snapshotEvery)
	got := map[string]map[string]float64{}
	for name := range want {
		got[name] = gaugeValues(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

type gaugeByLabel = map[string]float64

func TestGaugesShowCurrentState(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.node("n2", 4)
		r.pod("other", objects.OnNode("n1"), func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
		pods := r.gang(2, 2, objects.CPU("3"))
		r.pod("large", objects.CPU("9"))
		r.pod("short", objects.InGroup("short"))
		r.pass(2 * siblingReportEvery)
		r.wantGauges("before anybody asked", map[string]gaugeByLabel{
			"fluence_groups":           {"gathering": 1, "complete": 2},
			"fluence_groups_waiting":   {"Unanswered": 2, "NoPodGroup": 1},
			"fluence_allocations":      {"others": 1},
			"fluence_graph_nodes":      {"": 2},
			"fluence_graph_loaded":     {"": 1},
			"fluence_matcher_up":       {"": 1},
			"fluence_leading":          {"": 1},
			"fluence_releases_pending": {},
		})
		if _, _, status := r.preFilter(pods[0]); !status.IsSuccess() {
			t.Fatal(status)
		}
		r.wantGauges("with a group matched", map[string]gaugeByLabel{
			"fluence_groups":         {"gathering": 1, "complete": 1, "tentative": 1},
			"fluence_groups_waiting": {"Unanswered": 1, "NoPodGroup": 1},
			"fluence_allocations":    {"others": 1, "tentative": 2},
		})
		r.pl.Unreserve(r.ctx, nil, pods[0], "n1")
		r.schedule()
		r.pass(time.Minute)
		r.wantGauges("with a group placed", map[string]gaugeByLabel{
			"fluence_groups":         {"gathering": 1, "complete": 1, "held": 1},
			"fluence_groups_waiting": {"NeverFits": 1, "NoPodGroup": 1},
			"fluence_allocations":    {"others": 1, "held": 2},
		})
		if got := gaugeValues("fluence_longest_wait_seconds")[""]; got < 60 || got > 90 {
			t.Errorf("the longest wait is %vs, want a bit more than a minute", got)
		}
	})
}

func TestGaugesTellThatTheMatcherIsAway(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		outages := counted("fluence_matcher_outages_total")
		r.node("n1", 4)
		r.pod("waits", objects.CPU("9"))
		r.matcher.silence(true)
		r.matcherFake.Fail(matchtest.Update, match.ErrUnavailable)
		r.matcherFake.Fail(matchtest.Reset, match.ErrUnavailable)
		r.pl.inventory.Resync()
		r.pass(2 * siblingReportEvery)
		r.wantGauges("with the matcher away", map[string]gaugeByLabel{
			"fluence_groups":         {"complete": 1},
			"fluence_groups_waiting": {"MatcherUnavailable": 1},
			"fluence_graph_nodes":    {"": 1},
			"fluence_graph_loaded":   {},
			"fluence_matcher_up":     {},
			"fluence_leading":        {"": 1},
		})
		r.standby.Store(true)
		r.pass(2 * siblingReportEvery)
		r.wantGauges("on a standby, which is asked by nobody why a group waits", map[string]gaugeByLabel{
			"fluence_groups":         {},
			"fluence_groups_waiting": {},
			"fluence_graph_nodes":    {"": 1},
			"fluence_leading":        {},
		})
		if n := counted("fluence_matcher_outages_total") - outages; n != 1 {
			t.Errorf("%v outages are counted, want 1", n)
		}
	})
}

func TestGaugesTellOfAnAPIServerOfAnotherVersion(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		SetVersionSkew(r.sched, true)
		r.wantGauges("with an API server of another version", map[string]gaugeByLabel{"fluence_api_server_version_skew": {"": 1}})
		SetVersionSkew(r.sched, false)
		r.wantGauges("with one of this version", map[string]gaugeByLabel{"fluence_api_server_version_skew": {}})
	})
}

func TestGaugesTellOfReservedNodes(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.largeGroupWaits()
		r.wantGauges("before the time is over", map[string]gaugeByLabel{"fluence_groups_with_reservation": {}, "fluence_reserved_nodes": {}})
		r.pass(r.pl.args.MaxBypass.Duration)
		r.pod("small")
		r.pass(snapshotEvery)
		groups, nodes := r.reserved()
		if groups == 0 || nodes == 0 {
			t.Fatalf("%d nodes are reserved for %d groups", nodes, groups)
		}
		r.wantGauges("after that", map[string]gaugeByLabel{"fluence_groups_with_reservation": {"": float64(groups)}, "fluence_reserved_nodes": {ns: float64(nodes)}})
	})
}

func TestMatchesAreTimedByHowTheyEnd(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		matches, attempts := counted("fluence_match_duration_seconds"), counted("fluence_placement_attempt_duration_seconds")
		if _, _, status := r.preFilter(r.pod("small")); !status.IsSuccess() {
			t.Fatal(status)
		}
		if _, _, status := r.preFilter(r.pod("large", objects.CPU("9"))); status.IsSuccess() {
			t.Fatal("there is room for what is too large")
		}
		if n := counted("fluence_match_duration_seconds") - matches; n != 2 {
			t.Errorf("%v matches are timed, want 2", n)
		}
		if n := counted("fluence_placement_attempt_duration_seconds") - attempts; n != 2 {
			t.Errorf("%v attempts are timed, want 2", n)
		}
		if at := time.Unix(0, r.pl.matchedAt.Load()); time.Since(at) > time.Second {
			t.Errorf("the last match is told to be of %s", at)
		}
	})
}
