package gauge

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// These are the API server's metrics that count requests.
const (
	answered   = "apiserver_request_total"
	dispatched = "apiserver_flowcontrol_dispatched_requests_total"
	rejected   = "apiserver_flowcontrol_rejected_requests_total"
)

// readTimeout bounds one request for the API server's metrics.
const readTimeout = 30 * time.Second

// Requests are the requests that the API server received, or the difference
// between two such readings. Kinds of requests without any are missing.
type Requests struct {
	// Writes are the requests that change something, by verb, resource and subresource, such
	// as "POST pods/binding". The group follows the resource, except for the core group.
	Writes map[string]float64
	// TooMany is the number of requests answered 429.
	TooMany float64
	// Rejected is the number of requests that flow control refused, by flow schema.
	Rejected map[string]float64
	// Dispatched is the number of requests that flow control let
	// through, by flow schema and, after a slash, priority level.
	Dispatched map[string]float64
}

// ReadRequests reads the metrics of the API server.
func ReadRequests(ctx context.Context, client rest.Interface) (Requests, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	text, err := client.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return Requests{}, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	return parseRequests(text)
}

func parseRequests(text []byte) (Requests, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(linesOf(text, answered, dispatched, rejected)))
	if err != nil {
		return Requests{}, fmt.Errorf("parse the metrics of the API server: %w", err)
	}
	// Both exist after the first request. The metric of refusals exists after the first refusal.
	for _, name := range []string{answered, dispatched} {
		if families[name] == nil {
			return Requests{}, fmt.Errorf("parse the metrics of the API server: there is no %s", name)
		}
	}
	r := Requests{Writes: map[string]float64{}, Rejected: map[string]float64{}, Dispatched: map[string]float64{}}
	each(families[answered], func(label func(string) string, n float64) {
		if label("code") == "429" {
			r.TooMany += n
		}
		switch label("verb") {
		case "GET", "LIST", "WATCH", "CONNECT":
		default:
			r.Writes[writeName(label)] += n
		}
	})
	each(families[dispatched], func(label func(string) string, n float64) {
		r.Dispatched[label("flow_schema")+"/"+label("priority_level")] += n
	})
	each(families[rejected], func(label func(string) string, n float64) {
		r.Rejected[label("flow_schema")] += n
	})
	return r, nil
}

// linesOf returns the samples of some metrics. The text has ten thousand others.
func linesOf(text []byte, names ...string) []byte {
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, _, _ := bytes.Cut(lines.Bytes(), []byte("{"))
		if slices.Contains(names, string(name)) {
			out.Write(lines.Bytes())
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// each calls do for each sample of a metric, which may be nil.
func each(family *dto.MetricFamily, do func(label func(name string) string, value float64)) {
	for _, m := range family.GetMetric() {
		label := func(name string) string {
			for _, l := range m.GetLabel() {
				if l.GetName() == name {
					return l.GetValue()
				}
			}
			return ""
		}
		do(label, m.GetUntyped().GetValue())
	}
}

func writeName(label func(string) string) string {
	name := label("verb") + " " + label("resource")
	if group := label("group"); group != "" {
		name += "." + group
	}
	return strings.TrimSuffix(name+"/"+label("subresource"), "/")
}

// Since returns the requests after an earlier reading.
func (r Requests) Since(before Requests) Requests {
	return Requests{
		Writes:     difference(r.Writes, before.Writes),
		TooMany:    r.TooMany - before.TooMany,
		Rejected:   difference(r.Rejected, before.Rejected),
		Dispatched: difference(r.Dispatched, before.Dispatched),
	}
}

func difference(after, before map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, n := range after {
		if d := n - before[name]; d != 0 {
			out[name] = d
		}
	}
	return out
}
