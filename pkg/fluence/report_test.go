package fluence

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/objects"
)

// report reports a reason of the group and waits for the writes.
func (r *rig) report(because, message string) {
	n := report.NotScheduled(because, message)
	if because == reason.Placed {
		n.Status = metav1.ConditionTrue
	}
	r.pl.reporter.Report(g, n, objects.Pod("g-0"))
	r.pass(50 * time.Millisecond) // events are sent after conditions
}

// createUnreportedPodGroup creates a PodGroup about which the plugin itself reports nothing.
func (r *rig) createUnreportedPodGroup(uid types.UID, edit ...func(*scheduling.PodGroup)) {
	pg := aPodGroup(g.Name, 2, uid)
	pg.Status.Phase = scheduling.PodGroupFinished
	for _, e := range edit {
		e(pg)
	}
	r.podGroupAPI.put(pg)
}

// wantWrites compares the reasons and messages that were written, and the
// reasons of the events about the PodGroup.
func (r *rig) wantWrites(writes []string, events []string) {
	r.Helper()
	var got []string
	for _, w := range r.podGroupAPI.written() {
		got = append(got, w.condition.Reason+" "+w.condition.Message)
	}
	if !slices.Equal(got, writes) {
		r.Errorf("writes = %q, want %q", got, writes)
	}
	got = nil
	for _, e := range r.recorder.of("PodGroup") {
		got = append(got, e.reason)
	}
	if !slices.Equal(got, events) {
		r.Errorf("events = %q, want %q", got, events)
	}
}

// What has to be corrected is reported at the first check, also after another reason. A reason that can end by
// itself is reported at the second.
func TestAnInvalidGroupIsReportedAtTheFirstCheck(t *testing.T) {
	unknown := annotated(group.TopologyRequiredAnnotation, "no-such-level")
	cases := map[string]struct {
		before int // pods that come first, and are too few
		edit   func(*corev1.Pod)
		want   string
	}{
		"an unknown level":                     {edit: unknown, want: reason.InvalidTopology},
		"an unknown level, after missing pods": {before: 1, edit: unknown, want: reason.InvalidTopology},
		"a size that is none":                  {edit: func(p *corev1.Pod) { p.Labels[group.SizeLabel] = "many" }, want: reason.InvalidGroupSize},
		"no policy of this name":               {edit: annotated(group.MatchPolicyAnnotation, "no-such-policy"), want: reason.InvalidMatchPolicy},
		"whole nodes: neither true nor false":  {edit: annotated(group.ExclusiveAnnotation, "perhaps"), want: reason.InvalidAnnotation},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.gang(3, tc.before)
				if tc.before > 0 {
					r.pass(time.Minute)
				}
				for i := tc.before; i < 3; i++ {
					r.pod(fmt.Sprintf("g-%d", i), objects.InGroup(g.Name), tc.edit)
				}
				r.pass(4*tick - time.Millisecond) // there is one check in this time
				if c := r.scheduledCondition(); c.Reason != tc.want {
					t.Errorf("condition %s: %s, want %s", c.Reason, c.Message, tc.want)
				}
			})
		})
	}
}

