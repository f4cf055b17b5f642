package e2e

import (
	"context"
	"fmt"
	"testing"
)

// Alerts use the scheduler's metrics of libraries, and
// the sidecar's. cmd/controller tests the controller's.
func TestMetricsOfLibrariesAreServed(t *testing.T) {
	s := tell(t)
	for _, name := range []string{
		"process_start_time_seconds", "rest_client_requests_total", `leader_election_master_status{name="kube-scheduler"}`,
		"fluence_sidecar_process_start_time_seconds", "fluence_sidecar_ready",
	} {
		s.eventually("the scheduler tells "+name, func(ctx context.Context) (bool, string) {
			value, err := s.SchedulerMetric(ctx, name)
			return err == nil && value > 0, fmt.Sprint(value, err)
		})
	}
}
