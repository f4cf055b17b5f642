package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// files are the inputs of a test, by name.
func files(t *testing.T, of map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range of {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	tinyGraph = `{"graph":{"nodes":[
		{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}},
		{"id":"1","metadata":{"type":"node","id":0,"rank":0,"properties":{"fast":"","zone":"a"},"paths":{"containment":"/cluster0/node0"}}},
		{"id":"2","metadata":{"type":"core","id":0,"rank":0,"paths":{"containment":"/cluster0/node0/core0"}}},
		{"id":"3","metadata":{"type":"core","id":1,"rank":0,"paths":{"containment":"/cluster0/node0/core1"}}},
		{"id":"4","metadata":{"type":"memory","id":0,"rank":0,"size":16,"unit":"GB","paths":{"containment":"/cluster0/node0/memory0"}}},
		{"id":"5","metadata":{"type":"node","id":1,"rank":2,"status":1,"paths":{"containment":"/cluster0/node1"}}},
		{"id":"6","metadata":{"type":"core","id":0,"rank":2,"paths":{"containment":"/cluster0/node1/core0"}}}],
		"edges":[{"source":"0","target":"1"},{"source":"1","target":"2"},{"source":"1","target":"3"},{"source":"1","target":"4"},
		{"source":"0","target":"5"},{"source":"5","target":"6"}]}}`
	cores = `{version: 1, resources: [{type: slot, count: 1, label: a, with: [{type: core, count: %d}]}],
tasks: [{command: [app], slot: a, count: {per_slot: 1}}], attributes: {system: {duration: %d}}}`
)

// ask runs a command that uses an engine, and returns its output and its exit code.
func ask(t *testing.T, open Opener, in string, args ...string) (out, says string, code int) {
	t.Helper()
	c := &cobra.Command{Use: "fluence-sidecar", SilenceUsage: true, SilenceErrors: true}
	c.AddCommand(Match(open), Satisfy(open), Info(open))
	var o, e bytes.Buffer
	c.SetIn(strings.NewReader(in))
	c.SetOut(&o)
	c.SetErr(&e)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	code, tell := ExitCode(err)
	if tell {
		fmt.Fprintln(&e, err)
	}
	return o.String(), e.String(), code
}

// scripted opens an engine with a script, and keeps the options with which it was opened.
func scripted(fake *matchtest.Fake, options *string) Opener {
	return func(_ string, o []byte) (Engine, error) {
		if options != nil {
			*options = string(o)
		}
		return fake, nil
	}
}

func given(reserved bool) *match.Allocation {
	return &match.Allocation{
		Reserved: reserved, Start: time.Unix(60, 0), End: time.Unix(160, 0),
		R: &resource.Set{Start: time.Unix(60, 0), Expiration: time.Unix(160, 0), Vertices: []resource.Share{
			{Amount: 1, Exclusively: true, Vertex: resource.Vertex{
				UniqID: 2, Type: "core", Basename: "core", Name: "core0", Size: 1,
				Path: "/cluster0/node0/core0",
			}},
			{Amount: 1, Vertex: resource.Vertex{
				UniqID: 1, Type: "node", Basename: "node", Name: "node0", Size: 1,
				Path: "/cluster0/node0",
			}},
		}},
	}
}

func TestAnAnswerIsTheEnginesAndTheCodeSaysWhich(t *testing.T) {
	dir := files(t, map[string]string{"g.json": tinyGraph, "j.yaml": fmt.Sprintf(cores, 1, 100)})
	refused := func(verdict error) error {
		return &match.Refusal{Err: verdict, Reason: match.Reason{Code: match.TooFew}}
	}
	cases := map[string]struct {
		answers []error // nil is an allocation
		code    int
		says    []string
	}{
		"matched":                      {[]error{nil}, 0, []string{"job 1 ", "j.yaml): allocated at 60 until 160, in "}},
		"busy":                         {[]error{refused(match.ErrBusy)}, 3, []string{"resources are busy: room for"}},
		"never":                        {[]error{refused(match.ErrUnsatisfiable)}, 4, []string{"can never be satisfied: room for"}},
		"a bad request":                {[]error{match.ErrInvalid}, 1, []string{"invalid request"}},
		"a broken engine":              {[]error{errors.New("broken")}, 1, []string{"broken"}},
		"the first that is not counts": {[]error{nil, refused(match.ErrBusy), refused(match.ErrUnsatisfiable), nil}, 3, []string{"job 1 ", "job 2 ", "job 3 ", "job 4 "}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			fake := matchtest.NewFake()
			args := []string{"match", "--graph", filepath.Join(dir, "g.json")}
			matched := 0
			for _, err := range tc.answers {
				var a *match.Allocation
				if err == nil {
					a = given(false)
					matched++
				}
				fake.Answer(a, err)
				args = append(args, "--jobspec", filepath.Join(dir, "j.yaml"))
			}
			out, says, code := ask(t, scripted(fake, nil), "", args...)
			if code != tc.code || strings.Count(out, "\n") != matched || strings.Count(says, "\n") != len(tc.answers) {
				t.Errorf("ended with %d, want %d: %s%s", code, tc.code, out, says)
			}
			for _, want := range tc.says {
				if !strings.Contains(says, want) {
					t.Errorf("%q is not in: %s", want, says)
				}
			}
		})
	}
}

