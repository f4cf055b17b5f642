package monitoring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/flux-k8s/fluence/pkg/cli"
	"github.com/flux-k8s/fluence/test/cluster/tools"
	"github.com/flux-k8s/fluence/test/metricdoc"
)

// A runbook is the section of the page about one alert.
type runbook struct {
	name, text string
	commands   []string
}

// said are the words after which each runbook must have text.
var said = []string{"**Affected:**", "**Safe:**", "**Cause:**", "**Wake somebody:**"}

// leastCommands is the minimum number of commands for each alert.
const leastCommands = 3

// runbooksOf returns the sections of a page below its heading
// Alerts. The first has no name and is for all alerts.
func runbooksOf(page string) []runbook {
	_, page, _ = strings.Cut(page, "\n## Alerts\n")
	page, _, _ = strings.Cut(page, "\n## ")
	var all []runbook
	for i, section := range strings.Split(page, "\n### ") {
		r := runbook{text: section}
		if i > 0 {
			r.name, _, _ = strings.Cut(section, "\n")
		}
		inBlock := false
		for line := range strings.Lines(section) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "```"):
				inBlock = !inBlock
			case inBlock && line != "":
				r.commands = append(r.commands, line)
			}
		}
		all = append(all, r)
	}
	return all
}

// lacks returns what is missing in a runbook.
func (r *runbook) lacks() (wrong []string) {
	for _, word := range said {
		_, after, ok := strings.Cut(r.text, word)
		if after = strings.TrimSpace(after); !ok || after == "" || strings.HasPrefix(after, "**") {
			wrong = append(wrong, "nothing is said of "+word)
		}
	}
	if n := len(r.commands); n < leastCommands {
		wrong = append(wrong, fmt.Sprintf("%d commands, want %d or more", n, leastCommands))
	}
	return wrong
}

// words splits a command line as a shell does. It knows only the syntax that runbooks use. A pipe
// begins a new list of words.
func words(command string) (pipeline [][]string, err error) {
	var quote rune
	var word strings.Builder
	started := false
	pipeline = [][]string{nil}
	end := func() {
		if started {
			last := len(pipeline) - 1
			pipeline[last] = append(pipeline[last], word.String())
		}
		word.Reset()
		started = false
	}
	for _, c := range command {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, started = c, true
		case c == ' ':
			end()
		case c == '|':
			end()
			pipeline = append(pipeline, nil)
		default:
			word.WriteRune(c)
			started = true
		}
	}
	end()
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	return pipeline, nil
}

// A checker knows what commands may name.
type checker struct {
	rows map[string]metricdoc.Row
	// source is the source of the programs. chart is what the chart installs.
	source, chart string
	// kubectl runs kubectl. It is nil if kubectl is not available.
	kubectl func(args ...string) (string, error)
}

// ours matches the names of Fluence's objects in a command.
var ours = regexp.MustCompile(`(?:^|[/:,= ])(fluence[a-z-]*|app\.kubernetes\.io/[a-z]+=[a-z-]+)`)

// wrong returns the names in a command line that do not exist.
func (c *checker) wrong(command string) []string {
	pipeline, err := words(command)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	for _, w := range pipeline {
		if len(w) == 0 {
			return []string{"a pipe has nothing on one side"}
		}
		switch {
		case w[0] == "kubectl" && len(w) > 1 && w[1] == "fluence":
			wrong = append(wrong, wrongOfPlugin(w[2:])...)
		case w[0] == "kubectl":
			wrong = append(wrong, c.wrongOfKubectl(w[1:])...)
		case w[0] == "curl":
			wrong = append(wrong, c.wrongOfQuery(w[1:])...)
		case w[0] == "grep":
			// Only texts in Fluence's logs can be checked.
			if text := w[len(w)-1]; len(pipeline[0]) > 2 && slices.Contains(pipeline[0], "logs") && text != "error" && !strings.Contains(c.source, text) {
				wrong = append(wrong, fmt.Sprintf("no program writes %q", text))
			}
		default:
			wrong = append(wrong, fmt.Sprintf("%q is no command that this test knows", w[0]))
		}
	}
	return wrong
}