func TestReportWritesTheConditionOfThisPodGroup(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.createUnreportedPodGroup("uid", func(pg *scheduling.PodGroup) { pg.Generation = 3 })
		r.pass(0)
		now := metav1.Now()
		r.report("NoRoom", "why")
		want := []write{{uid: "uid", manager: "fluence-scheduler", force: "true", condition: metav1.Condition{
			Type: "Scheduled", Status: metav1.ConditionFalse, Reason: "NoRoom", Message: "why", ObservedGeneration: 3,
			LastTransitionTime: metav1.NewTime(now.Truncate(time.Second).Local()),
		}}}
		if diff := cmp.Diff(want, r.podGroupAPI.written(), cmp.AllowUnexported(write{})); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		wantEvents := []event{{kind: "PodGroup", name: g.Name, reason: "NoRoom", message: "why", eventType: corev1.EventTypeWarning}}
		if diff := cmp.Diff(wantEvents, r.recorder.of("PodGroup"), cmp.AllowUnexported(event{})); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestReportMakesAnEventOfEveryNewReason(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.createUnreportedPodGroup("uid")
		r.report("NoRoom", "1 of 2")
		r.report("NoRoom", "1 of 2")
		r.wantWrites([]string{"NoRoom 1 of 2"}, []string{"NoRoom"})
		// Changed numbers are no event, and can wait.
		for range 3 {
			r.report("NoRoom", "0 of 2")
			r.report("NoRoom", "1 of 3")
		}
		r.wantWrites([]string{"NoRoom 1 of 2"}, []string{"NoRoom"})
		r.pass(5 * time.Second)
		r.wantWrites([]string{"NoRoom 1 of 2", "NoRoom 1 of 3"}, []string{"NoRoom"})
		since := r.podGroupAPI.written()[1].condition.LastTransitionTime
		r.pass(time.Minute)
		r.report("NeverFits", "never")
		if got := r.podGroupAPI.written()[2].condition.LastTransitionTime; !got.Equal(&since) {
			t.Errorf("last transition at %v, want %v: the status is the same", got, since)
		}
		r.report(reason.Placed, "on n1")
		if got := r.podGroupAPI.written()[3].condition.LastTransitionTime; !got.Time.Equal(time.Now().Truncate(time.Second)) {
			t.Errorf("last transition at %v, want now, %v", got, time.Now())
		}
		r.wantWrites(
			[]string{"NoRoom 1 of 2", "NoRoom 1 of 3", "NeverFits never", "Placed on n1"},
			[]string{"NoRoom", "NeverFits", "Placed"})
		if last := r.recorder.of("PodGroup")[2]; last.eventType != corev1.EventTypeNormal {
			t.Errorf("Placed is an event of type %s", last.eventType)
		}
	})
}

// What the author of a group has asked for is no warning.
func TestReportWarnsNobodyOfASuspendedGroup(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.createUnreportedPodGroup("uid")
		r.report(reason.Suspended, "Job/w is suspended")
		want := []event{{kind: "PodGroup", name: g.Name, reason: reason.Suspended, message: "Job/w is suspended", eventType: corev1.EventTypeNormal}}
		if diff := cmp.Diff(want, r.recorder.of("PodGroup"), cmp.AllowUnexported(event{})); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A condition tells of a group that starts as it should. Events tell of one that does not.
func TestReportSendsNoEventOfWhatPasses(t *testing.T) {
	type told struct {
		reason string
		lasts  time.Duration
	}
	cases := map[string]struct {
		told []told
		want []string
	}{
		"placed at once":                             {told: []told{{reason.Placed, time.Hour}}},
		"placed after it has gathered":               {told: []told{{reason.Gathering, 40 * time.Second}, {reason.Placed, time.Hour}}},
		"placed after it has gathered, and waited":   {told: []told{{reason.Gathering, 30 * time.Second}, {reason.Binding, 30 * time.Second}, {reason.Placed, time.Hour}}},
		"it gathers for long":                        {told: []told{{reason.Gathering, 50 * time.Second}, {reason.Placed, time.Hour}}, want: []string{"Gathering", "Placed"}},
		"it gathers for hours":                       {told: []told{{reason.Gathering, 5 * time.Hour}}, want: []string{"Gathering"}},
		"refused before it waits for binds":          {told: []told{{"NoRoom", 0}, {reason.Binding, time.Second}, {reason.Placed, time.Hour}}, want: []string{"NoRoom", "Placed"}},
		"placed, refused and placed again":           {told: []told{{reason.Placed, 0}, {"NoRoom", 0}, {reason.Placed, 0}}, want: []string{"NoRoom", "Placed"}},
		"placed again after late pods were gathered": {told: []told{{"NoRoom", 0}, {reason.Placed, 0}, {reason.Gathering, 0}, {reason.Placed, time.Hour}}, want: []string{"NoRoom", "Placed"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.createUnreportedPodGroup("uid")
				var conditions []string
				for _, step := range tc.told {
					r.report(step.reason, "why")
					r.pass(step.lasts)
					conditions = append(conditions, step.reason+" why")
				}
				r.wantWrites(conditions, tc.want)
			})
		})
	}
}

// The event of a reason that lasts is sent even if a message was being put off when it was due.
func TestReportSendsTheEventOfWhatLastsAfterOtherNumbers(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.createUnreportedPodGroup("uid")
		for n, lasts := range []time.Duration{42 * time.Second, time.Second, time.Hour} {
			r.report(reason.Gathering, fmt.Sprintf("%d of 9", n))
			r.pass(lasts)
		}
		r.wantWrites([]string{"Gathering 0 of 9", "Gathering 1 of 9", "Gathering 2 of 9"}, []string{"Gathering"})
	})
}

