package monitoring

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

// A line is a series: its value at the beginning, and its growth in a
// minute. The start time of a process changes only by whole seconds.
type line struct{ at, grows float64 }

// series are lines, by the text of their metric and labels.
type series map[string]line

// hours is how long the series are.
const hours = 2

// well returns the series of a healthy cluster: a leading scheduler, a standby, and a controller.
func well() series {
	s := series{
		`fluence_leading{instance="a"}`: {1, 0}, `fluence_leading{instance="b"}`: {0, 0},
		`fluence_healthy_standbys{instance="a"}`:        {1, 0},
		`fluence_api_server_version_skew{instance="a"}`: {0, 0}, `fluence_api_server_version_skew{instance="b"}`: {0, 0},
		`fluence_matcher_up{instance="a"}`: {1, 0}, `fluence_matcher_up{instance="b"}`: {1, 0},
		`fluence_graph_loaded{instance="a"}`: {1, 0}, `fluence_graph_loaded{instance="b"}`: {1, 0},
		`fluence_graph_nodes{instance="a"}`: {100, 0}, `fluence_graph_nodes{instance="b"}`: {100, 0},
		`fluence_graph_loads_total{instance="a"}`:                                {1, 0},
		`fluence_releases_pending{instance="a"}`:                                 {0, 0},
		`fluence_drift_total{instance="a",kind="pod"}`:                           {0, 0},
		`fluence_audited_nodes_total{instance="a"}`:                              {100, 100},
		`fluence_audited_nodes_total{instance="b"}`:                              {100, 100},
		`fluence_namespace_overrun_seconds_total{instance="a",namespace="ns"}`:   {5, 0.1},
		`fluence_groups_waiting{instance="a",reason="Unanswered"}`:               {3, 0},
		`fluence_groups_waiting{instance="a",reason="NoPodGroup"}`:               {0, 0},
		`fluence_groups{instance="a",phase="incomplete"}`:                        {0, 0},
		`fluence_longest_wait_seconds{instance="a"}`:                             {600, 0},
		`fluence_queue_oldest_wait_seconds{instance="a",queue="batch"}`:          {600, 0},
		`fluence_queue_failed_writes_total{instance="a",kind="FluxJob"}`:         {7, 0.1},
		`fluence_oldest_eviction_age_seconds{instance="a"}`:                      {100, 0},
		`fluence_preemptions_total{instance="a",outcome="started"}`:              {2, 1},
		`fluence_preemptions_total{instance="a",outcome="abandoned"}`:            {2, 1},
		`fluence_preemptions_total{instance="a",outcome="unhelpful"}`:            {1, 0.015},
		`fluence_reserved_nodes{instance="a",namespace="ns"}`:                    {10, 0},
		`fluence_reserved_nodes{instance="a",namespace="other"}`:                 {20, 0},
		`fluence_seats_wasted_total{instance="a",namespace="ns"}`:                {7, 0},
		`fluence_writes_throttled_total{instance="a",object="binding"}`:          {4, 0},
		`fluence_failed_writes_total{instance="a",object="PodGroup"}`:            {1, 0},
		`fluence_kubelet_rejections_total{instance="a"}`:                         {2, 0},
		`fluence_match_duration_seconds_count{instance="a",outcome="invalid"}`:   {0, 0},
		`fluence_controller_incomplete_groups{instance="c"}`:                     {0, 0},
		`fluence_controller_evictions_total{instance="c",outcome="refused"}`:     {0, 0},
		`fluence_webhook_objects_total{instance="c",outcome="bug"}`:              {0, 0},
		`fluence_webhook_certificate_expiration_timestamp_seconds{instance="c"}`: {200 * 86400, 0},
		`fluence_failed_writes_total{instance="a",object="binding"}`:             {1, 0},
		`fluence_failed_writes_total{instance="a",object="eviction"}`:            {0, 1},
		`fluence_sidecar_ready{instance="a-sidecar"}`:                            {1, 0},
		// One of two controllers works. Other programs have metrics of the same names.
		`fluence_controller_incomplete_groups{instance="d"}`:                                                              {0, 0},
		`leader_election_master_status{instance="c",name="fluence-controller"}`:                                           {1, 0},
		`leader_election_master_status{instance="d",name="fluence-controller"}`:                                           {0, 0},
		`leader_election_master_status{instance="a",name="kube-scheduler"}`:                                               {1, 0},
		`leader_election_master_status{instance="k",name="kube-controller-manager"}`:                                      {1, 0},
		`rest_client_requests_total{instance="a",code="200",host="api",method="POST"}`:                                    {0, 1000},
		`rest_client_requests_total{instance="a",code="429",host="api",method="POST"}`:                                    {3, 0},
		`rest_client_requests_total{instance="c",code="429",host="api",method="PATCH"}`:                                   {0, 0.5},
		`rest_client_requests_total{instance="k",code="429",host="api",method="GET"}`:                                     {0, 100},
		`apiserver_admission_webhook_fail_open_count{instance="api",name="pods.fluence.flux-framework.org",type="admit"}`: {4, 0},
		`apiserver_admission_webhook_fail_open_count{instance="api",name="pods.example.com",type="admit"}`:                {0, 10},
		`process_start_time_seconds{instance="a"}`:                                                                        {1000, 0},
		`fluence_sidecar_process_start_time_seconds{instance="a"}`:                                                        {1000, 0.06},
		`process_start_time_seconds{instance="c"}`:                                                                        {1000, 0},
		`process_start_time_seconds{instance="k"}`:                                                                        {1000, 1},
	}
	for _, h := range []string{"fluence_match_duration_seconds", "fluence_placement_attempt_duration_seconds", "fluence_bind_queue_wait_seconds"} {
		s.histogram(h, "", 0.01)
	}
	s.histogram(called, `name="pods.fluence.flux-framework.org"`, 0.01)
	s.histogram(called, `name="pods.example.com"`, 9)
	return s
}

