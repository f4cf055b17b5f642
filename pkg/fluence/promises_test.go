package fluence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/test/objects"
)

// gangFor is gangOf with a duration, unless it is empty.
func (r *rig) gangFor(name string, n int, priority int32, duration string) {
	r.Helper()
	pg := aPodGroup(name, int32(n), types.UID(name))
	if duration != "" {
		pg.Annotations = map[string]string{group.DurationAnnotation: duration}
	}
	r.podGroupAPI.put(pg)
	for i := range n {
		r.pod(fmt.Sprintf("%s-%d", name, i), objects.InGroup(name), objects.CPU("8"), atPriority(priority), withoutGrace)
	}
}

// withoutGrace lets a pod end at once when it is asked to.
func withoutGrace(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(0)) }

// ends removes the pods of a gang.
func (r *rig) ends(name string, n int) {
	r.Helper()
	for i := range n {
		r.remove(fmt.Sprintf("%s-%d", name, i))
	}
}

// why returns the message with which a gang waits.
func (r *rig) why(name string) string {
	r.Helper()
	r.pass(2 * time.Second) // conditions are written late
	return r.conditionOf(name, "Scheduled").Message
}

// inPromiseRig runs a test on four nodes of 8 CPUs. A gang called running has two of them for ten minutes, from began on.
// Then a gang called big comes, which needs all four. Durations are enforced, and one group is promised room.
func inPromiseRig(t *testing.T, edit func(*Args), test func(r *rig, began time.Time), more ...fwk.Plugin) {
	t.Helper()
	inRig(t, realEngine(t), func(r *rig) {
		r.pl.args.Promises = Promises{Depth: 1, Horizon: metav1.Duration{Duration: time.Hour}}
		r.pl.args.Preemption.Mode = PreemptionNever
		if edit != nil {
			edit(r.pl.args)
		}
		r.pl.walltimes.enforced = true
		for i := range 4 {
			r.node(fmt.Sprintf("n%d", i), 8)
		}
		r.pass(settleTime)
		r.schedule()
		r.gangFor("running", 2, 0, "10m")
		r.pass(3 * time.Second)
		if !r.starts("running", 2) {
			t.Fatalf("these run: %v", r.assigned())
		}
		began := time.Now()
		r.gangFor("big", 4, 0, "10m")
		r.pass(3 * time.Second)
		test(r, began)
	}, more...)
}

// from returns the time in a message that says from when room is promised, after began.
func from(t *testing.T, message string, began time.Time) time.Duration {
	t.Helper()
	_, rest, ok := strings.Cut(message, " from ")
	if !ok {
		t.Fatalf("the message says no time: %q", message)
	}
	text, _, _ := strings.Cut(rest, "Z")
	at, err := reason.ParseTime(text+"Z", began)
	if err != nil {
		t.Fatalf("the message has %q: %v", text, err)
	}
	return at.Sub(began).Round(10 * time.Second)
}

// A gang that needs all nodes is promised the end of what runs, and starts when that ends. A shorter one runs before. A
// longer one waits, and says for whom and until when, and so does one without an end.
func TestAGroupIsPromisedRoomAndOthersRunBeforeIt(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		if why := r.why("big"); !strings.HasPrefix(why, "promised 4 nodes from ") || from(t, why, began) != 10*time.Minute {
			t.Errorf("it waits with %q, want it promised after ten minutes", why)
		}
		r.gangFor("short", 1, 0, "5m")
		r.gangFor("longer", 1, 0, "20m")
		r.gangFor("endless", 1, 0, "")
		r.pass(3 * time.Second)
		if !r.starts("short", 1) || r.starts("longer", 1) || r.starts("endless", 1) {
			t.Errorf("these run: %v, want the short one alone", r.assigned())
		}
		for _, name := range []string{"longer", "endless"} {
			const want = "; room for 1 more is promised to ns/big from "
			if why := r.why(name); !strings.Contains(why, want) || from(t, why, began) != 10*time.Minute {
				t.Errorf("%s waits with %q, want %q", name, why, want)
			}
		}
		r.pass(5 * time.Minute)
		r.ends("short", 1)
		r.pass(3 * time.Second)
		if got := r.assigned(); len(got) != 2 {
			t.Errorf("these run before the promised time: %v", got)
		}
		r.pass(time.Until(began.Add(10 * time.Minute)))
		r.ends("running", 2)
		r.pass(2 * time.Second)
		if !r.starts("big", 4) {
			t.Errorf("it has not started two seconds after its time; it waits with %q", r.why("big"))
		}
	})
}