func TestReportWritesNothingThatIsThereAlready(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		before := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		r.createUnreportedPodGroup("uid", func(pg *scheduling.PodGroup) {
			pg.Status.Conditions = []metav1.Condition{
				{Type: "Other", Status: metav1.ConditionTrue, Reason: "Else"},
				{Type: report.ConditionScheduled, Status: metav1.ConditionFalse, Reason: "NoRoom", Message: "why", LastTransitionTime: before},
			}
		})
		r.pass(0)
		r.report("NoRoom", "why")
		r.wantWrites(nil, nil)
		r.report("NeverFits", "never")
		r.wantWrites([]string{"NeverFits never"}, []string{"NeverFits"})
		if got := r.podGroupAPI.written()[0].condition.LastTransitionTime; !got.Equal(&before) {
			t.Errorf("last transition at %v, want that of the scheduler before, %v", got, before)
		}
	})
}

func TestReportTriesAgainUntilItIsWritten(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.createUnreportedPodGroup("uid")
		r.podGroupAPI.broken = func(n int) error {
			if n < 3 {
				return errors.New("overloaded")
			}
			return nil
		}
		r.pass(0)
		r.report("NoRoom", "why")
		r.pass(time.Second)
		r.wantWrites([]string{"NoRoom why", "NoRoom why", "NoRoom why"}, []string{"NoRoom"})
		r.pass(time.Hour)
		r.wantWrites([]string{"NoRoom why", "NoRoom why", "NoRoom why"}, []string{"NoRoom"})
	})
}

// A group that ends and starts again on the same nodes, as a JobSet does that restarts, has been
// scheduled since its second start.
func TestAGroupThatStartsAgainIsScheduledSinceThen(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		scheduled := func() metav1.Condition {
			c := meta.FindStatusCondition(r.podGroupAPI.get(g).Status.Conditions, report.ConditionScheduled)
			if c == nil || c.Reason != reason.Placed {
				t.Fatalf("condition %+v, want that the group is placed", c)
			}
			return *c
		}
		r.node("n1", 8)
		r.gang(2, 2)
		r.schedule()
		r.placedSoon(2)
		r.pass(time.Minute)
		first := scheduled()
		r.end("g-0")
		r.end("g-1")
		again := time.Now().Truncate(time.Second)
		for _, name := range []string{"g-2", "g-3"} {
			r.pod(name, objects.InGroup(g.Name))
		}
		r.pass(time.Minute)
		second := scheduled()
		if !r.runs("g-3") || second.Message != first.Message || second.LastTransitionTime.Time.Before(again) {
			t.Errorf("scheduled %q since %v, want %q since the second start at %v", second.Message, second.LastTransitionTime, first.Message, again)
		}
		r.pass(time.Hour)
		if now := scheduled(); !now.LastTransitionTime.Equal(&second.LastTransitionTime) {
			t.Errorf("scheduled since %v an hour later, want since %v", now.LastTransitionTime, second.LastTransitionTime)
		}
	})
}

// The CRD of scheduler-plugins is enough. Its PodGroups have no conditions.
func TestReportSendsEventsWithoutConditions(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.createUnreportedPodGroup("uid")
		r.podGroupAPI.broken = func(int) error {
			return errors.New("failed to create typed patch object: .status.conditions: field not declared in schema")
		}
		r.pass(0)
		r.report("NoRoom", "why")
		r.pass(time.Hour)
		r.report("NeverFits", "why not")
		r.pass(time.Hour)
		r.wantWrites([]string{"NoRoom why", "NeverFits why not"}, []string{"NoRoom", "NeverFits"})
	})
}