// called is the API server's histogram of the calls of webhooks.
const called = "apiserver_admission_webhook_admission_duration_seconds"

// histogram adds a histogram with 60 observations a
// minute, all of one value. Some have more labels.
func (s series) histogram(name, more string, value float64) {
	if more != "" {
		more = "," + more
	}
	for _, le := range []string{"0.005", "0.1", "0.25", "1", "2.5", "10", "+Inf"} {
		var bound float64
		if _, err := fmt.Sscan(le, &bound); err != nil {
			panic(err)
		}
		grows := 0.0
		if value <= bound {
			grows = 60
		}
		s[fmt.Sprintf(`%s_bucket{instance="a",le=%q%s}`, name, le, more)] = line{0, grows}
	}
	s[fmt.Sprintf(`%s_count{instance="a"%s}`, name, more)] = line{0, 60}
}

// with returns the series. The others replace series of the same names.
func (s series) with(others series) series {
	s = maps.Clone(s)
	maps.Copy(s, others)
	return s
}

// without returns the series except those whose text has a part.
func (s series) without(part string) series {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(name string, _ line) bool { return strings.Contains(name, part) })
	return s
}

type sample struct {
	t int64
	v float64
}

func (s sample) ST() int64                     { return 0 }
func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// A list is a set of series.
type list struct {
	of []storage.Series
	at int
}

func (l *list) Next() bool         { l.at++; return l.at <= len(l.of) }
func (l *list) At() storage.Series { return l.of[l.at-1] }
func (l *list) Err() error         { return nil }

// Warnings implements storage.SeriesSet.
func (l *list) Warnings() annotations.Annotations { return nil }

// queryable returns the series as storage, with a sample each half minute from the time 0 on.
func (s series) queryable(t *testing.T) storage.Queryable {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	all := map[string][]chunks.Sample{}
	sets := map[string]labels.Labels{}
	for text, l := range s {
		set, err := p.ParseMetric(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		sets[text] = set
		for at := time.Duration(0); at <= hours*time.Hour; at += 30 * time.Second {
			v := l.at + l.grows*at.Minutes()
			if strings.Contains(text, "process_start_time_seconds{") {
				v = math.Floor(v)
			}
			all[text] = append(all[text], sample{at.Milliseconds(), v})
		}
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &list{}
		for _, text := range slices.Sorted(maps.Keys(sets)) {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(sets[text].Get(m.Name)) }) {
				found.of = append(found.of, storage.NewListSeries(sets[text], all[text]))
			}
		}
		return found
	}}}
}

// fires reports whether an expression is true in each minute of the last while.
func (s series) fires(t *testing.T, expression string, while time.Duration) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})})
	end := time.UnixMilli(0).Add(hours * time.Hour)
	for at := end.Add(-while); !at.After(end); at = at.Add(time.Minute) {
		q, err := engine.NewInstantQuery(context.Background(), s.queryable(t), nil, expression, at)
		if err != nil {
			t.Fatal(err)
		}
		r := q.Exec(context.Background())
		v, err := r.Vector()
		if err != nil {
			t.Fatal(err)
		}
		holds := len(v) > 0
		q.Close()
		if !holds {
			return false
		}
	}
	return true
}

