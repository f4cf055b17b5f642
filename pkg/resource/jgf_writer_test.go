package resource

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write writes a graph with a JGFWriter.
func write(w io.Writer, g *Graph) error {
	out := NewJGFWriter(w)
	for i := range g.Vertices {
		if err := out.Vertex(&g.Vertices[i]); err != nil {
			return err
		}
	}
	for _, e := range g.Edges {
		if err := out.Edge(e); err != nil {
			return err
		}
	}
	return out.Close()
}

func TestJGFWriterWritesWhatReadJGFReads(t *testing.T) {
	shuffled := cluster(3)
	for i := range shuffled.Vertices {
		shuffled.Vertices[i].UniqID = int64(100 - i)
	}
	shuffled.Edges[0].Subsystem = "power"
	cases := map[string]*Graph{
		"a root alone":                {Vertices: cluster(0).Vertices},
		"numbers in order":            cluster(2),
		"numbers of their own":        shuffled,
		"more than a buffer can hold": cluster(2000),
	}
	for name, g := range cases {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b, g); err != nil {
				t.Fatal(err)
			}
			again, err := ReadJGF(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g, again); diff != "" {
				t.Errorf("after JGFWriter and ReadJGF (-before +after):\n%s", diff)
			}
		})
	}
}

func TestJGFWriterIsAsCompactAsJGF(t *testing.T) {
	g := cluster(2)
	want, err := g.JGF()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(&b, g); err != nil || b.String() != string(want) {
		t.Errorf("JGFWriter: %s, %v\nJGF: %s", b.String(), err, want)
	}
}

func TestJGFWriterKeepsNoMoreThanABuffer(t *testing.T) {
	small, large := cluster(500), cluster(50_000)
	allocated := func(g *Graph) float64 {
		return testing.AllocsPerRun(1, func() {
			if err := write(io.Discard, g); err != nil {
				t.Error(err)
			}
		})
	}
	if few, many := allocated(small), allocated(large); many > few+10 {
		t.Errorf("%v allocations for 500 nodes, %v for 50,000", few, many)
	}
}

// full is an io.Writer that accepts this number of bytes.
type full int

func (f *full) Write(b []byte) (int, error) {
	if *f -= full(len(b)); *f < 0 {
		return 0, errors.New("no space left")
	}
	return len(b), nil
}

func TestJGFWriterRefuses(t *testing.T) {
	root := cluster(0).Vertices[0]
	change := func(to func(*Vertex)) *Vertex { v := root; to(&v); return &v }
	cases := map[string]struct {
		do   func(w *JGFWriter) error
		want string
	}{
		"a vertex without a type":   {func(w *JGFWriter) error { return w.Vertex(change(func(v *Vertex) { v.Type = "" })) }, "vertex 1: type is empty"},
		"a name that is not UTF-8":  {func(w *JGFWriter) error { return w.Vertex(change(func(v *Vertex) { v.Name = "\xff" })) }, `vertex 1: "\xff": not UTF-8`},
		"an edge to nowhere":        {func(w *JGFWriter) error { return w.Edge(Edge{0, 1, Containment}) }, "edge 0: from vertex 0 to 1, of 1"},
		"an edge from nowhere":      {func(w *JGFWriter) error { return w.Edge(Edge{-1, 0, Containment}) }, "edge 0: from vertex -1 to 0, of 1"},
		"an edge of no subsystem":   {func(w *JGFWriter) error { return w.Edge(Edge{0, 0, ""}) }, `edge 0: "" is not a subsystem`},
		"a vertex behind the edges": {func(w *JGFWriter) error { return errors.Join(w.Edge(Edge{0, 0, Containment}), w.Vertex(&root)) }, "vertex 1: comes after an edge"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := NewJGFWriter(io.Discard)
			if err := w.Vertex(&root); err != nil {
				t.Fatal(err)
			}
			if err := tc.do(w); err == nil || err.Error() != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
			for _, err := range []error{w.Vertex(&root), w.Edge(Edge{0, 0, Containment}), w.Close()} {
				if err == nil || err.Error() != tc.want {
					t.Errorf("afterwards: %v, want %s again", err, tc.want)
				}
			}
		})
	}
}

func TestJGFWriterSaysThatItCannotWrite(t *testing.T) {
	for name, room := range map[string]full{"at once": 10, "at the end": 100_000} {
		t.Run(name, func(t *testing.T) {
			err := write(&room, cluster(500))
			if err == nil || !strings.HasSuffix(err.Error(), "write graph: no space left") {
				t.Errorf("%v, want no space left", err)
			}
		})
	}
}
