package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/statusmap"
	"github.com/flux-k8s/fluence/test/stack"
)

// forgetHandovers removes the records of earlier handovers, which would delay the next one.
func (s *story) forgetHandovers() {
	s.Helper()
	patch := fmt.Sprintf(`{"data":{%q:null}}`, statusmap.HandoverKey)
	if out, _, err := s.Kubectl(context.WithoutCancel(s.Context()), "patch", "configmap", statusmap.Name, "-n", stack.Namespace, "--type=merge", "-p", patch); err != nil {
		s.Logf("nothing is written down of a handover: %v %s", err, out)
	}
}

// words returns what schedulers wrote beside the figures, by its key.
func (s *story) words(ctx context.Context) map[string]string {
	s.Helper()
	cm, err := s.Client().CoreV1().ConfigMaps(stack.Namespace).Get(ctx, statusmap.Name, metav1.GetOptions{})
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	delete(cm.Data, "figures.json")
	return cm.Data
}

// standbySays waits until a standby reports that its matcher answers, or that it does not.
func (s *story) standbySays(answers bool) {
	s.Helper()
	want := fmt.Sprintf(`"matcherAnswers":%t`, answers)
	began := time.Now().Truncate(time.Second)
	s.eventually("a standby says "+want, func(ctx context.Context) (bool, string) {
		words := s.words(ctx)
		for key, text := range words {
			if at := updated(text); key != statusmap.HandoverKey && strings.Contains(text, want) && !at.Before(began) {
				return true, ""
			}
		}
		return false, fmt.Sprint(words)
	})
}

// updated returns when a text was written.
func updated(text string) time.Time {
	_, text, _ = strings.Cut(text, `"updated":"`)
	text, _, _ = strings.Cut(text, `"`)
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// The leader's sidecar is stopped, and the standby's is well. Half
// a minute later the standby leads and places the waiting groups.
func TestALeaderWhoseMatcherIsSilentGivesUpItsLease(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "4")
	s.forgetHandovers()
	s.leads(stack.Scheduler)
	s.standby()
	s.Cleanup(s.forgetHandovers)
	s.standbySays(true)
	s.eventually("the leader has read of the standby", func(ctx context.Context) (bool, string) {
		n, err := s.SchedulerMetric(ctx, "fluence_healthy_standbys")
		return n == 1, fmt.Sprint(n, err)
	})
	s.applyText(crew("before", 4))
	s.running("before-", 4)

	leader, began := s.Process(stack.Scheduler), time.Now()
	s.stopSidecar()
	s.applyText(crew("comes", 4))
	s.refused("comes", "MatcherUnavailable", "the matcher does not answer")
	s.within(2*time.Minute, "the leader ends", 5*time.Millisecond, func(context.Context) (bool, string) {
		select {
		case <-leader.Done():
			return true, ""
		default:
			return false, "it runs"
		}
	})
	took := time.Since(began)
	if took < statusmap.MaxSilence {
		s.Errorf("the lease was given up after %s", took)
	}
	lease, err := s.SchedulerLease(s.Context())
	if err != nil || lease.Holder == "" {
		s.Errorf("the lease is %+v, %v: want it taken by the standby before the leader ended", lease, err)
	}
	if code := leader.State().ExitCode(); code != 1 {
		s.Errorf("the leader ended with %d", code)
	}
	s.leads(stack.StandbyScheduler)
	s.running("comes-", 4)
	s.Logf("the lease was given up %s after the sidecar was stopped, and the group ran %s after that", took.Round(time.Millisecond), (time.Since(began) - took).Round(time.Millisecond))
	if n := strings.Count(s.schedulerLog(), "Giving up the lease: the matcher is silent"); n != 1 {
		s.Errorf("the log says %d times why", n)
	}

	// The first scheduler is started again, as a standby, and
	// reports its state. The leader's report has the handover.
	s.start(stack.Scheduler)
	s.standbySays(false)
	s.eventually("the new leader tells of the handover", func(ctx context.Context) (bool, string) {
		at, err := s.Metric(ctx, stack.StandbyScheduler, "fluence_last_handover_timestamp_seconds")
		return err == nil && at >= float64(began.Unix()), fmt.Sprint(at, err)
	})
	s.leads(stack.StandbyScheduler)
	s.resume(stack.Sidecar)
	s.standbySays(true)
	s.noneRejected()
	s.boundOnce()
}