// Each alert fires in its case, and none fires while all is well.
func TestEachAlertSpeaksWhenItShould(t *testing.T) {
	slow := func(name string, value float64) series {
		s := series{}
		s.histogram(name, "", value)
		return s
	}
	w := well()
	slowWebhook := series{}
	slowWebhook.histogram(called, `name="pods.fluence.flux-framework.org"`, 0.9)
	ill := map[string]series{
		"FluenceNoLeader":           w.with(series{`fluence_leading{instance="a"}`: {0, 0}}),
		"FluenceTwoLeaders":         w.with(series{`fluence_leading{instance="b"}`: {1, 0}}),
		"FluenceNoStandby":          w.without(`fluence_leading{instance="b"}`),
		"FluenceVersionSkew":        w.with(series{`fluence_api_server_version_skew{instance="b"}`: {1, 0}}),
		"FluenceControllerDown":     w.without("fluence_controller"),
		"FluenceNoPodGroup":         w.with(series{`fluence_groups_waiting{instance="a",reason="NoPodGroup"}`: {2, 0}}),
		"FluenceMatcherDown":        w.with(series{`fluence_matcher_up{instance="a"}`: {0, 0}}),
		"FluenceGraphNotLoaded":     w.with(series{`fluence_graph_loaded{instance="a"}`: {0, 0}}),
		"FluenceGraphReloads":       w.with(series{`fluence_graph_loads_total{instance="a"}`: {1, 0.3}}),
		"FluenceReleasesPending":    w.with(series{`fluence_releases_pending{instance="a"}`: {1, 0}}),
		"FluenceDrift":              w.with(series{`fluence_drift_total{instance="a",kind="pod"}`: {0, 0.2}}),
		"FluenceAuditStopped":       w.with(series{`fluence_audited_nodes_total{instance="a"}`: {100, 0}}),
		"FluenceMatchSlow":          w.with(slow("fluence_match_duration_seconds", 2)),
		"FluenceCycleSlow":          w.with(slow("fluence_placement_attempt_duration_seconds", 0.9)),
		"FluenceReservesMost":       w.with(series{`fluence_reserved_nodes{instance="a",namespace="ns"}`: {40, 0}}),
		"FluenceSeatsInVain":        w.with(series{`fluence_seats_wasted_total{instance="a",namespace="ns"}`: {0, 0.1}}),
		"FluenceCertificateExpires": w.with(series{`fluence_webhook_certificate_expiration_timestamp_seconds{instance="c"}`: {29 * 86400, 0}}),
		"FluenceNamespaceOverrun":   w.with(series{`fluence_namespace_overrun_seconds_total{instance="a",namespace="ns"}`: {0, 6}}),
		"FluenceStuck":              w.with(series{`fluence_placement_attempt_duration_seconds_count{instance="a"}`: {60, 0}}),
		"FluenceMatchError":         w.with(series{`fluence_match_duration_seconds_count{instance="a",outcome="invalid"}`: {0, 0.5}}),
		"FluenceBindsSlow":          w.with(slow("fluence_bind_queue_wait_seconds", 9)),
		"FluenceWritesThrottled":    w.with(series{`fluence_writes_throttled_total{instance="a",object="binding"}`: {0, 5}}),
		"FluenceGroupWaitsLong":     w.with(series{`fluence_longest_wait_seconds{instance="a"}`: {90000, 60}}),
		"FluenceQueueWaitsLong":     w.with(series{`fluence_queue_oldest_wait_seconds{instance="a",queue="batch"}`: {7 * 86400, 60}}),
		"FluenceQueueWritesFail":    w.with(series{`fluence_queue_failed_writes_total{instance="a",kind="FluxJob"}`: {0, 5}}),
		"FluenceGroupIncomplete":    w.with(series{`fluence_groups{instance="a",phase="incomplete"}`: {1, 0}}),
		"FluenceKubeletRejections":  w.with(series{`fluence_kubelet_rejections_total{instance="a"}`: {0, 1}}),
		"FluenceCannotWrite":        w.with(series{`fluence_failed_writes_total{instance="a",object="PodGroup"}`: {0, 1}}),
		"FluenceEvictionsRefused":   w.with(series{`fluence_controller_evictions_total{instance="c",outcome="refused"}`: {0, 1}, `fluence_controller_incomplete_groups{instance="c"}`: {1, 0}}),
		"FluenceEvictionStuck":      w.with(series{`fluence_oldest_eviction_age_seconds{instance="a"}`: {0, 60}}),
		"FluenceEvictionsUnhelpful": w.with(series{`fluence_preemptions_total{instance="a",outcome="unhelpful"}`: {0, 0.2}}),
		"FluenceTooManyRequests":    w.with(series{`rest_client_requests_total{instance="c",code="429",host="api",method="PATCH"}`: {0, 5}}),
		"FluenceRestarts":           w.with(series{`fluence_sidecar_process_start_time_seconds{instance="a"}`: {1000, 0.15}}),
		"FluenceBindsFail":          w.with(series{`fluence_failed_writes_total{instance="a",object="binding"}`: {0, 1}}),
		"FluenceWebhookFailsOpen":   w.with(series{`apiserver_admission_webhook_fail_open_count{instance="api",name="pods.fluence.flux-framework.org",type="admit"}`: {0, 1}}),
		"FluenceWebhookSlow":        w.with(slowWebhook),
		"FluenceWebhookBug":         w.with(series{`fluence_webhook_objects_total{instance="c",outcome="bug"}`: {0, 1}}),
	}
	// illToo are the other cases of an alert.
	illToo := map[string]series{
		"FluenceNoStandby": w.with(series{`fluence_healthy_standbys{instance="a"}`: {0, 0}}),
	}
	for _, a := range alerts(t) {
		if w.fires(t, a.Expr, 0) {
			t.Errorf("alert %s speaks while all is well", a.Alert)
		}
		s, ok := ill[a.Alert]
		if !ok {
			t.Errorf("no series are shown to alert %s", a.Alert)
		} else if !s.fires(t, a.Expr, a.while) {
			t.Errorf("alert %s is silent", a.Alert)
		}
		if s, ok := illToo[a.Alert]; ok && !s.fires(t, a.Expr, a.while) {
			t.Errorf("alert %s is silent where it should speak too", a.Alert)
		}
	}
}

