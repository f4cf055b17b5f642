package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A held engine accepts a call when nobody holds it.
type held struct {
	match.Engine
	// free has a value while nobody holds it.
	free chan struct{}
	// touched counts the calls that wait or have waited.
	touched atomic.Int32
}

func (h *held) Release(context.Context, match.Epoch, match.JobID, ...string) error {
	h.touched.Add(1)
	<-h.free
	h.free <- struct{}{}
	return match.ErrStale
}

// An engine that works on a call counts as occupied until the deadline of that
// call and deadlineGrace have passed. Calls that come behind it change nothing.
func TestAnEngineThatIsAtWorkAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, under := &held{free: make(chan struct{}, 1)}, &calls{}
		engine.free <- struct{}{}
		loading, overdue := false, false
		h := &health{
			Server: grpchealth.NewServer(), engine: engine, calls: under, recoverPanic: func(context.Context, string, *error) {},
			loading: func() (bool, bool) { return loading, overdue },
		}
		check := func() (healthpb.HealthCheckResponse_ServingStatus, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := h.Check(ctx, &healthpb.HealthCheckRequest{})
			return r.GetStatus(), err
		}
		want := func(when string, status healthpb.HealthCheckResponse_ServingStatus) {
			t.Helper()
			if got, err := check(); err != nil || got != status {
				t.Errorf("%s: %s, %v, want %s", when, got, err, status)
			}
		}
		silent := func(when string) {
			t.Helper()
			if got, err := check(); err == nil {
				t.Errorf("%s it answers %s", when, got)
			}
		}
		want("while nothing holds it", healthpb.HealthCheckResponse_SERVING)
		if n := engine.touched.Load(); n != 1 {
			t.Errorf("the engine was touched %d times by one check", n)
		}
		<-engine.free
		silent("held by no call")
		call, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		end := under.begin(call)
		want("in a call", healthpb.HealthCheckResponse_UNKNOWN)
		time.Sleep(10 * time.Second)
		want("in a call that is late", healthpb.HealthCheckResponse_UNKNOWN)
		time.Sleep(deadlineGrace - 5*time.Second)
		behind, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		endBehind := under.begin(behind)
		want("in a call that is late, with another behind it", healthpb.HealthCheckResponse_UNKNOWN)
		time.Sleep(5 * time.Second)
		silent("in a call that hangs, with another behind it")
		if n := engine.touched.Load(); n != 2 {
			t.Errorf("%d checks wait for the engine, want 1", n-1)
		}
		end()
		want("when the other has its turn", healthpb.HealthCheckResponse_UNKNOWN)
		engine.free <- struct{}{}
		endBehind()
		synctest.Wait()
		want("when it is free", healthpb.HealthCheckResponse_SERVING)
		if under.atWork(time.Now()) {
			t.Error("it is at work for calls that have ended")
		}
		loading = true
		want("when it loads its graph", healthpb.HealthCheckResponse_UNKNOWN)
		overdue = true
		silent("when it does not come to the end of a load")
		loading, overdue = false, false
		want("when the graph is loaded", healthpb.HealthCheckResponse_SERVING)
		h.engine = broken{}
		if _, err := check(); !errors.Is(err, errBroken) {
			t.Errorf("an engine that fails answers %v", err)
		}
	})
}

var errBroken = errors.New("broken")

type broken struct{ match.Engine }

func (broken) Release(context.Context, match.Epoch, match.JobID, ...string) error { return errBroken }
