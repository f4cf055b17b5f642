package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/golden"
)

// FuzzAddSubgraph adds a text to an engine without a graph, and to an engine that holds jobs. A
// text that is refused changes nothing. A text that is accepted is a graph whose resources can be
// matched and released.
func FuzzAddSubgraph(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add(asJSON(f, tiny()))
	more := tiny()
	object(more, "graph", "nodes", 8, "metadata")["name"] = "gpu7"
	object(more, "graph", "nodes", 8, "metadata")["uniq_id"] = 77
	object(more, "graph", "nodes", 8, "metadata")["paths"] = map[string]any{"containment": "/cluster0/node1/gpu7"}
	f.Add(asJSON(f, more))
	files, err := filepath.Glob("../../test/testdata/golden/graphs/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d graphs, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < 16<<10 {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l := begin(t)
		if err := l.add(text); err == nil {
			l.bookSomeJobs()
			l.releaseAll()
		} else {
			if !errors.Is(err, match.ErrInvalid) || len(err.Error()) < len("invalid request: ")+8 {
				t.Errorf("AddSubgraph() = %v, want ErrInvalid with a reason", err)
			}
			if err := l.add(asJSON(t, tiny())); err != nil {
				t.Fatalf("the right graph after the wrong one: %v", err)
			}
		}
		l = begin(t)
		if err := l.add(asJSON(t, tiny())); err != nil {
			t.Fatal(err)
		}
		l.bookSomeJobs()
		before, jobs := l.state(), l.jobs()
		if err := l.add(text); err != nil {
			l.wantUnchanged(before)
		} else if got := l.jobs(); got != jobs {
			t.Errorf("a graph was taken and jobs hold\n%s, before it\n%s", got, jobs)
		}
		l.releaseAll()
		l.bookSomeJobs()
		l.releaseAll()
	})
}

// FuzzJobspecMatch matches a text in a small graph. A request that is refused changes nothing. What
// is given out can be released completely.
func FuzzJobspecMatch(f *testing.F) {
	cases, err := golden.Load("../../test/testdata/golden")
	if err != nil {
		f.Fatal(err)
	}
	for i := range cases {
		for _, text := range cases[i].Jobspecs {
			if len(text) < 2<<10 {
				f.Add([]byte(text), uint8(i))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, choice uint8) {
		js, err := jobspec.Parse(text)
		if err != nil {
			return
		}
		l := begin(t)
		if err := l.add(asJSON(t, tiny())); err != nil {
			t.Fatal(err)
		}
		if choice&64 != 0 {
			l.bookSomeJobs()
		}
		before := l.state()
		op := match.Op(int(choice) % 5)
		a, err := l.match(op, 50, js)
		switch {
		case err != nil:
			if !errors.Is(err, match.ErrInvalid) && !errors.Is(err, match.ErrBusy) && !errors.Is(err, match.ErrUnsatisfiable) {
				t.Errorf("Match() = %v", err)
			}
			l.wantUnchanged(before)
		case len(a.R.Vertices) == 0:
			t.Error("nothing is given")
		case op != match.Allocate && op != match.AllocateOrElseReserve && js.Attributes.System.Queue == "":
			l.wantUnchanged(before)
		}
		l.releaseAll()
	})
}
