package fluence

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/statusmap"
)

// leaderRig is a rig whose scheduler may give up its lease,
// with other schedulers that write to the same ConfigMap.
type leaderRig struct {
	*rig
	gaveUp atomic.Int32
	// end ends the scheduler's part in handovers.
	end context.CancelFunc
}

// inLeaderRig runs test in a rig whose scheduler leads and has read the ConfigMap.
func inLeaderRig(t *testing.T, test func(*leaderRig)) {
	t.Helper()
	inRig(t, nil, func(r *rig) {
		s := &leaderRig{rig: r}
		s.begin(r.pl.handover)
		test(s)
	})
}

// restart replaces the part in handovers by one that knows
// nothing of before, as after a restart of the process.
func (s *leaderRig) restart() {
	s.end()
	was, h := s.pl.handover, newHandover(s.client, "fluence-system", "me")
	h.leading, h.silentFor, h.ready, h.failed = was.leading, was.silentFor, was.ready, was.failed
	s.begin(h)
}

func (s *leaderRig) begin(h *handover) {
	h.giveUp = func() { s.gaveUp.Add(1) }
	var ctx context.Context
	ctx, s.end = context.WithCancel(s.ctx)
	go h.run(ctx)
	s.pass(handoverEvery)
}

// fakeStandby is another scheduler that stands by until it is ended. Every
// ten seconds it writes whether its matcher answers, unless it is mute.
type fakeStandby struct {
	answers, mute atomic.Bool
	end           func()
}

func (s *leaderRig) addStandby(name string) *fakeStandby {
	o, ended := &fakeStandby{}, make(chan struct{})
	o.answers.Store(true)
	o.end = func() { close(ended) }
	go func() {
		beat := time.NewTicker(statusmap.HeartbeatInterval)
		defer beat.Stop()
		for {
			if !o.mute.Load() {
				text, err := statusmap.Standby{Name: name, MatcherAnswers: o.answers.Load(), Updated: time.Now()}.Text()
				s.must(err)
				s.apply(name, statusmap.StandbyKey(name, "1"), text)
			}
			select {
			case <-s.ctx.Done():
				return
			case <-ended:
				return
			case <-beat.C:
			}
		}
	}()
	return o
}

// apply writes a key as another process does.
func (s *leaderRig) apply(manager, key, text string) {
	_, err := s.client.CoreV1().ConfigMaps("fluence-system").Apply(s.ctx,
		corev1ac.ConfigMap(statusmap.Name, "fluence-system").WithData(map[string]string{key: text}),
		metav1.ApplyOptions{FieldManager: manager, Force: true})
	if s.ctx.Err() == nil {
		s.must(err)
	}
}

// handedOver writes a handover of another process.
func (s *leaderRig) handedOver(at time.Time) {
	text, err := statusmap.Handover{From: "before", At: at}.Text()
	s.must(err)
	s.apply("before", statusmap.HandoverKey, text)
}

// data returns the data of the ConfigMap.
func (s *leaderRig) data() map[string]string {
	s.Helper()
	cm, err := s.client.CoreV1().ConfigMaps("fluence-system").Get(s.ctx, statusmap.Name, metav1.GetOptions{})
	s.must(err)
	return cm.Data
}

// silenceMatcher makes the matcher silent from now on.
func (s *leaderRig) silenceMatcher() {
	s.matcher.silence(true)
	s.matcherFake.FailNext(matchtest.Update, match.ErrUnavailable)
	s.pl.inventory.Resync()
}

// wantGivenUp compares how often the lease was given up.
func (s *leaderRig) wantGivenUp(when string, want int32) {
	s.Helper()
	if n := s.gaveUp.Load(); n != want {
		s.Errorf("%s: the lease was given up %d times, want %d; log:\n%s", when, n, want, s.logged(0))
	}
}

// handoverBound is the time until a handover has happened at the
// latest: the silence, one step, and the time to notice.
const handoverBound = statusmap.MaxSilence + 2*handoverEvery

