package inventory

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

func TestAnOutageIsLoggedOnceForEachReason(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.fake.Fail(matchtest.Reset, fmt.Errorf("%w: dial: no such file", match.ErrUnavailable))
		w.begin()
		time.Sleep(time.Minute) // in the bubble's time
		if why := w.WhyNotLoaded(); why != "" {
			t.Errorf("without an answer the graph is not loaded because of %q, want no reason", why)
		}
		w.fake.Fail(matchtest.Reset, nil)
		for n := range 100 {
			w.fake.Fail(matchtest.Ready, fmt.Errorf("load %d of the graph: no such type", n))
			time.Sleep(time.Second)
		}
		var loud []string
		for _, e := range w.entries() {
			if e.Verbosity == 0 && strings.Contains(e.Message, "cannot be kept up to date") {
				loud = append(loud, fmt.Sprint(e.ParameterKVList...))
			}
		}
		if len(loud) != 2 || !strings.Contains(loud[0], "no such file") || !strings.Contains(loud[1], "no such type") {
			t.Errorf("logged are %q, want one line for each of the two reasons", loud)
		}
		if why := w.WhyNotLoaded(); !strings.Contains(why, "no such type") {
			t.Errorf("the graph is not loaded because of %q, want what Ready says", why)
		}
		w.fake.Fail(matchtest.Ready, nil)
		w.within(time.Second, "the graph is loaded", w.loaded)
		if why := w.WhyNotLoaded(); why != "" {
			t.Errorf("the graph is loaded, and yet there is the reason %q", why)
		}
	})
}

func TestTheReasonsOfAnOutageThatAreLoggedAreBounded(t *testing.T) {
	o := outageLog{}
	loud := 0
	for i := range 1000 {
		if o.verbosity(errors.New(strings.Repeat("x", i))) == 0 {
			loud++
		}
	}
	if loud != maxLoggedReasons {
		t.Errorf("%d reasons are logged at verbosity 0, want %d", loud, maxLoggedReasons)
	}
	if v := (outageLog{}).verbosity(errors.New("x")); v != 0 {
		t.Errorf("the first reason of the next outage has verbosity %d, want 0", v)
	}
}

// An engine that answers that it is loading the graph is asked again, and nothing is sent anew.
func TestAnEngineThatLoadsIsWaitedFor(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.fake.Fail(matchtest.Ready, fmt.Errorf("ready: %w", match.ErrLoading))
		w.begin()
		time.Sleep(10 * time.Minute) // in the bubble's time
		if w.loaded() {
			t.Error("the graph counts as loaded while the engine loads it")
		}
		w.fake.Fail(matchtest.Ready, nil)
		w.within(time.Second, "the graph is loaded", w.loaded)
		for method, want := range map[matchtest.Method]int{matchtest.Reset: 1, matchtest.PutNode: 1} {
			if got := len(w.fake.Calls(method)); got != want {
				t.Errorf("%d calls of %s, want %d", got, method, want)
			}
		}
		loud := 0
		for _, e := range w.entries() {
			if e.Verbosity == 0 && strings.Contains(e.Message, "is loading the graph") {
				loud++
			}
		}
		if loud != 1 {
			t.Errorf("the load is logged %d times at verbosity 0, want once", loud)
		}
		w.expectChanges("after the load", "Loaded")
	})
}

func TestAnEngineThatIsRestartedWhileItLoadsGetsTheGraphAnew(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.fake.Fail(matchtest.Ready, match.ErrLoading)
		w.begin()
		time.Sleep(time.Second) // in the bubble's time
		w.fake.Fail(matchtest.Ready, match.ErrStale)
		time.Sleep(time.Second)
		w.fake.Fail(matchtest.Ready, nil)
		w.within(time.Second, "the graph is loaded", w.loaded)
		if got := len(w.fake.Calls(matchtest.Reset)); got < 2 {
			t.Errorf("%d calls of Reset, want another one", got)
		}
	})
}

// A later load that fails is reported like the first one, and nothing is sent again because of it.
func TestALaterLoadThatFailsIsTold(t *testing.T) {
	run(t, matchtest.NewFake, nil, func(w *world) {
		w.nodes.add(node("n1", "8"))
		w.begin()
		w.within(time.Second, "the graph is loaded", w.loaded)
		epoch := w.Epoch()
		w.fake.Fail(matchtest.Ready, errors.New("ready: no memory"))
		w.within(2*checkReadyEvery, "the reason is known", func() bool { return strings.Contains(w.WhyNotLoaded(), "no memory") })
		time.Sleep(time.Minute) // in the bubble's time
		loud := 0
		for _, e := range w.entries() {
			if e.Verbosity == 0 && strings.Contains(e.Message, "cannot load the latest graph") && strings.Contains(fmt.Sprint(e.ParameterKVList...), "no memory") {
				loud++
			}
		}
		if loud != 1 {
			t.Errorf("the reason is logged %d times at verbosity 0, want once", loud)
		}
		w.fake.Fail(matchtest.Ready, match.ErrLoading)
		time.Sleep(2 * checkReadyEvery)
		if why := w.WhyNotLoaded(); !strings.Contains(why, "no memory") {
			t.Errorf("while the engine loads again the reason is %q, want the last one", why)
		}
		w.fake.Fail(matchtest.Ready, nil)
		w.within(2*checkReadyEvery, "the reason is gone", func() bool { return w.WhyNotLoaded() == "" })
		if got := w.Epoch(); got != epoch {
			t.Errorf("the graph was sent again: epoch %d, want %d", got, epoch)
		}
		w.fake.FailNext(matchtest.Ready, match.ErrStale)
		w.within(2*checkReadyEvery, "the loss is seen", func() bool { return w.Epoch() != epoch })
	})
}
