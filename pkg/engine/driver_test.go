package engine_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A driver is an engine and its epoch.
type driver struct {
	e     *engine.Engine
	epoch match.Epoch
}

// load resets the engine, puts these nodes and calls Ready.
func (d *driver) load(t testing.TB, nodes ...*resource.Graph) {
	t.Helper()
	var err error
	if d.epoch, err = d.e.Reset(t.Context()); err != nil {
		t.Fatalf("Reset() = %v", err)
	}
	if err := d.e.PutNode(t.Context(), d.epoch, nodes...); err != nil {
		t.Fatalf("PutNode() = %v", err)
	}
	if err := d.e.Ready(t.Context(), d.epoch); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
}

func (d *driver) put(t testing.TB, nodes ...*resource.Graph) {
	t.Helper()
	if err := d.e.PutNode(t.Context(), d.epoch, nodes...); err != nil {
		t.Fatal(err)
	}
}

func (d *driver) remove(t testing.TB, name string) {
	t.Helper()
	if err := d.e.RemoveNode(t.Context(), d.epoch, name); err != nil {
		t.Fatal(err)
	}
}

// request returns a request to allocate.
func (d *driver) request(id match.JobID, js *jobspec.Jobspec) match.Request {
	return match.Request{Epoch: d.epoch, ID: id, Jobspec: js, Now: matchtest.Now}
}

func (d *driver) match(t testing.TB, id match.JobID, js *jobspec.Jobspec) *match.Allocation {
	t.Helper()
	a, err := d.e.Match(t.Context(), d.request(id, js))
	if err != nil {
		t.Fatalf("Match(%d) = %v", id, err)
	}
	return a
}

// processorTime returns the processor time of the process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