// A duration that nobody enforces tells when room may be free. It lets nobody start on promised nodes.
func TestAWishLetsNobodyRunBeforeAPromise(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.pl.walltimes.enforced = false
		r.gangFor("wish", 1, 0, "2m")
		r.pass(3 * time.Second)
		if r.starts("wish", 1) {
			t.Errorf("these run: %v", r.assigned())
		}
		const want = "; room for 1 more is promised to ns/big from "
		if why := r.why("wish"); !strings.Contains(why, want) || from(t, why, began) != 10*time.Minute {
			t.Errorf("it waits with %q, want %q", why, want)
		}
	})
}

// What moves a promise is named in the message of its group.
func TestWhatMovesAPromise(t *testing.T) {
	cases := map[string]struct {
		// happens happens a minute after the promise.
		happens func(r *rig)
		from    time.Duration
		says    string
		// lost is a node on which it is promised nothing any more.
		lost string
	}{
		"an early end": {
			happens: func(r *rig) {
				r.gangFor("short", 1, 0, "5m")
				r.pass(time.Second)
				r.ends("running", 2)
			},
			from: 6 * time.Minute,
		},
		"a lost node": {
			happens: func(r *rig) {
				r.node("n4", 8)
				r.pass(time.Second)
				r.updateNode("n3", func(n *corev1.Node) { n.Spec.Unschedulable = true })
			},
			from: 10 * time.Minute, lost: "n3",
		},
		"a pod of another scheduler": {
			happens: func(r *rig) {
				r.pod("foreign", objects.CPU("8"), objects.OnNode("n3"), withoutGrace, func(p *corev1.Pod) {
					p.Spec.SchedulerName, p.Spec.ActiveDeadlineSeconds = "other", new(int64(1800))
				})
			},
			from: 31 * time.Minute, says: "pod ns/foreign of another scheduler is on node n3",
		},
		"a higher priority": {
			happens: func(r *rig) { r.gangFor("urgent", 1, 100, "30m") },
			from:    31 * time.Minute, says: "was placed on node ",
		},
		"a pod that is in nobody's way comes before it": {
			happens: func(r *rig) {
				r.pod("aside", objects.CPU("0"), atPriority(100), withoutGrace)
				r.gangFor("urgent", 1, 100, "30m")
			},
			from: 31 * time.Minute, says: "pod ns/urgent-0 was placed on node ",
		},
		"a longer duration": {
			happens: func(r *rig) {
				pg := aPodGroup("running", 2, "running")
				pg.Annotations = map[string]string{group.DurationAnnotation: "20m"}
				r.podGroupAPI.put(pg)
			},
			from: 20 * time.Minute, says: "pod ns/running-0 ends later now, at ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inPromiseRig(t, nil, func(r *rig, began time.Time) {
				r.pass(time.Until(began.Add(time.Minute)))
				tc.happens(r)
				r.pass(15 * time.Second)
				if p := r.pl.promises.get(types.NamespacedName{Namespace: ns, Name: "big"}); p == nil || p.nodes.Has(tc.lost) {
					t.Errorf("its promise is %+v", p)
				}
				if why := r.why("big"); !strings.HasPrefix(why, "promised 4 nodes from ") || from(t, why, began) != tc.from || !strings.Contains(why, tc.says) {
					t.Errorf("it waits with %q, want it promised after %s, and %q", why, tc.from, tc.says)
				}
			})
		})
	}
}

