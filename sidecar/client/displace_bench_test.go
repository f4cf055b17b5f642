package client_test

import (
	"context"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/client"
)

// occupied returns a client of an engine with the nodes and pods of matchtest.Occupied, and a request that may
// displace all of these pods for a gang of this size.
func occupied(b *testing.B, nodes, pods int, gang int64) (*client.Client, match.Request) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "s")
	serve(b, path, newEngine(b))
	c := dial(b, path, client.Options{Timeout: time.Minute, LoadTimeout: 5 * time.Minute, Brief: true})
	graphs, jobs, units := matchtest.Occupied(nodes, pods)
	r := match.Request{
		Epoch: load(b, c, graphs, jobs), Op: match.WithoutAllocating, ID: 1, Now: matchtest.Now, Displace: units,
		Jobspec: matchtest.Slots("w", gang, matchtest.Cores(16), matchtest.Memory(32), matchtest.Pods(1)),
	}
	return c, r
}

// percentile returns the time that this share of sorted times does not exceed, in milliseconds.
func percentile(sorted []time.Duration, percent int) float64 {
	return float64(sorted[(len(sorted)-1)*percent/100]) / 1e6
}

// processorTime returns the processor time of the process, which is the client and the server.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDisplace plans whom a gang displaces, over a socket. The goals are 60 ms for the median and 250 ms for the
// 99th percentile with 5,000 nodes and 50,000 pods, and 1 s with 2,000 nodes and 700 units that have to go.
func BenchmarkDisplace(b *testing.B) {
	for name, size := range map[string]struct {
		nodes int
		gang  int64
	}{
		"nodes=5000/gang=256": {5000, 256},
		"nodes=2000/gang=700": {2000, 700},
	} {
		b.Run(name, func(b *testing.B) {
			c, r := occupied(b, size.nodes, 50_000, size.gang)
			var took []time.Duration
			displaced := 0
			used := processorTime()
			for b.Loop() {
				began := time.Now()
				a, err := c.Match(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
				displaced = len(a.Displaced)
			}
			b.ReportMetric(float64(processorTime()-used)/1e6/float64(len(took)), "cpu-ms")
			slices.Sort(took)
			b.ReportMetric(percentile(took, 50), "p50-ms")
			b.ReportMetric(percentile(took, 99), "p99-ms")
			b.ReportMetric(float64(displaced), "displaced")
		})
	}
}

// BenchmarkMatchBesidePlans matches one pod after the other over a socket, first alone and then while plans for gangs
// are made one after the other over the same connection. The goal is that 99 of 100 matches wait at most 20 ms longer.
func BenchmarkMatchBesidePlans(b *testing.B) {
	c, plan := occupied(b, 5000, 50_000, 256)
	small := match.Request{Epoch: plan.Epoch, ID: 2, Now: matchtest.Now, Jobspec: matchtest.Slots("w", 1, matchtest.Cores(1), matchtest.Pods(1))}
	once := func(ctx context.Context) time.Duration {
		began := time.Now()
		if _, err := c.Match(ctx, small); err != nil {
			b.Error(err)
		}
		took := time.Since(began)
		if err := c.Release(ctx, small.Epoch, small.ID); err != nil {
			b.Error(err)
		}
		return took
	}
	var alone, beside []time.Duration
	for range 5000 {
		alone = append(alone, once(b.Context()))
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				beside = append(beside, once(b.Context()))
			}
		}
	}()
	for b.Loop() {
		if _, err := c.Match(b.Context(), plan); err != nil {
			b.Fatal(err)
		}
	}
	close(stop)
	<-done
	slices.Sort(alone)
	slices.Sort(beside)
	b.ReportMetric(percentile(alone, 99), "alone-p99-ms")
	b.ReportMetric(percentile(beside, 99), "p99-ms")
	b.ReportMetric(percentile(alone, 100), "alone-max-ms")
	b.ReportMetric(percentile(beside, 100), "max-ms")
	b.ReportMetric(percentile(beside, 99)-percentile(alone, 99), "wait-ms")
}