func TestALeaderWithASilentMatcherHandsOverOnce(t *testing.T) {
	inLeaderRig(t, func(s *leaderRig) {
		s.addStandby("well")
		s.pass(time.Minute)
		s.wantGivenUp("the matcher answers", 0)
		s.wantGauges("the matcher answers", map[string]gaugeByLabel{"fluence_healthy_standbys": {"": 1}, "fluence_last_handover_timestamp_seconds": {}})
		s.silenceMatcher()
		s.pass(statusmap.MaxSilence - 2*time.Second)
		s.wantGivenUp("the matcher is silent for a while", 0)
		s.pass(handoverBound - statusmap.MaxSilence)
		s.wantGivenUp("the matcher is silent", 1)
		if log := s.logged(0); strings.Count(log, "Giving up the lease: the matcher is silent") != 1 || !strings.Contains(log, `standby="well"`) {
			t.Errorf("the log does not say once why and to whom:\n%s", log)
		}
		// The next leader reads when the handover was, and from whom.
		var o statusmap.Observer
		o.Update(s.data(), time.Now())
		if last, ok := o.LastHandover(); !ok || last.From != "me" || time.Since(last.At) < 0 || time.Since(last.At) > handoverBound {
			t.Errorf("what is written down of the handover: %+v, %v", last, ok)
		}
		s.pass(time.Hour)
		s.wantGivenUp("an hour later", 1)
	})
}

func TestALeaderKeepsItsLease(t *testing.T) {
	cases := map[string]func(*leaderRig){
		"nobody stands by": func(s *leaderRig) { s.silenceMatcher() },
		"the standby has fallen silent itself": func(s *leaderRig) {
			o := s.addStandby("dead")
			s.pass(time.Minute)
			o.end()
			s.pass(statusmap.HeartbeatInterval)
			s.silenceMatcher()
		},
		"the word of a standby that is gone still stands there": func(s *leaderRig) {
			text, err := statusmap.Standby{Name: "gone", MatcherAnswers: true, Updated: time.Now().Add(time.Hour)}.Text()
			s.must(err)
			s.apply("gone", statusmap.StandbyKey("gone", "1"), text)
			s.restart()
			s.silenceMatcher()
		},
		"the standby's matcher does not answer either": func(s *leaderRig) {
			s.addStandby("ill").answers.Store(false)
			s.pass(time.Minute)
			s.silenceMatcher()
		},
		"the matcher answers while its graph is being loaded": func(s *leaderRig) {
			s.addStandby("well")
			s.matcherFake.Hold(matchtest.PutNode)
			s.loseGraph()
			s.node("n1", 4)
			s.pass(time.Minute)
			if why := s.pl.whyNotReady(); why == "" {
				s.Error("the graph is not being loaded")
			}
		},
		"the matcher says of itself that it loads": func(s *leaderRig) {
			s.addStandby("well")
			s.matcher.answer(errors.New("loading"))
			s.loseGraph()
			s.matcherFake.FailNext(matchtest.Reset, match.ErrUnavailable)
			s.pass(time.Minute)
		},
		"the matcher answers now and then": func(s *leaderRig) {
			s.addStandby("well")
			for range 20 {
				s.silenceMatcher()
				s.pass(statusmap.MaxSilence - 5*time.Second)
				s.matcher.silence(false)
				s.pass(time.Second)
			}
		},
		"another has handed over within ten minutes": func(s *leaderRig) {
			s.addStandby("well")
			s.pass(time.Minute)
			s.handedOver(time.Now())
			s.pass(statusmap.MinHandoverInterval - 3*handoverBound)
			s.silenceMatcher()
		},
		"a process that has just started reads of a handover a while ago": func(s *leaderRig) {
			s.addStandby("well")
			s.handedOver(time.Now())
			s.pass(statusmap.MinHandoverInterval - 3*handoverBound)
			s.restart()
			s.silenceMatcher()
		},
		"the API server does not take the word": func(s *leaderRig) {
			s.addStandby("well")
			s.pass(time.Minute)
			s.client.PrependReactor("patch", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), statusmap.HandoverKey) {
					return true, nil, errors.New("may not")
				}
				return false, nil, nil
			})
			s.silenceMatcher()
		},
		"it cannot read what standbys say": func(s *leaderRig) {
			s.addStandby("well")
			s.pass(time.Minute)
			s.client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("may not")
			})
			s.silenceMatcher()
		},
	}
	for name, before := range cases {
		t.Run(name, func(t *testing.T) {
			inLeaderRig(t, func(s *leaderRig) {
				before(s)
				s.pass(2 * handoverBound)
				s.wantGivenUp(name, 0)
				if n := strings.Count(s.logged(0), "Failed to write or read whose matcher answers"); n > 1 {
					t.Errorf("said %d times that it cannot read or write:\n%s", n, s.logged(0))
				}
			})
		})
	}
}

