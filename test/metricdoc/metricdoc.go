// Package metricdoc reads the tables of docs/metrics.md, so that
// tests can compare them with the metrics that the programs serve.
package metricdoc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// These are the sections of the document that have a table.
const (
	Scheduler  = "Scheduler"
	Sidecar    = "Sidecar"
	Controller = "Controller"
	FluxJobs   = "FluxJobs"
	Webhook    = "Webhook"
	// Libraries is the section of the libraries' metrics that alerts use.
	Libraries = "Metrics of client-go and Go"
	// APIServer is the section of the API server's metrics that alerts use.
	APIServer = "Metrics of the API server"
)

// prefix begins the names of Fluence's metrics.
const prefix = "fluence_"

// A Row is the documentation of a metric.
type Row struct {
	Name string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string
	// Tells is the meaning of the metric. Worry is when to worry.
	Tells, Worry string
}

var (
	heading  = regexp.MustCompile(`^## (.+)$`)
	row      = regexp.MustCompile("^\\| `((?:" + prefix + "|apiserver_|leader_election_|process_|rest_client_)[a-z_]+)` \\|(.*)\\|$")
	backtick = regexp.MustCompile("`([^`]+)`")
)

// Read returns the rows by section, in order. It fails for a row with a wrong number
// of cells or with an empty cell, and for a name that has two rows.
func Read() (map[string][]Row, error) {
	root, err := tools.RepositoryRoot()
	if err != nil {
		return nil, fmt.Errorf("find docs/metrics.md: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		return nil, fmt.Errorf("read docs/metrics.md: %w", err)
	}
	return parse(string(text))
}

func parse(text string) (map[string][]Row, error) {
	rows, seen, section := map[string][]Row{}, map[string]bool{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if h := heading.FindStringSubmatch(line); h != nil {
			section = h[1]
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		cells := strings.Split(m[2], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 4 || cells[0] == "" || cells[2] == "" || cells[3] == "" {
			return nil, fmt.Errorf("docs/metrics.md: the row of %s has the cells %q, want type, labels, what it tells and when to worry", m[1], cells)
		}
		if seen[m[1]] {
			return nil, fmt.Errorf("docs/metrics.md: %s has two rows", m[1])
		}
		seen[m[1]] = true
		r := Row{Name: m[1], Type: cells[0], Tells: cells[2], Worry: cells[3]}
		for _, l := range backtick.FindAllStringSubmatch(cells[1], -1) {
			r.Labels = append(r.Labels, l[1])
		}
		slices.Sort(r.Labels)
		rows[section] = append(rows[section], r)
	}
	return rows, nil
}

// Differences returns the differences between the rows of a section and the metrics that a
// program serves. It ignores metrics without a row that are not Fluence's.
func Differences(rows []Row, served []*dto.MetricFamily) []string {
	var wrong []string
	there := map[string]bool{}
	for _, f := range served {
		name := f.GetName()
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
		if i < 0 && !strings.HasPrefix(name, prefix) {
			continue
		}
		there[name] = true
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("%s is served and has no row", name))
			continue
		}
		if is := strings.ToLower(f.GetType().String()); rows[i].Type != is {
			wrong = append(wrong, fmt.Sprintf("%s is a %s, and its row says %s", name, is, rows[i].Type))
		}
		if is := labelsOf(f); !slices.Equal(rows[i].Labels, is) {
			wrong = append(wrong, fmt.Sprintf("%s has the labels %q, and its row says %q", name, is, rows[i].Labels))
		}
	}
	for _, r := range rows {
		if !there[r.Name] {
			wrong = append(wrong, fmt.Sprintf("%s has a row and is not served", r.Name))
		}
	}
	return wrong
}

func labelsOf(f *dto.MetricFamily) []string {
	var names []string
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names = append(names, l.GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