func TestARequestSaysWhatTheFlagsSay(t *testing.T) {
	dir := files(t, map[string]string{"g.json": tinyGraph, "j.yaml": fmt.Sprintf(cores, 2, 100)})
	ops := map[string]match.Op{
		"allocate": match.Allocate, "allocate_with_satisfiability": match.Allocate,
		"allocate_orelse_reserve": match.AllocateOrElseReserve,
		"without_allocating":      match.WithoutAllocating, "without_allocating_future": match.WithoutAllocatingFuture,
	}
	for name, op := range ops {
		t.Run(name, func(t *testing.T) {
			fake := matchtest.NewFake()
			fake.Answer(given(true), nil)
			fake.Answer(given(true), nil)
			var options string
			_, says, code := ask(t, scripted(fake, &options), fmt.Sprintf(cores, 2, 100), "match", "-g", filepath.Join(dir, "g.json"),
				"-j", "-", "-j", filepath.Join(dir, "j.yaml"), "--op", name, "--now", "1970-01-01T00:01:00Z",
				"--options", `{"matcher_policy":"high","extra":[1],"load_format":"jgf"}`, "--policy", "lonode", "--prune-filters", "ALL:gpu", "--matcher-name", "CA")
			if code != 0 || !strings.Contains(says, "(-): reserved at 60 until 160") {
				t.Fatalf("ended with %d: %s", code, says)
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(options), &got); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"matcher_policy": "lonode", "prune_filters": "ALL:gpu", "matcher_name": "CA", "load_format": "jgf", "extra": []any{1.0},
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the engine was made with %v, want %v", got, want)
			}
			if _, _, code := ask(t, scripted(fake, &options), tinyGraph, "info", "--graph", "-", "--prune-filters", ""); code != 0 ||
				!strings.Contains(options, `"prune_filters":""`) || strings.Contains(options, "matcher") {
				t.Errorf("without filters the engine was made with %s", options)
			}
			var called []string
			for _, c := range fake.Calls() {
				called = append(called, string(c.Method))
			}
			if got := strings.Join(called, " "); !strings.HasPrefix(got, "Reset AddSubgraph Ready Match Match Reset") {
				t.Errorf("the engine was asked %s", got)
			}
			if got := string(fake.Calls(matchtest.AddSubgraph)[0].JGF); got != tinyGraph {
				t.Errorf("the graph became %s", got)
			}
			for i, c := range fake.Calls(matchtest.Match) {
				r := c.Request
				if r.Op != op || r.ID != match.JobID(i+1) || r.Duration != 100*time.Second || !r.Now.Equal(time.Unix(60, 0)) || r.Epoch != 1 ||
					r.Jobspec.Resources[0].With[0].Count != jobspec.Exactly(2) {
					t.Errorf("request %d is %+v", i, r)
				}
			}
		})
	}
}

func TestSatisfySaysYesOrNoAndWhy(t *testing.T) {
	dir := files(t, map[string]string{"g.json": tinyGraph, "j.yaml": fmt.Sprintf(cores, 1, 100)})
	fake := matchtest.NewFake()
	fake.Answer(given(false), nil)
	fake.Refuse(match.ErrUnsatisfiable, match.Reason{Code: match.NoNode, Wanted: 3})
	j := filepath.Join(dir, "j.yaml")
	out, says, code := ask(t, scripted(fake, nil), "", "satisfy", "--graph", filepath.Join(dir, "g.json"), "--jobspec", j, "--jobspec", j)
	want := j + ": yes\n" + j + ": no: request can never be satisfied: no node may be used for 3 slots (0 nodes)\n"
	if out != want || says != "" || code != 4 {
		t.Errorf("ended with %d: %s%s, want 4: %s", code, out, says, want)
	}
	for _, c := range fake.Calls(matchtest.Match) {
		if c.Request.Op != match.Satisfiability {
			t.Errorf("the engine was asked %+v", c.Request)
		}
	}
	fake.Answer(nil, fmt.Errorf("%w: a type not known", match.ErrInvalid))
	out, says, code = ask(t, scripted(fake, nil), "", "satisfy", "--graph", filepath.Join(dir, "g.json"), "--jobspec", j)
	if out != "" || code != 1 || !strings.Contains(says, "j.yaml: invalid request: a type not known") {
		t.Errorf("ended with %d: %s%s", code, out, says)
	}
}

