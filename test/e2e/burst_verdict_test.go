package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/stack"
)

// mostWrites is how often the PodGroup of a group that need not wait may be written until the
// group runs. Each StatusDelay in which pods with nodes do not run yet allows one more write.
const mostWrites = 4

// verdict logs the statistics of the burst. It fails if a group was not placed as a whole.
func (w *burstWatch) verdict(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, why := range w.failed[:min(5, len(w.failed))] {
		t.Errorf("one of %d pods that failed: %s", len(w.failed), why)
	}
	for _, why := range w.inPart[:min(5, len(w.inPart))] {
		t.Errorf("one of %d groups that started in part: %s", len(w.inPart), why)
	}
	again := 0
	for _, r := range w.podGroups {
		if r.again {
			again++
		}
	}
	t.Logf("%d of %d PodGroups were made again while their pods went", again, len(w.podGroups))
	bound, last := 0, w.start
	var together []time.Duration
	for _, name := range slices.Sorted(maps.Keys(w.records)) {
		g := w.records[name]
		bound += len(g.bound)
		if g.lastBound.After(last) {
			last = g.lastBound
		}
		if g.early != "" {
			continue
		}
		if len(g.bound) != g.size {
			t.Errorf("%s %s of %d: %d pods were bound", g.kind, g.name, g.size, len(g.bound))
		}
		if !g.all.IsZero() && g.minimum() > 1 {
			together = append(together, g.all.Sub(g.firstBound))
		}
	}
	took := last.Sub(w.start).Seconds()
	t.Logf("%d pods were bound in %.0fs: %.0f a second", bound, took, float64(bound)/took)
	if len(together) > 0 {
		slices.Sort(together)
		t.Logf("from the first to the last of %d minimums: median %s, 99%% within %s, at most %s", len(together),
			together[len(together)/2].Round(time.Millisecond), together[len(together)*99/100].Round(time.Millisecond), together[len(together)-1].Round(time.Millisecond))
	}
}

// writesUntilRunning returns the writes of PodGroups in the audit log, by name, from their creation: the
// scheduler's until they were seen to be placed, and others until they were seen to run. A group may
// be over before it is said to be placed. The caller holds the lock.
func (s *story) writesUntilRunning(w *burstWatch) map[string][]string {
	s.Helper()
	writes := map[string][]string{}
	for ev, err := range s.AuditEvents() {
		if err != nil {
			s.Fatal(err)
		}
		ref := ev.ObjectRef
		if ref == nil || ref.Resource != scheduling.PodGroups.Resource || ref.Namespace != s.ns || !slices.Contains([]string{"create", "update", "patch"}, ev.Verb) {
			continue
		}
		r := w.podGroups[ref.Name]
		if r == nil || r.running.IsZero() {
			continue
		}
		_, account, _ := strings.Cut(ev.User.Username, "fluence-system:")
		until := r.running
		if account == stack.Scheduler {
			until = r.placed
		}
		if ev.Received.After(until) {
			continue
		}
		writes[ref.Name] = append(writes[ref.Name], fmt.Sprintf("%.3fs: %s %s %s/%s: %d", ev.Received.Sub(w.start).Seconds(), account, ev.Verb, ref.Resource, ref.Subresource, ev.ResponseStatus.Code))
	}
	return writes
}

// countWrites logs how often PodGroups were written. It fails if the
// PodGroup of a group that did not have to wait was written too often.
func (s *story) countWrites(w *burstWatch) {
	s.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	atOnce, waited, reasons := map[int]int{}, map[int]int{}, map[string]int{}
	var tooMany []string
	for name, writes := range s.writesUntilRunning(w) {
		r, n := w.podGroups[name], len(writes)
		for reason := range r.refusals {
			reasons[reason]++
		}
		if len(r.refusals) > 0 {
			waited[n]++
			continue
		}
		begins := r.running.Sub(w.groupOf(name).firstBound)
		delays := int(begins / podgroup.DefaultConfig().StatusDelay)
		if begins > podgroup.DefaultConfig().CountDelay {
			delays++ // the first numbers
		}
		if atOnce[n]++; n > mostWrites+delays {
			tooMany = append(tooMany, fmt.Sprintf("%s, %d times:\n%s\nwhich was seen as\n%s", name, n, strings.Join(writes, "\n"), strings.Join(r.states, "\n")))
		}
	}
	if n := len(tooMany); n > 0 {
		s.Errorf("%d PodGroups that were never refused were written more than %d times, and once for each %s that their pods were about to run, such as %s", n, mostWrites, podgroup.DefaultConfig().StatusDelay, strings.Join(tooMany[:min(3, n)], "\n"))
	}
	s.Logf("writes of PodGroups whose groups did not have to wait: %v", atOnce)
	s.Logf("writes of those whose groups had to, for %v: %v", reasons, waited)
	if n := total(atOnce); n < len(w.groups)/100 {
		s.Errorf("only %d groups did not have to wait: there is too little to count", n)
	}
	if reasons["NoRoom"] == 0 {
		s.Error("no group had to wait for room: there are too many nodes")
	}
}

func total[K cmp.Ordered](counts map[K]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
