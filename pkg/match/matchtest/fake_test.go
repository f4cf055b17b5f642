package matchtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

func ask(t *testing.T, f *matchtest.Fake, id match.JobID) (*match.Allocation, error) {
	return f.Match(t.Context(), match.Request{ID: id})
}

func TestFakeAnswersInOrderAndThenByFunction(t *testing.T) {
	f := matchtest.NewFake()
	f.Answer(&match.Allocation{ID: 1}, nil)
	f.Refuse(match.ErrBusy, match.Reason{Code: match.TooFew, Wanted: 2})
	f.OnMatch(func(r match.Request) (*match.Allocation, error) { return &match.Allocation{ID: r.ID + 100}, nil })

	if a, err := ask(t, f, 1); err != nil || a.ID != 1 {
		t.Errorf("first Match() = %v, %v, want job 1", a, err)
	}
	var refusal *match.Refusal
	if _, err := ask(t, f, 2); !errors.Is(err, match.ErrBusy) || !errors.As(err, &refusal) || refusal.Reason.Wanted != 2 {
		t.Errorf("second Match() = %v, want the refusal", err)
	}
	if a, err := ask(t, f, 3); err != nil || a.ID != 103 {
		t.Errorf("third Match() = %v, %v, want job 103", a, err)
	}
	f.OnMatch(nil)
	if a, err := ask(t, f, 4); err == nil {
		t.Errorf("unscripted Match() = %v, want an error", a)
	}
}

func TestFakeFailsWhatItIsToldTo(t *testing.T) {
	f := matchtest.NewFake()
	ctx := t.Context()
	f.Fail(matchtest.Release, match.ErrUnavailable)
	f.FailNext(matchtest.Release, nil, match.ErrStale)
	for i, want := range []error{nil, match.ErrStale, match.ErrUnavailable, match.ErrUnavailable} {
		if err := f.Release(ctx, 1, 1); !errors.Is(err, want) {
			t.Errorf("Release() number %d = %v, want %v", i, err, want)
		}
	}
	f.Fail(matchtest.Release, nil)
	if err := f.Release(ctx, 1, 1); err != nil {
		t.Errorf("Release() = %v", err)
	}
	if err := f.Update(ctx, 1); err != nil {
		t.Errorf("Update() = %v", err)
	}
}

func TestFakeNotesCalls(t *testing.T) {
	f := matchtest.NewFake()
	ctx := t.Context()
	first, _ := f.Reset(ctx)
	second, _ := f.Reset(ctx)
	if first == 0 || first == second {
		t.Errorf("epochs %d and %d, want two others than 0", first, second)
	}
	if err := f.Release(ctx, second, 7, "a", "b"); err != nil {
		t.Fatalf("Release() = %v", err)
	}
	calls := f.Calls(matchtest.Release)
	if len(calls) != 1 || calls[0].ID != 7 || calls[0].Epoch != second || len(calls[0].Keys) != 2 {
		t.Errorf("Calls() = %+v", calls)
	}
	if n := len(f.Calls()); n != 3 {
		t.Errorf("%d calls in all, want 3", n)
	}
	f.Forget()
	if n := len(f.Calls()); n != 0 {
		t.Errorf("%d calls after Forget, want 0", n)
	}
}

func TestFakeHoldsCallsUntilReleased(t *testing.T) {
	f := matchtest.NewFake()
	f.Answer(&match.Allocation{ID: 1}, nil)
	release := f.Hold(matchtest.Match)
	done := make(chan error, 1)
	go func() {
		_, err := ask(t, f, 1)
		done <- err
	}()
	if _, err := f.Await(t.Context(), matchtest.Match, 1); err != nil {
		t.Fatalf("Await() = %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("a held call returned %v", err)
	default:
	}
	release()
	if err := <-done; err != nil {
		t.Errorf("Match() = %v", err)
	}
}

func TestFakeLetsGoOfAHeldCallWhoseContextEnds(t *testing.T) {
	f := matchtest.NewFake()
	defer f.Hold(matchtest.Match)()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.Match(ctx, match.Request{ID: 1})
		done <- err
	}()
	if _, err := f.Await(t.Context(), matchtest.Match, 1); err != nil {
		t.Fatalf("Await() = %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Match() = %v, want %v", err, context.Canceled)
	}
}

func TestSpyPassesCallsOn(t *testing.T) {
	behind := matchtest.NewFake()
	behind.Answer(&match.Allocation{ID: 5}, nil)
	f := matchtest.Spy(behind)
	f.FailNext(matchtest.Match, match.ErrUnavailable)
	if _, err := ask(t, f, 5); !errors.Is(err, match.ErrUnavailable) {
		t.Errorf("first Match() = %v, want %v", err, match.ErrUnavailable)
	}
	if a, err := ask(t, f, 5); err != nil || a.ID != 5 {
		t.Errorf("second Match() = %v, %v, want job 5", a, err)
	}
	if n := len(behind.Calls()); n != 1 {
		t.Errorf("%d calls reached the engine behind, want 1", n)
	}
}

func TestFakeTakesGraphs(t *testing.T) {
	f, ctx := matchtest.NewFake(), t.Context()
	text := []byte("a graph")
	if err := f.AddSubgraph(ctx, 3, text); err != nil {
		t.Errorf("AddSubgraph() = %v", err)
	}
	text[0] = 'x' // The engine may read it only during the call.
	if err := f.RemoveSubgraph(ctx, 3, "/cluster0/rack0"); err != nil {
		t.Errorf("RemoveSubgraph() = %v", err)
	}
	if s, err := f.Find(ctx, 3, "status=up", matchtest.Now); err == nil {
		t.Errorf("unscripted Find() = %v, want an error", s)
	}
	want := &resource.Set{}
	f.SetFound(want)
	if s, err := f.Find(ctx, 3, "status=up", matchtest.Now); s != want || err != nil {
		t.Errorf("Find() = %v, %v, want what was set", s, err)
	}
	calls := f.Calls()
	if len(calls) != 4 || string(calls[0].JGF) != "a graph" || calls[1].Name != "/cluster0/rack0" || calls[3].Criteria != "status=up" {
		t.Errorf("Calls() = %+v", calls)
	}
	for _, c := range calls {
		if c.Epoch != 3 {
			t.Errorf("%s was called in epoch %d, want 3", c.Method, c.Epoch)
		}
	}
}

func TestSpyOnAnEngineThatTakesNoGraphs(t *testing.T) {
	f, ctx := matchtest.Spy(struct{ match.Engine }{matchtest.NewFake()}), t.Context()
	_, found := f.Find(ctx, 1, "status=up", matchtest.Now)
	for name, err := range map[string]error{
		"AddSubgraph": f.AddSubgraph(ctx, 1, []byte("{}")), "RemoveSubgraph": f.RemoveSubgraph(ctx, 1, "/c"), "Find": found,
	} {
		if !errors.Is(err, match.ErrInvalid) {
			t.Errorf("%s() = %v, want %v", name, err, match.ErrInvalid)
		}
	}
}
