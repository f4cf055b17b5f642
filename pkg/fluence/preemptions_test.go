package fluence

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/objects"
)

// pauseOf returns until when the group urgent evicts nobody.
func pauseOf(p *preemptions) time.Time {
	at, _ := p.notBefore("urgent")
	return at
}

// After each eviction in a row that did not help, a group evicts nobody for twice as long, up to half an hour.
func TestEvictionsThatDoNotHelpBecomeRare(t *testing.T) {
	var p preemptions
	const of = types.UID("urgent")
	now := time.Unix(1000, 0)
	p.start(of, types.NamespacedName{Name: "urgent"})
	for n, want := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800} {
		p.end(of, eviction.Unhelpful, "", time.Time{}, now)
		if got := pauseOf(&p).Sub(now); got != want*time.Second {
			t.Errorf("after %d in a row the group evicts nobody for %s, want %s", n+1, got, want*time.Second)
		}
	}
	started := p.started(types.NamespacedName{Name: "urgent"})
	if len(started) != 1 || !pauseOf(&p).IsZero() {
		t.Errorf("after a start the group evicts nobody until %s", pauseOf(&p))
	}
}

// A group whose victims are overdue evicts nobody else for five minutes, or for longer if many evictions did not help.
func TestOverdueVictimsDoNotShortenThePause(t *testing.T) {
	var p preemptions
	const of = types.UID("urgent")
	now := time.Unix(1000, 0)
	p.start(of, types.NamespacedName{Name: "urgent"})
	if p.end(of, eviction.Unhelpful, "", now, now); !pauseOf(&p).Equal(now.Add(overduePause)) {
		t.Errorf("the group evicts nobody for %s", pauseOf(&p).Sub(now))
	}
	for range 5 {
		p.end(of, eviction.Unhelpful, "", now, now)
	}
	if got := pauseOf(&p).Sub(now); got != maxUnhelpful {
		t.Errorf("after many the group evicts nobody for %s, want %s", got, maxUnhelpful)
	}
}

// A group that lacks a pod for a while abandons its plan. That the room is taken meanwhile is no failure of its evictions.
func TestAGroupThatAbandonedItsPlanMayEvictAtOnce(t *testing.T) {
	inPreemptionRig(t, func(r *rig) {
		r.podAPI.grace = 20 * time.Second
		r.gangOf("urgent", 4, 1000)
		r.pass(5 * time.Second)
		if c := r.conditionOf("urgent", "Scheduled"); c.Reason != reason.Preempting {
			t.Fatalf("the group waits with %s: %q", c.Reason, c.Message)
		}
		r.remove("urgent-3")
		r.pass(time.Minute)
		r.gangOf("taker", 4, 1000)
		r.pass(10 * time.Second)
		if !r.starts("taker", 4) {
			t.Fatalf("these run: %v", r.assigned())
		}
		r.pod("urgent-3", objects.InGroup("urgent"), objects.CPU("8"), atPriority(1000))
		r.pass(40 * time.Second)
		if got, want := r.podAPI.deleted(), podNames("a", "b"); !slices.Equal(got, want) || !r.starts("urgent", 4) {
			c := r.conditionOf("urgent", "Scheduled")
			t.Errorf("deleted: %v, want %v; the group waits with %s: %q", got, want, c.Reason, c.Message)
		}
	})
}

// The message of a group says how long its evictions fail already. It names no pods of other namespaces.
func TestAMessageNamesNoPodsOfOthersWhoseEvictionFails(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.Preemption.Mode = PreemptionLowerPriority
		for i := range 2 {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		for i := range 2 {
			r.pod(fmt.Sprintf("secret-%d", i), objects.CPU("8"), func(p *corev1.Pod) { p.Namespace = "other" })
		}
		r.pass(5 * time.Second)
		if !r.runs("secret-0") || !r.runs("secret-1") {
			t.Fatalf("these run: %v", r.assigned())
		}
		r.podAPI.answer = func(pod string) *http.Response { return failed(apierrors.NewInternalError(errors.New(pod))) }
		r.gangOf("urgent", 2, 1000)
		r.pass(time.Minute)
		c := r.conditionOf("urgent", "Scheduled")
		for _, want := range []string{"waits for 2 other pods (priority 0) to end, evicted for it ", "2 of 2 pods are still ending", "but 2 of these have not been asked to", "; a request has failed and is tried again"} {
			if !strings.Contains(c.Message, want) {
				t.Errorf("the group waits with %s: %q, want %q", c.Reason, c.Message, want)
			}
		}
		if strings.Contains(c.Message, "evicted for it 0s ago") {
			t.Errorf("the time is not that since the plan was made: %q", c.Message)
		}
		if strings.Contains(c.Message, "secret") {
			t.Errorf("the message names pods of others: %q", c.Message)
		}
	})
}
