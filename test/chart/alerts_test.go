package chart_test

import (
	"fmt"
	"strings"
	"testing"
)

// An administrator who runs one scheduler gets no alert that there is no other.
func TestOneSchedulerHasNoAlertForStandbys(t *testing.T) {
	for replicas, want := range map[int]bool{1: false, 2: true} {
		got, err := template(t, "--values", "testdata/values/everything.yaml", "--set", fmt.Sprintf("replicas=%d", replicas))
		if err != nil {
			t.Fatal(err)
		}
		if there := strings.Contains(got, "alert: FluenceNoStandby"); there != want {
			t.Errorf("with %d schedulers FluenceNoStandby is there: %t, want %t", replicas, there, want)
		}
		if !strings.Contains(got, "alert: FluenceNoLeader") {
			t.Errorf("with %d schedulers other alerts are missing", replicas)
		}
	}
}
