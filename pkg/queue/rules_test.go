package queue_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/queue/model"
	"github.com/flux-k8s/fluence/test/trials"
)

// failed fails the test if something is wrong in a script, and says what happened.
func failed(t *testing.T, seed uint64, s *script) {
	t.Helper()
	if len(s.wrong) > 0 {
		t.Fatalf("seed %d: %s\n%s", seed, strings.Join(s.wrong, "\n"), strings.Join(s.log, "\n"))
	}
}

// The core decides as a model does that remembers nothing of refusals, and asks for every job again and again. The rules of a
// world hold too.
func TestTheCoreDecidesAsTheModel(t *testing.T) {
	for seed := range trials.Seeds(300) {
		s := newScript(seed, faults{})
		s.play(60)
		failed(t, seed, s)
	}
}

// No limit of a queue is exceeded, whatever happens.
func TestNoLimitIsExceeded(t *testing.T) {
	for seed := range trials.Seeds(100) {
		s := newScript(seed, faults{})
		s.limit()
		s.play(60)
		failed(t, seed, s)
	}
}

// Passes end early, and things happen in the midst of a round. The rules hold all the same, and nobody who may start is forgotten.
func TestPassesThatAreInterruptedForgetNobody(t *testing.T) {
	for seed := range trials.Seeds(200) {
		s := newScript(seed, faults{})
		s.yields, s.interrupted = true, true
		s.play(80)
		failed(t, seed, s)
	}
}

// Each rule finds a fault that was made on purpose.
func TestTheRulesFindFaults(t *testing.T) {
	busyIsNever := func(_ queue.Ask, a *queue.Answer) {
		if a.Verdict == queue.Busy {
			a.Verdict = queue.Never
		}
	}
	cases := map[string]struct {
		rule   string
		faults faults
	}{
		"limits are not known":                  {"Limit", faults{queue: func(q *queue.Queue) { q.Limits = queue.Limits{} }}},
		"one limit is not known":                {"Limit", faults{queue: func(q *queue.Queue) { q.Limits.NamespaceRunning = 0 }}},
		"a limit is one too high":               {"Limit", faults{queue: func(q *queue.Queue) { q.Limits.Running++ }}},
		"a job asks for less than it takes":     {"Limit", faults{job: func(j *queue.Job) { j.Requests = nil }}},
		"held jobs are not known":               {"Held", faults{job: func(j *queue.Job) { j.Held = false }}},
		"stopped queues are not known":          {"Stopped", faults{queue: func(q *queue.Queue) { q.Started = true }}},
		"the priority is not known":             {"Passed", faults{job: func(j *queue.Job) { j.Priority = 0 }}},
		"the creation is not known":             {"Passed", faults{job: func(j *queue.Job) { j.Created = time.Time{} }}},
		"all queues let jobs pass":              {"Passed", faults{queue: func(q *queue.Queue) { q.Policy = queue.EASY }}},
		"an ask ignores all promises":           {"Later", faults{ask: func(a *queue.Ask, w *world) { a.Ignore = slices.Collect(maps.Keys(w.cluster.Promised)) }}},
		"a job says less time than it runs":     {"Later", faults{job: func(j *queue.Job) { j.Duration = time.Second }}},
		"an ask ignores no promise":             {"Model", faults{ask: func(a *queue.Ask, _ *world) { a.Ignore = nil }}},
		"an ask avoids nothing":                 {"Model", faults{ask: func(a *queue.Ask, _ *world) { a.Avoid = nil }}},
		"nobody says that there is room":        {"Model", faults{deaf: true}},
		"nobody says so, and someone waits":     {"Idle", faults{deaf: true}},
		"jobs of any size have one class":       {"Idle", faults{job: func(j *queue.Job) { j.Class = model.Class(j.Key.Namespace[1:], 4, false) }}},
		"what is busy is never":                 {"Model", faults{answer: busyIsNever}},
		"a probe refuses all":                   {"Idle", faults{probe: func(a *queue.Answer) { a.Verdict = queue.Busy }}},
		"what cannot be kept is kept":           {"Model", faults{restore: func(bool) bool { return true }}},
		"what can be kept is not":               {"Moved", faults{restore: func(bool) bool { return false }}},
		"the queues have one order":             {"Model", faults{queue: func(q *queue.Queue) { q.Priority = 0 }}},
		"the partitions have the same promises": {"Model", faults{queue: func(q *queue.Queue) { q.Partition = q.Name }}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := map[string]int{}
			for seed := range uint64(2000) {
				s := newScript(seed, tc.faults)
				if tc.rule == "Limit" {
					s.limit()
				}
				s.play(60)
				if slices.ContainsFunc(s.wrong, func(w string) bool { return strings.HasPrefix(w, tc.rule+":") }) {
					t.Logf("found in script %d", seed)
					return
				}
				for _, w := range s.wrong {
					rule, _, _ := strings.Cut(w, ":")
					seen[rule]++
				}
			}
			t.Errorf("2000 scripts break %v, want %s", seen, tc.rule)
		})
	}
}