func TestALeaderHandsOverAgainAfterTenMinutes(t *testing.T) {
	cases := map[string]func(*leaderRig){
		"the same process": func(s *leaderRig) {
			s.handedOver(time.Now())
			s.pass(time.Minute)
		},
		"one that has just started": func(s *leaderRig) {
			s.handedOver(time.Now())
			s.pass(time.Minute)
			s.restart()
		},
	}
	for name, before := range cases {
		t.Run(name, func(t *testing.T) {
			inLeaderRig(t, func(s *leaderRig) {
				s.addStandby("well")
				before(s)
				s.silenceMatcher()
				s.pass(statusmap.MinHandoverInterval - time.Minute - 3*handoverEvery)
				s.wantGivenUp("within ten minutes", 0)
				s.pass(6 * handoverEvery)
				s.wantGivenUp("ten minutes later", 1)
			})
		})
	}
}

func TestAStandbySaysWhetherItsMatcherAnswers(t *testing.T) {
	inLeaderRig(t, func(s *leaderRig) {
		s.pass(statusmap.MaxWriteInterval)
		key := s.pl.handover.key
		if _, ok := s.data()[key]; ok {
			t.Error("one that leads says that it stands by")
		}
		figures := s.data()["figures.json"]
		beats := func() (n int) {
			for _, a := range s.client.Actions() {
				if p, ok := a.(clienttesting.PatchAction); ok && strings.Contains(string(p.GetPatch()), key) {
					n++
				}
			}
			return n
		}
		s.standby.Store(true)
		s.addStandby("beside")
		reads := len(s.client.Actions())
		s.pass(2*time.Minute + time.Second)
		if n := beats(); n < 11 || n > 13 {
			t.Errorf("%d words in two minutes, want one each ten seconds", n)
		}
		for _, a := range s.client.Actions()[reads:] {
			if a.Matches("get", "configmaps") {
				t.Error("a standby reads what others say")
				break
			}
		}
		says := func(when, want string) {
			s.Helper()
			if got := s.data()[key]; !strings.Contains(got, `"name":"me"`) || !strings.Contains(got, want) {
				s.Errorf("%s the standby says %s", when, got)
			}
		}
		says("with a matcher that answers", `"matcherAnswers":true`)
		s.silenceMatcher()
		s.pass(2 * handoverEvery)
		says("with one that does not", `"matcherAnswers":false`)
		s.matcher.silence(false)
		s.pass(2 * handoverEvery)
		says("with one that answers again", `"matcherAnswers":true`)
		s.wantGivenUp("a standby", 0)
		// No process overwrites the keys of another.
		data := s.data()
		if data["figures.json"] != figures || data[statusmap.StandbyKey("beside", "1")] == "" {
			t.Errorf("the ConfigMap has %q, want the figures and the word of the other as they were", slices.Collect(maps.Keys(data)))
		}
	})
}

func TestTheKeysOfStandbysThatAreGoneAreRemoved(t *testing.T) {
	inLeaderRig(t, func(s *leaderRig) {
		still := s.addStandby("still")
		s.handedOver(time.Now())
		for _, name := range []string{"a", "b", "c"} {
			s.addStandby(name).end()
		}
		s.pass(statusmap.StandbyTTL - 2*statusmap.HeartbeatInterval)
		if n := len(s.data()); n != 6 { // the status, the handover and four standbys
			t.Errorf("%d keys within ten minutes, want 6: %q", n, slices.Collect(maps.Keys(s.data())))
		}
		s.pass(4 * statusmap.HeartbeatInterval)
		want := []string{"figures.json", statusmap.HandoverKey, statusmap.StandbyKey("still", "1")}
		if got := slices.Sorted(maps.Keys(s.data())); !slices.Equal(got, want) {
			t.Errorf("keys %q, want %q", got, want)
		}
		still.end()
	})
}

func TestWithoutANamespaceOrALeaseNothingIsSaidOfStandbys(t *testing.T) {
	cases := map[string]func(*handover){
		"no namespace": func(h *handover) { h.namespace = "" },
		"no lease":     func(h *handover) { h.giveUp = nil },
	}
	for name, without := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				h := newHandover(r.client, "fluence-system", "me")
				h.leading = func() bool { t.Error("it asks whether it leads"); return false }
				h.giveUp = func() {}
				without(h)
				h.run(r.ctx) // returns at once
			})
		})
	}
}
