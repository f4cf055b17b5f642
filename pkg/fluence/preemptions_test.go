package fluence

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
)

// After each eviction in a row that did not help, a group evicts nobody for twice as long, up to half an hour.
func TestEvictionsThatDoNotHelpBecomeRare(t *testing.T) {
	var p preemptions
	const of = types.UID("urgent")
	now := time.Unix(1000, 0)
	p.start(of, types.NamespacedName{Name: "urgent"})
	for n, want := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800} {
		p.end(of, eviction.Unhelpful, time.Time{}, now)
		if got := p.notBefore(of).Sub(now); got != want*time.Second {
			t.Errorf("after %d in a row the group evicts nobody for %s, want %s", n+1, got, want*time.Second)
		}
	}
	started := p.started(types.NamespacedName{Name: "urgent"})
	if len(started) != 1 || !p.notBefore(of).IsZero() {
		t.Errorf("after a start the group evicts nobody until %s", p.notBefore(of))
	}
}

// A group whose victims are overdue evicts nobody else for five minutes, or for longer if many evictions did not help.
func TestOverdueVictimsDoNotShortenThePause(t *testing.T) {
	var p preemptions
	const of = types.UID("urgent")
	now := time.Unix(1000, 0)
	p.start(of, types.NamespacedName{Name: "urgent"})
	if p.end(of, eviction.Unhelpful, now, now); !p.notBefore(of).Equal(now.Add(overduePause)) {
		t.Errorf("the group evicts nobody for %s", p.notBefore(of).Sub(now))
	}
	for range 5 {
		p.end(of, eviction.Unhelpful, now, now)
	}
	if got := p.notBefore(of).Sub(now); got != maxUnhelpful {
		t.Errorf("after many the group evicts nobody for %s, want %s", got, maxUnhelpful)
	}
}