// wrongOfPlugin lets the plugin check the arguments: it parses its flags before it prints its help.
func wrongOfPlugin(args []string) []string {
	if len(args) == 0 {
		return []string{"kubectl fluence is asked for nothing"}
	}
	var problem bytes.Buffer
	cfg := cli.Config{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &problem}, Now: time.Now}
	if code := cli.Run(context.Background(), cfg, append(slices.Clone(args), "--help")); code != cli.ExitYes {
		return []string{strings.TrimSpace(problem.String())}
	}
	return nil
}

// usage matches the command in kubectl's help.
var usage = regexp.MustCompile(`(?m)^  kubectl ([a-z-]+(?: [a-z-]+)*)`)

func (c *checker) wrongOfKubectl(args []string) (wrong []string) {
	for _, m := range ours.FindAllStringSubmatch(strings.Join(args, " "), -1) {
		name := strings.Replace(m[1], "=", ": ", 1)
		if !strings.Contains(c.chart, name) {
			wrong = append(wrong, fmt.Sprintf("nothing that is installed is called %q", m[1]))
		}
	}
	if c.kubectl == nil {
		return wrong
	}
	help, err := c.kubectl(append(slices.Clone(args), "--help")...)
	if err != nil {
		return append(wrong, strings.TrimSpace(help))
	}
	_, after, _ := strings.Cut(help, "Usage:\n")
	about := usage.FindStringSubmatch(after)
	if about == nil || strings.Contains(help, "Available Commands:") {
		return append(wrong, fmt.Sprintf("kubectl has no command like %q", args))
	}
	return wrong
}

func (c *checker) wrongOfQuery(args []string) []string {
	form := []string{"-sG", "$PROMETHEUS/api/v1/query", "--data-urlencode"}
	if len(args) != len(form)+1 || !slices.Equal(args[:len(form)], form) {
		return []string{fmt.Sprintf("curl is not asked as the other runbooks ask it, curl %s 'query=...'", strings.Join(form, " "))}
	}
	query, ok := strings.CutPrefix(args[len(form)], "query=")
	if !ok {
		return []string{"the query is not called query"}
	}
	_, wrong := names(c.rows, query)
	return wrong
}

var (
	quoted = regexp.MustCompile("`([^`\n]+)`")
	metric = regexp.MustCompile(`^(fluence_[a-z_]+)(\{.*\})?$`)
	flag   = regexp.MustCompile(`^--[a-z-]+$`)
	// argument matches an argument of the plugin or of the chart.
	argument = regexp.MustCompile(`^[a-z]+[A-Z][A-Za-z]*$`)
)

// wrongWords returns the metrics, flags and arguments in a text that do not exist.
func (c *checker) wrongWords(text string) (wrong []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		switch w := m[1]; {
		case metric.MatchString(w):
			if _, ok := rowOf(c.rows, metric.FindStringSubmatch(w)[1]); !ok && c.rows[w].Name == "" {
				wrong = append(wrong, fmt.Sprintf("no metric is called %q", w))
			}
		case flag.MatchString(w):
			if !strings.Contains(c.source, `"`+w[2:]+`"`) && !strings.Contains(c.chart, w) {
				wrong = append(wrong, fmt.Sprintf("no program has the flag %s", w))
			}
		case argument.MatchString(w):
			if !strings.Contains(c.source, `json:"`+w) && !strings.Contains(c.chart, w+":") {
				wrong = append(wrong, fmt.Sprintf("nothing has the argument %s", w))
			}
		}
	}
	return wrong
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	root, err := tools.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, dir := range []string{"pkg", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return &checker{
		rows: documented(t), source: source.String(),
		chart: file(t, "test", "chart", "testdata", "golden", "everything.yaml") + file(t, "manifests", "charts", "fluence", "values.yaml"),
	}
}

// withKubectl makes the real kubectl check commands. It needs no cluster for that.
func (c *checker) withKubectl(t *testing.T) {
	t.Helper()
	if testing.Short() {
		return // it may have to be built
	}
	programs, err := tools.Build(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c.kubectl = func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), programs.Kubectl, args...).CombinedOutput()
		return string(out), err
	}
}

