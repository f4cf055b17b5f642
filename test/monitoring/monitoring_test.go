// Package monitoring tests the dashboard and the alert rules
// of manifests/monitoring against the metrics that exist.
package monitoring

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster/tools"
	"github.com/flux-k8s/fluence/test/metricdoc"
)

// file reads a file of the repository.
func file(t *testing.T, path ...string) string {
	t.Helper()
	root, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documented returns the document's rows of Fluence's metrics, by name.
func documented(t *testing.T) map[string]metricdoc.Row {
	t.Helper()
	sections, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]metricdoc.Row{}
	for _, section := range sections {
		for _, r := range section {
			rows[r.Name] = r
		}
	}
	return rows
}

// rowOf returns the row of a series. The series of a histogram have a suffix.
func rowOf(rows map[string]metricdoc.Row, series string) (metricdoc.Row, bool) {
	if r, ok := rows[series]; ok {
		return r, r.Type != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if r, ok := rows[strings.TrimSuffix(series, suffix)]; ok && strings.HasSuffix(series, suffix) {
			return r, r.Type == "histogram"
		}
	}
	return metricdoc.Row{}, false
}

// names returns the metrics in an expression, and what is wrong in it.
func names(rows map[string]metricdoc.Row, expression string) (metrics, wrong []string) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return nil, []string{err.Error()}
	}
	known := []string{"le", "instance", "job"} // of histograms, and of scraped targets
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		r, ok := rowOf(rows, v.Name)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("no metric is called %q", v.Name))
			return nil
		}
		metrics = append(metrics, r.Name)
		known = append(known, r.Labels...)
		for _, m := range v.LabelMatchers {
			if m.Name != model.MetricNameLabel {
				wrong = append(wrong, wrongValues(r, m)...)
			}
		}
		return nil
	})
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		var used []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			used = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				used = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range used {
			if !slices.Contains(known, l) {
				wrong = append(wrong, fmt.Sprintf("no metric of it has the label %q", l))
			}
		}
		return nil
	})
	return metrics, wrong
}

// wrongValues returns the label values in a matcher that the row does not name.
func wrongValues(r metricdoc.Row, m *labels.Matcher) (wrong []string) {
	if !slices.Contains(r.Labels, m.Name) {
		return []string{fmt.Sprintf("%s has no label %q", r.Name, m.Name)}
	}
	for value := range strings.SplitSeq(m.Value, "|") {
		if !strings.Contains(r.Tells, "`"+value+"`") {
			wrong = append(wrong, fmt.Sprintf("%s is not said to have the %s %q", r.Name, m.Name, value))
		}
	}
	return wrong
}

func TestNamesFindsWhatIsWrong(t *testing.T) {
	rows := map[string]metricdoc.Row{
		"fluence_a":         {Name: "fluence_a", Type: "gauge", Labels: []string{"phase"}, Tells: "`held` or `done`"},
		"fluence_b_seconds": {Name: "fluence_b_seconds", Type: "histogram"},
	}
	cases := map[string]struct{ expression, want string }{
		"all is well":                     {`max by (phase) (fluence_a{phase=~"held|done"}) > 0 and on () rate(fluence_b_seconds_count[5m]) > 1`, ""},
		"what cannot be parsed":           {`max(fluence_a`, "unclosed left parenthesis"},
		"a metric that there is not":      {`fluence_c`, `no metric is called "fluence_c"`},
		"a histogram without its suffix":  {`rate(fluence_b_seconds[5m])`, `no metric is called "fluence_b_seconds"`},
		"a suffix that is no histogram's": {`fluence_a_count`, `no metric is called "fluence_a_count"`},
		"a label that there is not":       {`fluence_a{state="held"}`, `no label "state"`},
		"a value that there is not":       {`fluence_a{phase="gone"}`, `the phase "gone"`},
		"a grouping by another label":     {`sum by (reason) (fluence_a)`, `the label "reason"`},
		"a matching by another label":     {`fluence_a and on (reason) fluence_a`, `the label "reason"`},
		"a function of no range":          {`rate(fluence_a)`, "expected type range vector"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, wrong := names(rows, tc.expression)
			if got := strings.Join(wrong, "; "); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%s: %q, want %q", tc.expression, got, tc.want)
			}
		})
	}
}

// rules is the part of a PrometheusRule that is checked.
type rules struct {
	APIVersion, Kind string
	Spec             struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr         string
				For                 string
				Labels, Annotations map[string]string
			}
		}
	}
}

// runbooks is the beginning of an alert's link, which can be opened from anywhere.
const runbooks = "https://github.com/flux-k8s/fluence/blob/main/docs/metrics.md#"

var alertHeading = regexp.MustCompile(`(?m)^### (Fluence\w+)$`)

func TestEachAlertParsesAndSaysWhatToDo(t *testing.T) {
	var r rules
	if err := yaml.UnmarshalStrict([]byte(withoutMetadata(file(t, "manifests", "monitoring", "rules.yaml"))), &r); err != nil {
		t.Fatal(err)
	}
	if r.APIVersion != "monitoring.coreos.com/v1" || r.Kind != "PrometheusRule" {
		t.Errorf("%s of %s", r.Kind, r.APIVersion)
	}
	rows, alerts := documented(t), map[string]bool{}
	for _, g := range r.Spec.Groups {
		for _, a := range g.Rules {
			if alerts[a.Alert] {
				t.Errorf("there are two alerts %s", a.Alert)
			}
			alerts[a.Alert] = true
			_, wrong := names(rows, a.Expr)
			for _, w := range wrong {
				t.Errorf("alert %s: %s", a.Alert, w)
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
				t.Errorf("alert %s has the severity %q", a.Alert, a.Labels["severity"])
			}
			if want := runbooks + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want || a.Annotations["summary"] == "" {
				t.Errorf("alert %s has the annotations %q, want the runbook %s and a summary", a.Alert, a.Annotations, want)
			}
		}
	}
	var told []string
	for _, h := range alertHeading.FindAllStringSubmatch(file(t, "docs", "metrics.md"), -1) {
		told = append(told, h[1])
	}
	slices.Sort(told)
	if all := slices.Sorted(maps.Keys(alerts)); len(all) == 0 || !slices.Equal(all, told) {
		t.Errorf("the alerts are\n%q, docs/metrics.md has sections for\n%q", all, told)
	}
}

// withoutMetadata removes the object's metadata, so that everything else is decoded strictly.
func withoutMetadata(text string) string {
	before, rest, _ := strings.Cut(text, "metadata:\n")
	_, after, _ := strings.Cut(rest, "\nspec:\n")
	return before + "spec:\n" + after
}

// dashboard is the part of a Grafana dashboard that is checked.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ H, W, X, Y int }
		Targets                  []struct{ Expr, RefID string }
	}
}

func TestEachPanelOfTheDashboardHasQueriesThatParse(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(file(t, "manifests", "monitoring", "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	rows, shown, ids, taken := documented(t), map[string]bool{}, map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q has the id of another, %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q stands on %q, or beside the page", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d (%q) lacks a title, a description or a query", p.ID, p.Title)
		}
		for _, q := range p.Targets {
			metrics, wrong := names(rows, strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"))
			for _, w := range wrong {
				t.Errorf("panel %q: %s: %s", p.Title, q.Expr, w)
			}
			for _, m := range metrics {
				shown[m] = true
			}
		}
	}
	for name := range rows {
		if !shown[name] && strings.HasPrefix(name, "fluence_") {
			t.Errorf("%s is on no panel", name)
		}
	}
}
