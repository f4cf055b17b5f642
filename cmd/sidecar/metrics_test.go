package main

import (
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/metricdoc"
)

// newMeasured measures an embedded engine.
func newMeasured(t *testing.T) *measured {
	t.Helper()
	e, err := engine.New(engine.Options{Epoch: randomEpoch})
	if err != nil {
		t.Fatal(err)
	}
	return measure(e)
}

func TestEachMetricOfTheSidecarIsDocumented(t *testing.T) {
	rows, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	served, err := newMeasured(t).told()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range metricdoc.Differences(rows[metricdoc.Sidecar], served) {
		t.Error(wrong)
	}
}

// sizes returns how much the engine holds, by the metrics.
func (m *measured) sizes(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := m.told()
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]float64{}
	for _, f := range families {
		switch name := strings.TrimPrefix(f.GetName(), prefix); name {
		case "jobs", "slots", "nodes", "ready":
			sizes[name] = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return sizes
}

func TestTheMetricsSayHowMuchTheEngineHolds(t *testing.T) {
	m := newMeasured(t)
	e := m.served()
	epoch, err := e.Reset(t.Context())
	if err == nil {
		err = e.PutNode(t.Context(), epoch, matchtest.Node("n", nil, matchtest.Cores(4)))
	}
	if got := m.sizes(t); err != nil || got["ready"] != 0 || got["nodes"] != 1 {
		t.Errorf("while the graph is loaded: %v, %v", got, err)
	}
	if err := e.Ready(t.Context(), epoch); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Match(t.Context(), match.Request{Epoch: epoch, ID: 1, Jobspec: matchtest.Slots("a", 3, matchtest.Cores(1))}); err != nil {
		t.Fatal(err)
	}
	if got := m.sizes(t); got["ready"] != 1 || got["nodes"] != 1 || got["jobs"] != 1 || got["slots"] != 3 {
		t.Errorf("with a job of three slots: %v", got)
	}
}

// For an engine that does not know how much it holds, there is no series with the value 0.
func TestWhatAnEngineDoesNotKnowIsNotSaid(t *testing.T) {
	if got := measure(matchtest.NewFake()).sizes(t); len(got) > 0 {
		t.Errorf("of an engine that does not know the metrics say %v", got)
	}
}

func TestAnEngineThatTakesGraphsIsServedAsOne(t *testing.T) {
	plain := struct{ match.Engine }{matchtest.NewFake()}
	if _, graphs := measure(plain).served().(match.GraphEngine); graphs {
		t.Error("an engine that takes no graphs is served as if it did")
	}
	g, graphs := newMeasured(t).served().(match.GraphEngine)
	if !graphs {
		t.Fatal("an engine that takes graphs is served as if it did not")
	}
	epoch, err := g.Reset(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := matchtest.Node("n", nil, matchtest.Cores(1)).JGF()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.AddSubgraph(t.Context(), epoch, text); err != nil {
		t.Errorf("AddSubgraph() = %v", err)
	}
	if s, err := g.Find(t.Context(), epoch, "status=up", matchtest.Now); err != nil || len(s.Vertices) == 0 {
		t.Errorf("Find() = %v, %v", s, err)
	}
	if err := g.RemoveSubgraph(t.Context(), epoch, "/cluster0/n"); err != nil {
		t.Errorf("RemoveSubgraph() = %v", err)
	}
}
