package stack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// scrapeTimeout bounds one request for a process's metrics.
const scrapeTimeout = 5 * time.Second

// SchedulerMetric returns the sum of the scheduler's samples of a name, whatever their
// labels. For a name with all labels it returns that sample. It returns 0 if there is none.
func (s *Stack) SchedulerMetric(ctx context.Context, name string) (float64, error) {
	return s.Metric(ctx, Scheduler, name)
}

// SidecarMetric returns the same for the sidecar. It needs Config.SidecarMetrics.
func (s *Stack) SidecarMetric(ctx context.Context, name string) (float64, error) {
	return s.Metric(ctx, Sidecar, name)
}

// Metric returns the same for any scheduler or sidecar of the stack, by the name of its process.
func (s *Stack) Metric(ctx context.Context, process, name string) (float64, error) {
	i, err := s.instanceOf(process)
	if err != nil {
		return 0, err
	}
	if process == i.sidecar {
		return sample(ctx, http.DefaultClient, "http://"+i.metrics+"/metrics", name)
	}
	client := s.HTTPClient()
	defer client.CloseIdleConnections()
	return sample(ctx, client, fmt.Sprintf("https://127.0.0.1:%d/metrics", i.schedulerPort), name)
}

// ControllerMetricsURL returns the address of the controller's
// metrics. A client needs the right to read them.
func (s *Stack) ControllerMetricsURL() string { return "https://" + s.controllerMetrics + "/metrics" }

func sample(ctx context.Context, client *http.Client, url, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, fmt.Errorf("read metric %s: %w", name, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read metric %s: %w", name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("read metric %s: %s answers %s", name, url, resp.Status)
	}
	return sum(resp.Body, name)
}

// sum returns the sum of the samples of a name in the text format of Prometheus.
func sum(text io.Reader, name string) (float64, error) {
	var total float64
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value := rest[strings.LastIndexByte(rest, ' ')+1:]
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		total += v
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	return total, nil
}
