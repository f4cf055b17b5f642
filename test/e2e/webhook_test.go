package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/test/stack"
)

// These are the labels that the webhook writes.
const (
	groupLabel = "scheduling.x-k8s.io/pod-group"
	sizeLabel  = "fluence.group-size"
	minLabel   = "fluence.group-min"
)

// labelling waits until the API server applies the
// webhook's labels to new objects, or no longer does.
func (s *story) labelling(want bool) {
	s.Helper()
	s.eventually(fmt.Sprintf("labels of the webhook: %t", want), func(ctx context.Context) (bool, string) {
		out, _, err := s.KubectlInput(ctx, strings.NewReader(job("probe", 1, "1")), "create", "-n", s.ns, "--dry-run=server", "-o", "yaml", "-f", "-")
		return err == nil && strings.Contains(out, sizeLabel) == want, fmt.Sprintf("%s, error %v", out, err)
	})
}

// everyKind runs a group of two for every kind of object. The last one does not fit at first.
func (s *story) everyKind() {
	s.Helper()
	s.nodes("n", 1, "7")
	s.applyText(job("work", 2, "1"))
	s.applyText(deployment("service", 2, "1"))
	s.applyText(statefulSet("ranks", 2, "1"))
	s.running("", 6)
	s.apply("cronjob.yaml")
	s.kubectl("create", "job", "--from=cronjob/nightly", "now", "-n", s.ns)
	s.refused("job-now-", "NoRoom", "needs 2 pods", "room for 1")
	s.noneOnNodes("now-")
	s.nodes("late", 1, "1")
	s.running("now-", 2)
	for prefix, least := range map[string]int32{"job-work-": 2, "deployment-service-": 1, "statefulset-ranks-": 2, "job-now-": 2} {
		s.placed(prefix)
		s.minimum(prefix, least)
	}
}

// Flow 19 of the lessons of earlier systems: the webhook's
// labels are only hints, and everything works without them.
func TestAllIsTheSameWithoutTheWebhook(t *testing.T) {
	s := tell(t)
	s.restart(stack.Controller, func(c *stack.Config) { c.WithoutWebhook = true })
	defer s.restart(stack.Controller, func(c *stack.Config) { c.WithoutWebhook = false })
	s.labelling(false)
	s.everyKind()
	for _, p := range s.pods("") {
		for _, key := range []string{groupLabel, sizeLabel, minLabel} {
			if v, ok := p.Labels[key]; ok {
				t.Errorf("pod %s has the label %s=%s without a webhook", p.Name, key, v)
			}
		}
	}
}

func TestTheWebhookLabelsPodsWithTheirGroup(t *testing.T) {
	s := tell(t)
	s.labelling(true)
	s.everyKind()
	groups := s.groupNames()
	for prefix, want := range map[string]struct{ group, size, least string }{
		"work-":    {"job-work-", "2", "2"},
		"service-": {"deployment-service-", "2", "1"},
		"ranks-":   {"statefulset-ranks-", "2", "2"},
		"now-":     {"job-now-", "2", "2"},
	} {
		for _, p := range s.pods(prefix) {
			if v := p.Labels[groupLabel]; !strings.HasPrefix(v, want.group) || !slices.Contains(groups, v) {
				t.Errorf("pod %s is labelled with group %q, want %s* of %v", p.Name, v, want.group, groups)
			}
			if size, least := p.Labels[sizeLabel], p.Labels[minLabel]; size != want.size || least != want.least {
				t.Errorf("pod %s is labelled with size %q and minimum %q, want %s and %s", p.Name, size, least, want.size, want.least)
			}
		}
	}
}

// The webhook leaves alone objects that do not request Fluence, and objects in kube-system.
func TestTheWebhookLeavesOthersAlone(t *testing.T) {
	s := tell(t)
	s.labelling(true)
	s.nodes("n", 1, "8")
	s.applyText(strings.Replace(job("stock", 1, "1"), "schedulerName: fluence", "schedulerName: default-scheduler", 1))
	s.running("stock-", 1)
	for _, p := range s.pods("stock-") {
		if _, ok := p.Labels[groupLabel]; ok || p.Labels[sizeLabel] != "" {
			t.Errorf("pod %s of another scheduler has labels %v", p.Name, p.Labels)
		}
	}
	out, _, err := s.KubectlInput(t.Context(), strings.NewReader(job("probe", 1, "1")), "create", "-n", "kube-system", "--dry-run=server", "-o", "yaml", "-f", "-")
	if err != nil || strings.Contains(out, sizeLabel) {
		t.Errorf("a Job in kube-system: error %v\n%s", err, out)
	}
}