func TestInfoCountsWhatAGraphHolds(t *testing.T) {
	out, says, code := ask(t, scripted(matchtest.NewFake(), nil), tinyGraph, "info", "--graph", "-")
	if code != 0 || says != "" {
		t.Fatalf("ended with %d: %s", code, says)
	}
	want := `vertices    7
edges       6
levels      cluster > node > core|memory
ranks       0,2
nodes       1 up, 1 down
properties  fast (1), zone=a (1)

type     vertices  down  size  unit
cluster  1         0     1     
core     3         0     3     
memory   1         0     16    GB
node     2         1     2     

`
	if !strings.HasPrefix(out, want) {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
	if rest := strings.TrimPrefix(out, want); !strings.HasPrefix(rest, fmt.Sprintf("loaded %d bytes of JGF in ", len(tinyGraph))) || !strings.HasSuffix(rest, " bytes of memory\n") {
		t.Errorf("got %q", rest)
	}
}

func TestMistakesInAQuestion(t *testing.T) {
	dir := files(t, map[string]string{
		"g.json": tinyGraph, "j.yaml": fmt.Sprintf(cores, 1, 100), "bad.yaml": "version: 1\nresources:\n  - type: slot\n    count: many\n",
	})
	g, j := filepath.Join(dir, "g.json"), filepath.Join(dir, "j.yaml")
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, jobspec.MaxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		args []string
		code int
		want []string
	}{
		"no graph":                   {[]string{"match", "--jobspec", j}, 2, []string{"--graph"}},
		"no jobspec":                 {[]string{"match", "--graph", g}, 2, []string{"--jobspec"}},
		"no jobspec to satisfy":      {[]string{"satisfy", "--graph", g}, 2, []string{"--jobspec"}},
		"nothing to say":             {[]string{"info"}, 2, []string{"--graph"}},
		"an argument":                {[]string{"info", "--graph", g, "twice"}, 2, []string{"twice"}},
		"a flag not known":           {[]string{"match", "--colour", "red"}, 2, []string{"--colour"}},
		"standard input twice":       {[]string{"match", "--graph", "-", "--jobspec", "-"}, 2, []string{"standard input", "2 times"}},
		"an operation not known":     {[]string{"match", "--graph", g, "--jobspec", j, "--op", "take"}, 2, []string{"--op", "take", "allocate_orelse_reserve"}},
		"a format not known":         {[]string{"match", "--graph", g, "--jobspec", j, "--format", "xml"}, 2, []string{"--format", "xml", "rv1_nosched"}},
		"a format not known to be":   {[]string{"match", "--graph", g, "--jobspec", j, "--options", `{"match_format":7}`}, 2, []string{"--options", "match_format"}},
		"a time that is none":        {[]string{"match", "--graph", g, "--jobspec", j, "--now", "noon"}, 2, []string{"--now", "noon"}},
		"options that are no JSON":   {[]string{"match", "--graph", g, "--jobspec", j, "--options", "low"}, 2, []string{"--options", "low"}},
		"options that are nothing":   {[]string{"info", "--graph", g, "--options", "null"}, 2, []string{"--options", "null"}},
		"options the engine refuses": {[]string{"info", "--graph", g, "--policy", "bad"}, 2, []string{`policy: "bad"`}},
		"a graph that is not there":  {[]string{"info", "--graph", dir + "/x"}, 1, []string{dir + "/x", "no such file"}},
		"a graph that is a folder":   {[]string{"info", "--graph", dir}, 1, []string{dir, "not a regular file"}},
		"a jobspec that is too large": {
			[]string{"match", "--graph", g, "--jobspec", large}, 1, []string{large, fmt.Sprint(jobspec.MaxSize)},
		},
		"a jobspec that is none": {
			[]string{"match", "--graph", g, "--jobspec", filepath.Join(dir, "bad.yaml")}, 1, []string{"bad.yaml", "line 4", "count", "many"},
		},
	}
	open := func(_ string, options []byte) (Engine, error) {
		if strings.Contains(string(options), `"bad"`) {
			return nil, errors.New(`policy: "bad"`)
		}
		return matchtest.NewFake(), nil
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, says, code := ask(t, open, "", tc.args...)
			if code != tc.code || out != "" || strings.Count(says, "\n") != 1 {
				t.Errorf("ended with %d, want %d: %s%s", code, tc.code, out, says)
			}
			for _, want := range tc.want {
				if !strings.Contains(says, want) {
					t.Errorf("%q is not in: %s", want, says)
				}
			}
		})
	}
	long := strings.Repeat(" ", jobspec.MaxSize+1)
	if out, says, code := ask(t, open, long, "match", "--graph", g, "--jobspec", "-"); code != 1 || !strings.Contains(says, "standard input: exceeds the limit of") {
		t.Errorf("a long standard input ended with %d: %s%s", code, out, says)
	}
}

func TestAGraphThatTheEngineRefusesNamesTheFile(t *testing.T) {
	dir := files(t, map[string]string{"g.json": tinyGraph})
	fake := matchtest.NewFake()
	fake.Fail(matchtest.AddSubgraph, fmt.Errorf("%w: vertex 7: no type", match.ErrInvalid))
	out, says, code := ask(t, scripted(fake, nil), "", "info", "--graph", filepath.Join(dir, "g.json"))
	if code != 1 || out != "" || !strings.Contains(says, "g.json: invalid request: vertex 7: no type") {
		t.Errorf("ended with %d: %s%s", code, out, says)
	}
}