// If a pod has no end any more, the message of a group says within seconds that it is promised nothing any more, and why.
func TestAnEndThatIsRemovedEndsAPromise(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.pass(time.Until(began.Add(time.Minute)))
		r.podGroupAPI.put(aPodGroup("running", 2, "running"))
		r.pass(askAgainAfter + 3*time.Second)
		const lost = "; no longer promised room: there is no time at which it is known to fit, since "
		if why := r.why("big"); strings.HasPrefix(why, "promised") || !strings.Contains(why, lost) || !strings.HasSuffix(why, "Z: pod ns/running-0 has no end any more") {
			t.Errorf("it waits with %q, want %q", why, lost)
		}
		// An end that is set again is seen.
		pg := aPodGroup("running", 2, "running")
		pg.Annotations = map[string]string{group.DurationAnnotation: "20m"}
		r.podGroupAPI.put(pg)
		r.pass(3 * time.Second)
		if why := r.why("big"); !strings.HasPrefix(why, "promised 4 nodes from ") || from(t, why, began) != 20*time.Minute {
			t.Errorf("it waits with %q, want it promised after twenty minutes", why)
		}
	})
}

// Pods that replace lost members, and whose end is kept, leave promised room, as others do that end later. Otherwise a group
// whose pods are made again one by one would keep it for ever.
func TestReplacementsWithAnEndLeavePromisedRoom(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.gangFor("gap", 2, 0, "8m")
		r.pass(3 * time.Second)
		if !r.starts("gap", 2) {
			t.Fatalf("these run: %v", r.assigned())
		}
		r.pass(5 * time.Minute)
		r.remove("gap-0")
		r.pass(2 * time.Second)
		r.pod("gap-0", objects.InGroup("gap"), objects.CPU("8"), withoutGrace)
		r.pass(15 * time.Second)
		if why := r.why("big"); from(t, why, began) != 10*time.Minute {
			t.Errorf("big waits with %q, want it promised after ten minutes", why)
		}
		if r.assigned()["gap-0"] != "" {
			t.Errorf("a pod of eight minutes has taken room that is promised in five: %v", r.assigned())
		}
	})
}

// A pod that goes on after its end is named, and the group starts when it has gone.
func TestAnOverrunIsTold(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.pass(time.Until(began.Add(11 * time.Minute)))
		if why := r.why("big"); !strings.Contains(why, ", which is over: pod ns/running-0 should have ended at ") || from(t, why, began) != 10*time.Minute {
			t.Errorf("it waits with %q", why)
		}
		r.ends("running", 2)
		r.pass(2 * time.Second)
		if !r.starts("big", 4) {
			t.Errorf("it has not started; it waits with %q", r.why("big"))
		}
	})
}

// A pod that has overrun for long counts as one without an end: nobody is promised its room. One that has done so before
// the group came does too.
func TestWhoOverrunsForLongHasNoEnd(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.pass(time.Until(began.Add(10*time.Minute + maxOverrun + time.Minute)))
		const lost = "; no longer promised room: there is no time at which it is known to fit, since "
		if why := r.why("big"); strings.HasPrefix(why, "promised") || !strings.Contains(why, lost) || !strings.Contains(why, "Z: pod ns/running-0 should have ended at 00:1") {
			t.Errorf("it waits with %q, want %q", why, lost)
		}
		r.ends("big", 4)
		r.gangFor("next", 4, 0, "10m")
		r.pass(maxDoubt + askPromisedEvery + 5*time.Second)
		if why := r.why("next"); strings.Contains(why, "promised") || why == "" {
			t.Errorf("another one waits with %q", why)
		}
		r.ends("running", 2)
		r.pass(3 * time.Second)
		if !r.starts("next", 4) {
			t.Errorf("it has not started; it waits with %q", r.why("next"))
		}
	})
}