// The commands and names in each alert's runbook exist and can be typed.
func TestEachAlertHasARunbookThatCanBeFollowed(t *testing.T) {
	c := newChecker(t)
	c.withKubectl(t)
	found := map[string]bool{}
	for _, r := range runbooksOf(file(t, "docs", "metrics.md")) {
		found[r.name] = true
		var wrong []string
		if strings.HasPrefix(r.name, "Fluence") {
			wrong = r.lacks()
		}
		wrong = append(wrong, c.wrongWords(r.text)...)
		for _, command := range r.commands {
			for _, w := range c.wrong(command) {
				wrong = append(wrong, command+": "+w)
			}
		}
		for _, w := range wrong {
			t.Errorf("docs/metrics.md, %q: %s", r.name, w)
		}
	}
	for _, a := range alerts(t) {
		if !found[a.Alert] {
			t.Errorf("alert %s has no runbook", a.Alert)
		}
	}
}

func TestARunbookThatCannotBeFollowedIsFound(t *testing.T) {
	c := newChecker(t)
	c.withKubectl(t)
	commands := map[string]struct{ command, want string }{
		"all is well":                             {"kubectl -n fluence-system logs deploy/fluence-scheduler -c sidecar --tail 20 | grep 'slow or too hard to place'", ""},
		"a query":                                 {`curl -sG $PROMETHEUS/api/v1/query --data-urlencode 'query=sum by (code) (rest_client_requests_total{code="429"})'`, ""},
		"the plugin":                              {"kubectl fluence why NAME -n NAMESPACE --now", ""},
		"a command that the plugin has not":       {"kubectl fluence explain NAME", `unknown command "explain"`},
		"a flag that it has not":                  {"kubectl fluence why NAME --soon", "unknown flag: --soon"},
		"a flag of another of its commands":       {"kubectl fluence status --now", "unknown flag: --now"},
		"a metric that there is not":              {"curl -sG $PROMETHEUS/api/v1/query --data-urlencode 'query=fluence_gone'", `no metric is called "fluence_gone"`},
		"a query that cannot be parsed":           {"curl -sG $PROMETHEUS/api/v1/query --data-urlencode 'query=max('", "parse error"},
		"another address":                         {"curl -s http://localhost:9090/metrics", "curl is not asked as the other"},
		"a Deployment that there is not":          {"kubectl -n fluence-system logs deploy/fluence-sidecar-pod", `called "fluence-sidecar-pod"`},
		"a label that there is not":               {"kubectl get pods -l app.kubernetes.io/component=matcher", `called "app.kubernetes.io/component=matcher"`},
		"a line of the log that is never written": {"kubectl -n fluence-system logs deploy/fluence-scheduler | grep 'no such line'", `no program writes "no such line"`},
		"another program":                         {"rm -r x", `"rm" is no command`},
		"a quote that stays open":                 {"kubectl get 'pods", "a quote is not closed"},
		"a pipe into nothing":                     {"kubectl get pods |", "nothing on one side"},
	}
	if c.kubectl != nil {
		commands["a flag that kubectl has not"] = struct{ command, want string }{"kubectl get pods --alll", "unknown flag: --alll"}
		commands["a command that kubectl has not"] = struct{ command, want string }{"kubectl lables namespace x", "unknown command"}
		commands["one of its commands that needs another"] = struct{ command, want string }{"kubectl rollout again deploy/x", "kubectl has no command like"}
	}
	for name, tc := range commands {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(c.wrong(tc.command), "; ")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%s: %q, want %q", tc.command, got, tc.want)
			}
		})
	}
	const page = "\n## Alerts\nFor all.\n### FluenceA\n**Affected:** all.\n```\none\ntwo\n```\n**Safe:** **Cause:** none\n## Log\n"
	books := runbooksOf(page)
	if len(books) != 2 || books[1].name != "FluenceA" || len(books[1].commands) != 2 {
		t.Fatalf("the page has %+v", books)
	}
	if got, want := strings.Join(books[1].lacks(), "; "), "nothing is said of **Safe:**; nothing is said of **Wake somebody:**; 2 commands, want 3 or more"; got != want {
		t.Errorf("it lacks %q, want %q", got, want)
	}
	for text, want := range map[string]string{
		"`fluence_leading`, `--leader-elect` and `maxBypass`": "",
		"`fluence_gone`": `no metric is called "fluence_gone"`,
		"`--no-such`":    "no program has the flag --no-such",
		"`maxPatience`":  "nothing has the argument maxPatience",
	} {
		if got := strings.Join(c.wrongWords(text), "; "); got != want {
			t.Errorf("of %s it says %q, want %q", text, got, want)
		}
	}
}