// These are cases in which it is not obvious which alert should fire.
func TestAlertsTellOneThingFromAnother(t *testing.T) {
	const (
		leads      = `leader_election_master_status{instance="c",name="fluence-controller"}`
		refused    = `rest_client_requests_total{instance="a",code="429",host="api",method="POST"}`
		binding    = `fluence_failed_writes_total{instance="a",object="binding"}`
		podGroup   = `fluence_failed_writes_total{instance="a",object="PodGroup"}`
		started    = `process_start_time_seconds{instance="a"}`
		controller = `process_start_time_seconds{instance="c"}`
	)
	const most = `fluence_reserved_nodes{instance="a",namespace="ns"}`
	w := well()
	cases := map[string]struct {
		series series
		alert  string
		want   bool
	}{
		"two controllers of which none has the lease":        {w.with(series{leads: {0, 0}}), "FluenceControllerDown", true},
		"the controller that had it is gone":                 {w.without(`instance="c"`), "FluenceControllerDown", true},
		"the other one is gone":                              {w.without(`instance="d"`), "FluenceControllerDown", false},
		"one controller that asks for no lease":              {w.without(`instance="d"`).without("leader_election"), "FluenceControllerDown", false},
		"no controller, though others have leases":           {w.without(`instance="d"`).without(`instance="c"`), "FluenceControllerDown", true},
		"the scheduler is refused":                           {w.with(series{refused: {0, 3}}), "FluenceTooManyRequests", true},
		"it is answered otherwise":                           {w.without(refused).with(series{strings.Replace(refused, "429", "409", 1): {0, 30}}), "FluenceTooManyRequests", false},
		"the scheduler restarts":                             {w.with(series{started: {0, 0.15}}), "FluenceRestarts", true},
		"the controller restarts":                            {w.with(series{controller: {0, 0.15}}), "FluenceRestarts", true},
		"it was restarted once or twice":                     {w.with(series{controller: {0, 0.06}}), "FluenceRestarts", false},
		"binds fail, which is told by an alert of their own": {w.with(series{binding: {0, 1}}), "FluenceCannotWrite", false},
		"the nodes are reserved for one namespace":           {w.with(series{most: {60, 0}}).without(`namespace="other"`), "FluenceReservesMost", true},
		"half of the nodes are, for two":                     {w.with(series{most: {30, 0}}), "FluenceReservesMost", false},
		"binds go on, and conditions cannot be written":      {w.with(series{podGroup: {0, 1}}), "FluenceBindsFail", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, a := range alerts(t) {
				if a.Alert == tc.alert {
					if got := tc.series.fires(t, a.Expr, a.while); got != tc.want {
						t.Errorf("alert %s speaks: %v, want %v", a.Alert, got, tc.want)
					}
					return
				}
			}
			t.Errorf("there is no alert %s", tc.alert)
		})
	}
}

// An alert is one of the rules, and how long it waits.
type alert struct {
	Alert, Expr string
	while       time.Duration
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var r rules
	if err := yaml.Unmarshal([]byte(withoutMetadata(file(t, "manifests", "monitoring", "rules.yaml"))), &r); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range r.Spec.Groups {
		for _, a := range g.Rules {
			var while model.Duration
			if a.For != "" {
				var err error
				if while, err = model.ParseDuration(a.For); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, alert{a.Alert, a.Expr, time.Duration(while)})
		}
	}
	return all
}