// A matcher that does not answer when a promise is booked gets it soon after.
func TestAPromiseIsBookedAgain(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.gangFor("short", 1, 0, "5m")
		r.pass(3 * time.Second)
		r.matcherFake.FailNext(matchtest.Update, match.ErrUnavailable, match.ErrUnavailable)
		r.ends("running", 2)
		r.pass(5 * time.Second)
		jobs, err := r.matcherFake.Jobs(r.ctx, r.pl.inventory.Epoch())
		r.must(err)
		var at []time.Duration
		for _, j := range jobs {
			if j.Reserved {
				at = append(at, j.Start.Sub(began).Round(time.Minute))
			}
		}
		if len(at) != 1 || at[0] != 5*time.Minute {
			t.Errorf("reservations begin after %v, want one after five minutes", at)
		}
	})
}

// booksNoPromise is an engine that does not answer when a promise is booked.
type booksNoPromise struct{ match.Engine }

// Update implements match.Engine.
func (e booksNoPromise) Update(ctx context.Context, epoch match.Epoch, jobs ...match.Job) error {
	if slices.ContainsFunc(jobs, func(j match.Job) bool { return j.Reserved }) {
		return match.ErrUnavailable
	}
	return e.Engine.Update(ctx, epoch, jobs...)
}

// While a promise that moves cannot be booked, the message has the one that stands.
func TestThePromiseThatStandsIsTold(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.gangFor("short", 1, 0, "5m")
		r.pass(3 * time.Second)
		r.pl.releases.engine = booksNoPromise{r.pl.releases.engine}
		r.ends("running", 2)
		r.pass(5 * time.Second)
		told, _ := r.pl.reporter.Latest(types.NamespacedName{Namespace: ns, Name: "big"})
		if why := told.Message; !strings.HasPrefix(why, "promised 4 nodes from ") || from(t, why, began) != 10*time.Minute {
			t.Errorf("it waits with %q, want it promised after ten minutes", why)
		}
	})
}

// A graph that is loaded again has the reservations: nobody takes the room meanwhile.
func TestPromisesSurviveTheMatcher(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.loseGraph()
		r.gangFor("longer", 1, 0, "20m")
		r.pass(3 * time.Second)
		if r.starts("longer", 1) {
			t.Error("a group runs on promised room")
		}
		if why := r.why("big"); from(t, why, began) != 10*time.Minute {
			t.Errorf("it waits with %q", why)
		}
	})
}

// Without the argument nobody is promised room, and a group that ends in time is as good as another.
func TestWithoutDepthNobodyIsPromisedRoom(t *testing.T) {
	inPromiseRig(t, func(a *Args) { a.Promises.Depth = 0 }, func(r *rig, _ time.Time) {
		r.gangFor("longer", 1, 0, "20m")
		r.pass(3 * time.Second)
		if why := r.why("big"); strings.Contains(why, "promised") || !r.starts("longer", 1) {
			t.Errorf("it waits with %q; these run: %v", why, r.assigned())
		}
	})
}

// A group that is gone, or does not wait for room any more, leaves no reservation in the matcher.
func TestNoPromiseIsLeftBehind(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, _ time.Time) {
		reserved := func() (n int) {
			jobs, err := r.matcherFake.Jobs(r.ctx, r.pl.inventory.Epoch())
			r.must(err)
			for _, j := range jobs {
				if j.Reserved {
					n++
				}
			}
			return n
		}
		if n := reserved(); n != 1 {
			t.Fatalf("%d reservations, want 1", n)
		}
		r.ends("big", 4)
		r.pass(3 * time.Second)
		if n := reserved(); n != 0 {
			t.Errorf("%d reservations are left", n)
		}
	})
}

