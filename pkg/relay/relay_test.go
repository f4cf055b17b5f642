package relay

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

const good = `# HELP other_jobs Jobs.
# TYPE other_jobs gauge
other_jobs 2
# HELP other_seconds Time.
# TYPE other_seconds histogram
other_seconds_bucket{outcome="matched",le="1"} 1
other_seconds_bucket{outcome="matched",le="+Inf"} 2
other_seconds_sum{outcome="matched"} 3
other_seconds_count{outcome="matched"} 2
`

// gathered is the output of a registry that has the relay and one other metric.
func gathered(t *testing.T, r *Relay) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "own_total", Help: "Own."}, func() float64 { return 1 }))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

const own = "# HELP own_total Own.\n# TYPE own_total counter\nown_total 1\n"

// The other process answers, is silent, sends something that is no answer,
// and answers again. The metrics of this process are served all the time.
func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []func(context.Context) ([]byte, error){
			func(context.Context) ([]byte, error) { return []byte(good), nil },
			func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, errors.New("silent") },
			func(context.Context) ([]byte, error) { return []byte("other_jobs many\n"), nil },
			func(context.Context) ([]byte, error) { return []byte(good), nil },
			func(context.Context) ([]byte, error) { return nil, errors.New("gone") },
		}
		want := []string{good + own, own, own, good + own, own}
		r := New("other_")
		if got := gathered(t, r); got != own {
			t.Errorf("before the first answer it serves\n%s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Int32
		var told []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx, func(ctx context.Context) ([]byte, error) { return answers[asked.Add(1)-1](ctx) },
				func(err error) { told = append(told, err.Error()) })
		}()
		for i := range answers {
			time.Sleep(askTimeout + time.Millisecond)
			synctest.Wait()
			if int(asked.Load()) != i+1 {
				t.Fatalf("asked %d times, want %d", asked.Load(), i+1)
			}
			if got := gathered(t, r); got != want[i] {
				t.Errorf("after answer %d it serves\n%swant\n%s", i, got, want[i])
			}
			time.Sleep(askEvery - askTimeout - time.Millisecond - time.Nanosecond)
			if i < len(answers)-1 {
				time.Sleep(time.Nanosecond)
			}
		}
		cancel()
		<-ended
		if len(told) != 2 || told[0] != "silent" || told[1] != "gone" {
			t.Errorf("told of %q, want the first failure of each row", told)
		}
	})
}

// An answer is served whole or not at all.
func TestRead(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"metrics":                         {text: good},
		"nothing":                         {},
		"a name of this process":          {text: "# TYPE own_total counter\nown_total 3\n", want: `"own_total": the name does not begin with "other_"`},
		"no metrics":                      {text: "<html>", want: "read metrics"},
		"one series twice":                {text: "# TYPE other_jobs gauge\nother_jobs 1\nother_jobs 2\n", want: "try the metrics"},
		"a metric without a type":         {text: "other_jobs 1\n", want: "without a type"},
		"a text that is too long":         {text: "# " + strings.Repeat("x", maxText), want: "at most 262144 are allowed"},
		"more series than anybody counts": {text: "# TYPE other_jobs gauge\n" + strings.Repeat("other_jobs 1\n", maxSeries+1), want: "2001 series, of at most 2000"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := New("other_").read([]byte(tc.text))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("it says %v, want %q", err, tc.want)
			}
		})
	}
}
