package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/stack"
)

// A stir is the work of Fluence so far.
type stir struct {
	// matches is the sidecar's number of matches. attempts is the number of scheduling
	// cycles. events is the number of events in the namespace, with repetitions.
	matches, attempts float64
	events            int
}

func (s *story) stir(ctx context.Context) (stir, error) {
	var now stir
	var err error
	if now.matches, err = s.SidecarMetric(ctx, "fluence_sidecar_match_duration_seconds_count"); err != nil {
		return stir{}, err
	}
	if now.attempts, err = s.SchedulerMetric(ctx, "scheduler_schedule_attempts_total"); err != nil {
		return stir{}, err
	}
	list, err := s.Client().EventsV1().Events(s.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return stir{}, err
	}
	for _, e := range list.Items {
		now.events++
		if e.Series != nil {
			now.events += int(e.Series.Count)
		}
	}
	return now, nil
}

// writes returns what Fluence's accounts wrote since a
// time, in the story's namespace or outside of namespaces.
func (s *story) writes(since time.Time) []string {
	s.Helper()
	var writes []string
	for ev, err := range s.AuditEvents() {
		if err != nil {
			s.Fatal(err)
		}
		account, ours := strings.CutPrefix(ev.User.Username, "system:serviceaccount:"+stack.Namespace+":")
		reads := slices.Contains([]string{"get", "list", "watch"}, ev.Verb)
		if !ours || reads || ev.ObjectRef == nil || ev.Received.Before(since) {
			continue
		}
		if where := ev.ObjectRef.Namespace; where != s.ns && where != "" {
			continue // leases, and leftovers of earlier stories
		}
		writes = append(writes, fmt.Sprintf("%s: %s %s", account, ev.Verb, ev.RequestURI))
	}
	return writes
}

// renewals waits until the scheduler has renewed its lease n times, which it does twice a second.
func (s *story) renewals(n int) {
	s.Helper()
	var last time.Time
	seen := -1
	s.soon(fmt.Sprintf("%d renewals of the lease", n), 100*time.Millisecond, func(ctx context.Context) (bool, string) {
		lease, err := s.SchedulerLease(ctx)
		if err == nil && lease.Expires.After(last) {
			last = lease.Expires
			seen++
		}
		return seen >= n, fmt.Sprintf("%d, error %v", seen, err)
	})
}

// Flow 16 of the lessons of earlier systems: two hundred groups without
// room cost nothing while nothing happens that could help them. A group
// that never fits is ahead of them all, and keeps none from starting.
func TestTwoHundredWaitingGroupsCostNothingAtRest(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "4")
	s.applyText(crew("holds", 8))
	s.running("holds-", 8)
	s.applyText(strings.ReplaceAll(crew("never", 9), "spec:\n", "spec:\n  priorityClassName: system-cluster-critical\n"))
	s.refused("never", "NeverFits", "needs 9 pods", "could hold 8")
	const groups = 200
	s.forEach(groups, s.createInBurst)
	s.soon("all are refused", 500*time.Millisecond, func(ctx context.Context) (bool, string) {
		n := s.refusedFor(ctx, "statefulset-w", "NoRoom")
		return n == groups, fmt.Sprintf("%d are", n)
	})
	s.soon("all pods that wait for room say so", 500*time.Millisecond, func(ctx context.Context) (bool, string) {
		n := s.silent(ctx)
		return n == 0, fmt.Sprintf("%d do not", n)
	})
	before := s.settled()
	rest := time.Now()
	for i := range 5 {
		// A node's heartbeat does not help any group.
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, rest.Add(time.Duration(i)*time.Second).UTC().Format(time.RFC3339))
		if _, err := s.Client().CoreV1().Nodes().Patch(t.Context(), "n-0", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		s.renewals(2)
	}
	after, err := s.stir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after != before {
		t.Errorf("after %s at rest: %+v, before: %+v, want the same", time.Since(rest), after, before)
	}
	if w := s.writes(rest); len(w) > 0 {
		t.Errorf("%d writes at rest, such as %q", len(w), w[0])
	}
	// Free room activates the groups: as many start as fit.
	s.dropCrew("holds", 8)
	s.running("w", 8)
	s.soon("the others wait again", 500*time.Millisecond, func(ctx context.Context) (bool, string) {
		n := s.refusedFor(ctx, "statefulset-w", "NoRoom")
		return n == groups-4, fmt.Sprintf("%d do", n)
	})
	s.noneOnNodes("never-")
	s.forEach(groups, s.deleteInBurst)
	if err := s.Client().CoreV1().Pods(s.ns).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

// silent returns the number of pods without a node that give no reason.
func (s *story) silent(ctx context.Context) int {
	pods, err := s.Client().CoreV1().Pods(s.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return -1
	}
	n := 0
	for _, p := range pods.Items {
		if p.Spec.NodeName == "" && !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }) {
			n++
		}
	}
	return n
}

// forEach creates or deletes n groups of two, several at a time.
func (s *story) forEach(n int, do func(context.Context, *burstGroup) error) {
	s.Helper()
	clients, ctx := errgroup.WithContext(s.Context())
	clients.SetLimit(burstClients)
	for i := range n {
		clients.Go(func() error { return do(ctx, &burstGroup{name: fmt.Sprintf("w%03d", i), kind: "StatefulSet", size: 2}) })
	}
	if err := clients.Wait(); err != nil {
		s.Fatal(err)
	}
}