// After a restart, groups that an earlier process has promised room ask before all others, for some seconds: a group of which
// all pods are there first does not take that room.
func TestAPromiseOfAnEarlierSchedulerGoesFirst(t *testing.T) {
	inRigOf(t, realEngine(t), func(r *rig) {
		r.pl.args.Promises = Promises{Depth: 1, Horizon: metav1.Duration{Duration: time.Hour}}
		r.pl.args.Preemption.Mode = PreemptionNever
		r.pl.walltimes.enforced = true
		big := aPodGroup("big", 2, "big")
		big.Annotations = map[string]string{group.DurationAnnotation: "10m"}
		big.Status.Conditions = []metav1.Condition{{
			Type: report.ConditionScheduled, Status: metav1.ConditionFalse, Reason: reason.NoRoom, LastTransitionTime: metav1.Now(),
			Message: "promised 2 nodes from 00:10:00Z; needs 2 pods with cpu 8; room for 1",
		}}
		r.podGroupAPI.put(big)
		for i := range 2 {
			r.add(objects.ReadyNode(fmt.Sprintf("n%d", i), 8))
		}
		r.pod("running", objects.CPU("8"), objects.OnNode("n0"), withoutGrace, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(600)) })
	}, func(r *rig) {
		r.schedule()
		r.gangFor("longer", 1, 0, "20m")
		r.pass(2 * time.Second)
		for i := range 2 {
			r.pod(fmt.Sprintf("big-%d", i), objects.InGroup("big"), objects.CPU("8"), atPriority(1), withoutGrace)
		}
		r.pass(3 * time.Second)
		if r.starts("longer", 1) || !strings.HasPrefix(r.why("big"), "promised 2 nodes from ") {
			t.Errorf("these run: %v; big waits with %q", r.assigned(), r.why("big"))
		}
		// Nobody waits for ever for a group that does not come.
		r.remove("big-0")
		r.remove("big-1")
		r.pass(3 * time.Second)
		if !r.starts("longer", 1) {
			t.Errorf("longer waits with %q", r.why("longer"))
		}
	})
	t.Run("it does not come", func(t *testing.T) {
		inRigOf(t, realEngine(t), func(r *rig) {
			r.pl.args.Promises = Promises{Depth: 1, Horizon: metav1.Duration{Duration: time.Hour}}
			big := aPodGroup("big", 2, "big")
			big.Status.Conditions = []metav1.Condition{{
				Type: report.ConditionScheduled, Status: metav1.ConditionFalse, Reason: reason.NoRoom, LastTransitionTime: metav1.Now(),
				Message: "promised 2 nodes from 00:10:00Z; needs 2 pods with cpu 8; room for 1",
			}}
			r.podGroupAPI.put(big)
			r.add(objects.ReadyNode("n0", 8))
		}, func(r *rig) {
			r.schedule()
			r.gangFor("other", 1, 0, "")
			r.pass(2 * time.Second)
			if r.starts("other", 1) {
				t.Error("it did not let the group ask that was promised room")
			}
			r.pass(maxEarlier)
			if !r.starts("other", 1) {
				t.Errorf("it waits with %q", r.why("other"))
			}
		})
	})
}

// A promise that moves to a later time lets groups run that end before that: they ask at once.
func TestALaterPromiseLetsOthersRunBeforeIt(t *testing.T) {
	inPromiseRig(t, nil, func(r *rig, began time.Time) {
		r.gangFor("longer", 1, 0, "20m")
		r.pass(3 * time.Second)
		if r.starts("longer", 1) {
			t.Fatal("it has not left the promised room")
		}
		pg := aPodGroup("running", 2, "running")
		pg.Annotations = map[string]string{group.DurationAnnotation: "40m"}
		r.podGroupAPI.put(pg)
		r.pass(5 * time.Second)
		if why := r.why("big"); from(t, why, began) != 40*time.Minute {
			t.Fatalf("big waits with %q, want it promised after forty minutes", why)
		}
		if !r.starts("longer", 1) {
			t.Errorf("it waits with %q", r.why("longer"))
		}
	})
}