func TestReportDropsNewsOfAPodGroupThatIsGone(t *testing.T) {
	resource := scheduling.PodGroups.GroupResource()
	for name, err := range map[string]error{
		"not found":                 apierrors.NewNotFound(resource, g.Name),
		"another one took the name": apierrors.NewConflict(resource, g.Name, errors.New("uid")),
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.createUnreportedPodGroup("old")
				r.podGroupAPI.broken = func(int) error { return err }
				r.pass(0)
				r.report("NoRoom", "why")
				r.pass(time.Hour)
				r.wantWrites([]string{"NoRoom why"}, nil)
				// The next PodGroup of the same name gets
				// its own condition, even if it is the same.
				r.podGroupAPI.drop(g)
				r.podGroupAPI.broken = nil
				r.createUnreportedPodGroup("new")
				r.pass(0)
				r.report("NoRoom", "why")
				r.wantWrites([]string{"NoRoom why", "NoRoom why"}, []string{"NoRoom"})
				if got := r.podGroupAPI.written()[1].uid; got != "new" {
					t.Errorf("written for PodGroup %s, want new", got)
				}
			})
		})
	}
}

func TestReportKeepsNewsThatComeWhileTheOldAreDropped(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.createUnreportedPodGroup("old")
		r.pass(0)
		r.podGroupAPI.broken = func(n int) error {
			if n > 1 {
				return nil
			}
			// During the write, the group is created anew and refused again.
			r.podGroupAPI.drop(g)
			r.createUnreportedPodGroup("new")
			time.Sleep(time.Second)
			r.pl.reporter.Report(g, report.NotScheduled("NoRoom", "why"), nil)
			return apierrors.NewConflict(scheduling.PodGroups.GroupResource(), g.Name, errors.New("uid"))
		}
		r.report("NoRoom", "why")
		r.pass(time.Minute)
		written := r.podGroupAPI.written()
		if len(written) != 2 || written[1].uid != types.UID("new") {
			t.Errorf("writes = %+v, want the second for the new PodGroup", written)
		}
	})
}

func TestReportGoesToAPodWhileThereIsNoPodGroup(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.report("NoRoom", "1 of 2")
		r.report("NoRoom", "2 of 3")
		r.report("NeverFits", "never")
		want := []event{
			{kind: "Pod", name: "g-0", reason: "NoRoom", message: "1 of 2", eventType: corev1.EventTypeWarning},
			{kind: "Pod", name: "g-0", reason: "NeverFits", message: "never", eventType: corev1.EventTypeWarning},
		}
		if diff := cmp.Diff(want, r.recorder.of("Pod"), cmp.AllowUnexported(event{})); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		r.createUnreportedPodGroup("uid")
		r.pass(50 * time.Millisecond)
		r.wantWrites([]string{"NeverFits never"}, []string{"NeverFits"})
	})
}

func TestReportReachesPodGroupCreatedMeanwhile(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.recorder.onEvent = func() {
			r.recorder.onEvent = nil
			r.createUnreportedPodGroup("uid")
			time.Sleep(time.Second)
		}
		r.report("NoRoom", "why")
		r.pass(time.Minute)
		r.wantWrites([]string{"NoRoom why"}, []string{"NoRoom"})
	})
}

func TestReportThatThereIsNoPodGroupIsNotWrittenOnIt(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.report(reason.NoPodGroup, "waits for PodGroup g")
		r.createUnreportedPodGroup("uid")
		r.pass(time.Minute)
		for _, w := range r.podGroupAPI.written() {
			if w.condition.Reason == reason.NoPodGroup {
				t.Errorf("written on the PodGroup: %+v", w.condition)
			}
		}
	})
}

func TestAStandbyReportsNothingUntilItLeads(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.standby.Store(true)
		r.pass(report.LeadingCheckInterval)
		r.createUnreportedPodGroup("uid")
		r.pass(0)
		r.report("NoRoom", "why")
		r.pass(time.Hour)
		r.wantWrites(nil, nil)
		r.report("NoRoom", "later")
		r.standby.Store(false)
		r.pass(report.LeadingCheckInterval)
		r.wantWrites([]string{"NoRoom later"}, []string{"NoRoom"})
	})
}

// A group that waits long among many is not written to every few seconds.
func TestMessageOnlyWritesBecomeRarer(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.createUnreportedPodGroup("uid")
		r.pass(0)
		begin := time.Now()
		var at []time.Duration
		for n := range 60 {
			r.report("NoRoom", fmt.Sprintf("%d of 100", n))
			r.pass(time.Second)
			for len(at) < len(r.podGroupAPI.written()) {
				at = append(at, time.Since(begin).Truncate(time.Second))
			}
		}
		want := []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 35 * time.Second, 55 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("numbers were written after %v, want %v", at, want)
		}
	})
}
