package fluence

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/statusmap"
	"github.com/flux-k8s/fluence/test/objects"
)

// writtenStatus returns the status that the scheduler wrote.
func (r *rig) writtenStatus() statusmap.Status {
	r.Helper()
	cm, err := r.client.CoreV1().ConfigMaps("fluence-system").Get(r.ctx, statusmap.Name, metav1.GetOptions{})
	r.must(err)
	f, err := statusmap.Read(cm.Data)
	r.must(err)
	return f
}

// statusWrites returns the number of writes of the status, whether or not the API accepted them.
func (r *rig) statusWrites() int {
	n := 0
	for _, a := range r.client.Actions() {
		if a.Matches("patch", "configmaps") {
			n++
		}
	}
	return n
}

func TestLeaderWritesStatus(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.node("n2", 4)
		r.schedule()
		r.gang(2, 2, objects.CPU("3"))
		r.pass(time.Second)
		matched := time.Now().Add(-time.Second).UTC().Truncate(time.Second)
		r.pod("late", objects.CPU("3"))
		r.pod("other", objects.OnNode("n1"), func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
		// The first status was written when the scheduler started.
		r.pass(statusmap.MinWriteInterval + report.ConfigMapInterval)
		got := r.writtenStatus()
		want := statusmap.Status{
			Epoch: uint64(r.pl.inventory.Epoch()), Nodes: 2,
			GroupsByPhase:   map[string]int{"held": 1, "complete": 1},
			WaitingByReason: map[string]int{"NoRoom": 1},
			PodsWithRoom:    2, MatcherAnswers: true, LastMatch: &matched,
			Leader: "me", Version: "v1",
		}
		near := cmpopts.EquateApproxTime(time.Second)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(statusmap.Status{}, "Updated"), near); diff != "" {
			t.Errorf("figures (-want +got):\n%s", diff)
		}
		if age := time.Since(got.Updated); age < 0 || age > statusmap.MinWriteInterval+report.ConfigMapInterval {
			t.Errorf("updated %s ago", age)
		}
		r.matcher.silence(true)
		r.matcherFake.FailNext(matchtest.Update, match.ErrUnavailable)
		r.pl.inventory.Resync()
		r.pass(statusmap.MinWriteInterval + 2*report.ConfigMapInterval)
		if got := r.writtenStatus(); got.MatcherAnswers || got.Epoch == want.Epoch {
			t.Errorf("the matcher is away, and the figures are %+v", got)
		}
	})
}

func TestStatusIsWrittenRarely(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pass(2 * report.ConfigMapInterval)
		if n := r.statusWrites(); n != 1 {
			t.Fatalf("%d writes at the start, want 1", n)
		}
		// Only the time differs.
		r.pass(statusmap.MaxWriteInterval - statusmap.MinWriteInterval)
		if n := r.statusWrites(); n != 1 {
			t.Errorf("%d writes though nothing happened, want 1", n)
		}
		r.pass(statusmap.MinWriteInterval + report.ConfigMapInterval)
		if n := r.statusWrites(); n != 2 {
			t.Errorf("%d writes, want another as a sign of life", n)
		}
		// However much happens, the writes are limited.
		const minutes = 5
		before := r.statusWrites()
		for i := range minutes * 30 {
			r.node("n"+string(rune('a'+i/26))+string(rune('a'+i%26)), 1)
			r.pass(2 * time.Second)
		}
		if n := r.statusWrites() - before; n < minutes || n > minutes*2 {
			t.Errorf("%d writes in %d minutes in which much happened, want one each half minute at the most", n, minutes)
		}
	})
}

// Whether the matcher answers is written within seconds, but not more than once a second.
func TestASilentMatcherIsWrittenAtOnce(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.schedule()
		r.pass(2 * report.ConfigMapInterval)
		if !r.writtenStatus().MatcherAnswers {
			t.Fatal("the matcher does not answer at the start")
		}
		const seconds = 10
		before := r.statusWrites()
		for i := range seconds {
			silent := i%2 == 0
			r.matcher.silence(silent)
			r.pl.breaker.requestPing()
			r.pass(2*pingTimeout + report.ReadinessInterval)
			if got := r.writtenStatus().MatcherAnswers; got == silent {
				t.Errorf("matcherAnswers is %t, and silent is %t", got, silent)
			}
		}
		if n := r.statusWrites() - before; n > seconds*3 {
			t.Errorf("%d writes in %d seconds", n, seconds*3)
		}
	})
}

// Whether the graph is loaded is written within seconds, but not more than once a second.
func TestStatusSaysAtOnceWhetherTheGraphIsLoaded(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.schedule()
		r.pass(2 * report.ConfigMapInterval)
		before, began := r.statusWrites(), time.Now()
		for i := range 4 {
			r.matcherFake.Fail(matchtest.Reset, match.ErrUnavailable)
			r.loseGraph()
			r.pass(report.ReadinessInterval / 10)
			r.pod(fmt.Sprint("p", i), objects.CPU("1"))
			r.pass(2 * report.ReadinessInterval)
			if got := r.writtenStatus(); got.Epoch != 0 {
				t.Errorf("the graph is lost, and the figures are %+v", got)
			}
			r.matcherFake.Fail(matchtest.Reset, nil)
			for r.pl.whyNotReady() != "" {
				r.pass(report.ReadinessInterval / 10)
			}
			r.pass(2 * report.ReadinessInterval)
			if got := r.writtenStatus(); got.Epoch == 0 || got.WaitingByReason[reason.MatcherUnavailable] > 0 {
				t.Errorf("the graph is loaded again, and the figures are %+v", got)
			}
		}
		if n, d := r.statusWrites()-before, time.Since(began); n > int(d/report.ReadinessInterval) {
			t.Errorf("%d writes in %s", n, d)
		}
	})
}

func TestStandbyWritesNoStatus(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pass(2 * report.ConfigMapInterval)
		r.standby.Store(true)
		before := r.statusWrites()
		r.node("n1", 4)
		r.pass(2 * statusmap.MaxWriteInterval)
		if n := r.statusWrites() - before; n != 0 {
			t.Errorf("a standby wrote %d times", n)
		}
		r.standby.Store(false)
		r.pass(2 * report.ConfigMapInterval)
		if n := r.statusWrites() - before; n != 1 || r.writtenStatus().Nodes != 1 {
			t.Errorf("one that leads again wrote %d times, the last time %+v", n, r.writtenStatus())
		}
	})
}

func TestStatusWriteIsRetried(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pass(2 * report.ConfigMapInterval)
		written := r.statusWrites()
		var forbidden atomic.Bool
		forbidden.Store(true)
		r.client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if forbidden.Load() {
				return true, nil, errors.New("may not")
			}
			return false, nil, nil
		})
		before := counted("fluence_failed_writes_total")
		r.node("n1", 4)
		r.pass(5*statusmap.MinWriteInterval + report.ConfigMapInterval)
		tries := r.statusWrites() - written
		if tries < 4 || tries > 5 {
			t.Errorf("%d tries in five pauses, want one each", tries)
		}
		if n := counted("fluence_failed_writes_total") - before; n != float64(tries) {
			t.Errorf("%v failures are counted, want %d", n, tries)
		}
		if n := strings.Count(r.logged(0), "Failed to write the status ConfigMap"); n != 1 {
			t.Errorf("said %d times that it cannot write, want once:\n%s", n, r.logged(0))
		}
		forbidden.Store(false)
		r.pass(statusmap.MinWriteInterval + report.ConfigMapInterval)
		if got := r.writtenStatus().Nodes; got != 1 {
			t.Errorf("the figures tell of %d nodes, want 1", got)
		}
	})
}