// refusedFor returns the number of PodGroups with a name prefix that are refused for a reason.
func (s *story) refusedFor(ctx context.Context, prefix, reason string) int {
	s.Helper()
	groups, err := s.PodGroups(ctx, s.ns)
	if err != nil {
		return -1
	}
	n := 0
	for _, g := range groups {
		for _, c := range g.Status.Conditions {
			if strings.HasPrefix(g.Name, prefix) && c.Type == "Scheduled" && c.Status == metav1.ConditionFalse && c.Reason == reason {
				n++
			}
		}
	}
	return n
}

// settled waits until Fluence has done nothing over some renewals of the lease.
func (s *story) settled() stir {
	s.Helper()
	var last stir
	s.soon("nothing stirs", 10*time.Millisecond, func(ctx context.Context) (bool, string) {
		before := last
		var err error
		last, err = s.stir(ctx)
		if err == nil && last == before {
			return true, ""
		}
		s.renewals(3)
		return false, fmt.Sprintf("%+v, error %v", last, err)
	})
	return last
}

// Flow 17 of the lessons of earlier systems: two groups that fit alone, but not together, come
// with their members interleaved, round after round. Meanwhile Fluence's processes are killed.
// One group starts as a whole, the other when the first has gone. They never both have a part.
func TestTwoGroupsThatEachFitAloneNeverShare(t *testing.T) {
	s := tell(t)
	s.gated(false)
	s.nodes("n", 2, "4")
	const size = 8
	rounds := [][]string{nil, {stack.Scheduler}, {stack.Sidecar}, {stack.Scheduler, stack.Sidecar}, {stack.Scheduler}, nil}
	for round, killed := range rounds {
		a, b := fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)
		of := map[string][]string{}
		for _, name := range []string{a, b} {
			of[name] = strings.SplitAfter(crew(name, size), "---\n")
		}
		var members strings.Builder
		for i := range size {
			// In every other round the last comes first.
			first, second := of[a][i], of[b][i]
			if round%2 == 1 {
				first, second = second, first
			}
			members.WriteString(first + second)
		}
		s.applyText(members.String())
		s.soon("a member on a node", 5*time.Millisecond, func(context.Context) (bool, string) { return len(s.onNodes("")) > 0, "none" })
		for _, process := range killed {
			s.kill(process)
		}
		for _, process := range killed {
			s.startNamed(process)
		}
		var winner string
		s.eventually("one of both runs as a whole", func(context.Context) (bool, string) {
			n, m := len(s.onNodes(a+"-")), len(s.onNodes(b+"-"))
			winner = a
			if m > n {
				winner = b
			}
			return n+m == size, fmt.Sprintf("%d and %d", n, m)
		})
		loser := strings.ReplaceAll(a+b, winner, "")
		s.running(winner+"-", size)
		s.refused(loser, "NoRoom", "needs 8 pods", "room for 0")
		s.dropCrew(winner, size)
		s.running(loser+"-", size)
		s.dropCrew(loser, size)
	}
	s.noneRejected()
	s.oneAfterTheOther(size)
}

// oneAfterTheOther fails if members of one crew were bound between members of another.
func (s *story) oneAfterTheOther(size int) {
	s.Helper()
	var order []string
	for ev, err := range s.AuditEvents() {
		if err != nil {
			s.Fatal(err)
		}
		ref := ev.ObjectRef
		if ref != nil && ref.Resource == "pods" && ref.Subresource == "binding" && ref.Namespace == s.ns && ev.ResponseStatus.Code == 201 {
			name, _, _ := strings.Cut(ref.Name, "-")
			order = append(order, name)
		}
	}
	for part := range slices.Chunk(order, size) {
		if len(slices.Compact(slices.Clone(part))) != 1 || len(part) != size {
			s.Errorf("%d binds one after another: %v, want those of one group", size, part)
		}
	}
}

// Flow 19 of the lessons of earlier systems: a webhook that does not answer delays requests for
// Fluence by its time limit at most, and delays nothing else. Everything works without its answer.
func TestAWebhookThatHangsStopsNobody(t *testing.T) {
	s := tell(t)
	s.labelling(true)
	s.nodes("n", 2, "8")
	s.Cleanup(func() { s.resume(stack.Controller) })
	s.pause(stack.Controller)
	s.applyText(lonePod("stock", "default-scheduler"))
	s.applyText(deployment("service", 2, "1"))
	s.eventually("a Deployment that the webhook has not labelled", func(ctx context.Context) (bool, string) {
		d, err := s.Client().AppsV1().Deployments(s.ns).Get(ctx, "service", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return d.Labels[sizeLabel] == "" && d.Annotations[sizeLabel] == "", fmt.Sprintf("labels %v", d.Labels)
	})
	s.running("stock", 1)
	// Its pods need no PodGroup to start.
	s.running("service-", 2)
	s.resume(stack.Controller)
	s.placed("deployment-service-")
	s.labelling(true)
}
