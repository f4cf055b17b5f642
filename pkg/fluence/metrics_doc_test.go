package fluence

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/flux-k8s/fluence/test/metricdoc"
)

func TestEachMetricOfTheSchedulerIsDocumented(t *testing.T) {
	rows, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	inLeaderRig(t, func(r *leaderRig) {
		r.pass(2 * siblingReportEvery) // then it knows that it leads
		served, err := legacyregistry.DefaultGatherer.Gather()
		r.must(err)
		for _, wrong := range metricdoc.Differences(rows[metricdoc.Scheduler], served) {
			t.Error(wrong)
		}
	})
}

func TestEachLineOfTheLogAboutAGroupIsDocumented(t *testing.T) {
	logged := regexp.MustCompile(`\.Info\("(Group [a-z ]+)"`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range logged.FindAllStringSubmatch(string(text), -1) {
			messages = append(messages, m[1])
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(Group [a-z ]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, m[1])
	}
	slices.Sort(messages)
	slices.Sort(rows)
	if len(messages) == 0 || !slices.Equal(messages, rows) {
		t.Errorf("the log has the lines %q, docs/metrics.md has rows for %q", messages, rows)
	}
}
