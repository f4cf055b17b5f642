package gauge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const metrics = `# HELP apiserver_request_total Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 40
apiserver_request_total{code="429",component="apiserver",group="",resource="pods",scope="resource",subresource="binding",verb="POST",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",group="scheduling.x-k8s.io",resource="podgroups",scope="resource",subresource="status",verb="APPLY",version="v1alpha1"} 5
apiserver_request_total{code="200",component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 9
apiserver_request_total{code="429",component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 1
# TYPE apiserver_request_total_other counter
apiserver_request_total_other{code="429",verb="POST"} 1000
# TYPE apiserver_flowcontrol_dispatched_requests_total counter
apiserver_flowcontrol_dispatched_requests_total{flow_schema="service-accounts",priority_level="workload-low"} 70
apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"} 7
# TYPE apiserver_flowcontrol_rejected_requests_total counter
apiserver_flowcontrol_rejected_requests_total{flow_schema="service-accounts",priority_level="workload-low",reason="queue-full"} 2
apiserver_flowcontrol_rejected_requests_total{flow_schema="service-accounts",priority_level="workload-low",reason="time-out"} 1
`

func TestParseRequests(t *testing.T) {
	got, err := parseRequests([]byte(metrics))
	if err != nil {
		t.Fatal(err)
	}
	want := Requests{
		Writes:     map[string]float64{"POST pods/binding": 42, "APPLY podgroups.scheduling.x-k8s.io/status": 5},
		TooMany:    3,
		Rejected:   map[string]float64{"service-accounts": 3},
		Dispatched: map[string]float64{"service-accounts/workload-low": 70, "exempt/exempt": 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseRequests() (-want +got):\n%s", diff)
	}
}

// A missing metric does not count as 0.
func TestMetricsThatAreNotThere(t *testing.T) {
	for _, name := range []string{answered, dispatched} {
		_, err := parseRequests([]byte(strings.ReplaceAll(metrics, name+"{", "other{")))
		if err == nil || !strings.HasSuffix(err.Error(), "there is no "+name) {
			t.Errorf("parseRequests() without %s = %v", name, err)
		}
	}
	if _, err := parseRequests([]byte(strings.ReplaceAll(metrics, rejected+"{", "other{"))); err != nil {
		t.Errorf("parseRequests() where nothing was refused = %v", err)
	}
}

func TestRequestsSinceAnEarlierReading(t *testing.T) {
	before := Requests{
		Writes:     map[string]float64{"POST pods": 10, "POST events": 1},
		TooMany:    2,
		Dispatched: map[string]float64{"a/b": 1},
	}
	after := Requests{
		Writes:     map[string]float64{"POST pods": 10, "POST events": 4, "POST pods/binding": 6},
		TooMany:    3,
		Rejected:   map[string]float64{"a": 1},
		Dispatched: map[string]float64{"a/b": 8},
	}
	want := Requests{
		Writes:     map[string]float64{"POST events": 3, "POST pods/binding": 6},
		TooMany:    1,
		Rejected:   map[string]float64{"a": 1},
		Dispatched: map[string]float64{"a/b": 7},
	}
	if diff := cmp.Diff(want, after.Since(before)); diff != "" {
		t.Errorf("Since() (-want +got):\n%s", diff)
	}
}
