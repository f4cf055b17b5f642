package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// A shelf serves Queues and FluxJobs as the API server does to a watch that asks for all objects first (KEP-3157), from memory. It
// takes writes without carrying them out, and tells of the first one that has a promise.
type shelf struct {
	queues, fluxJobs []byte
	promised         chan struct{}
	once             sync.Once
}

// eventsOf returns the events of a watch that begins with objects.
func eventsOf(b *testing.B, n int, object func(i int) any) []byte {
	b.Helper()
	var all bytes.Buffer
	out := json.NewEncoder(&all)
	send := func(kind string, of any) {
		if err := out.Encode(map[string]any{"type": kind, "object": of}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range n {
		send("ADDED", object(i))
	}
	last := object(0)
	text, err := json.Marshal(last)
	if err != nil {
		b.Fatal(err)
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		b.Fatal(err)
	}
	send("BOOKMARK", map[string]any{
		"apiVersion": kind.APIVersion, "kind": kind.Kind,
		"metadata": map[string]any{"resourceVersion": "1000000", "annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"}},
	})
	return all.Bytes()
}

// ServeHTTP implements http.Handler.
func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	kind, events := "FluxJobList", s.fluxJobs
	if strings.HasSuffix(r.URL.Path, "/"+v1alpha1.Queues.Resource) {
		kind, events = "QueueList", s.queues
	}
	switch {
	case r.Method == http.MethodPatch:
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err == nil && bytes.Contains(body.Bytes(), []byte(`"promise":`)) {
			s.once.Do(func() { close(s.promised) })
		}
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`, http.StatusConflict)
	case r.URL.Query().Get("watch") != "":
		_, _ = w.Write(events)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.URL.Query().Get("limit") == "1":
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1000000"},"items":[]}`, v1alpha1.GroupVersion, kind)
	default:
		http.Error(w, "only watches begin", http.StatusBadRequest)
	}
}

// BenchmarkColdStart starts a Driver with 100,000 FluxJobs that wait and 10,000 that run, on 10,000 nodes, with the engine at the other
// end of a unix socket. It measures until all are read (s/read), from then on until the first pass has ended and the promise of the
// first job arrives at the API server (s/first-pass), and the processor time of both with the engine and the stand-in for
// the API server (cpu-s). The goal is 5 s for both. The time in which the graph is loaded is left out. The objects are as
// large as those of a cluster. The stand-in has them in memory, so the API server's own time is left out too. heap-MB is the
// memory that the jobs take afterwards. Its goal is 200.
func BenchmarkColdStart(b *testing.B) {
	for b.Loop() {
		coldStart(b)
	}
	b.ReportMetric(0, "ns/op")
}

func coldStart(b *testing.B) {
	c := &crowd{rig: newRig(b, 0), texts: requests{}, rng: rand.New(rand.NewPCG(1, 1))}
	typed := func(fj *v1alpha1.FluxJob) any {
		fj.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kindFluxJob}
		return fj
	}
	queue := easy("batch")
	queue.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kindQueue}
	s := &shelf{
		promised: make(chan struct{}),
		queues:   eventsOf(b, 1, func(int) any { return queue }),
		fluxJobs: eventsOf(b, *benchNodes+*benchJobs, func(i int) any {
			if i < *benchNodes {
				return typed(c.runs(i))
			}
			return typed(c.next())
		}),
	}
	server := httptest.NewServer(s)
	defer server.Close()
	api, err := v1alpha1.RESTClientFor(&rest.Config{Host: server.URL, QPS: -1})
	c.must(err)
	c.engine = overSocket(b)
	c.build()
	c.load(*benchNodes)
	cfg := c.d.cfg
	cfg.API, cfg.Now = api, time.Now
	d := newDriver(cfg, restAPI{api}, c.d.writer.metrics)
	c.d = d
	before := liveHeap()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	began, used := time.Now(), processorTime()
	var known time.Time
	var usedByThen time.Duration
	go func() {
		defer close(ended)
		d.Run(ctx, func() {
			b.ReportMetric(time.Since(began).Seconds(), "s/read")
			b.ReportMetric((processorTime() - used).Seconds(), "cpu-s/read")
			c.reload()
			known, usedByThen = time.Now(), processorTime()
		})
	}()
	<-s.promised
	b.ReportMetric(time.Since(known).Seconds(), "s/first-pass")
	b.ReportMetric((processorTime() - usedByThen).Seconds(), "cpu-s/first-pass")
	b.ReportMetric(float64(liveHeap()-before)/1e6, "heap-MB")
	cancel()
	<-ended
}
