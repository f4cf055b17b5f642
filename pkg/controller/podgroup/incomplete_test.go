package podgroup

import (
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// incomplete makes a PodGroup of 4 one that was reported as incomplete.
func incomplete(pg *scheduling.PodGroup) {
	meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: ConditionIncomplete, Status: metav1.ConditionTrue, Reason: reason.MembersMissing, Message: "3 of 4 pods are on nodes; policy wait"})
}

func TestLacking(t *testing.T) {
	running := in(corev1.PodRunning)
	three := join(pods(3, running), pods(1))
	succeeded := func(n int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Completions, j.Status.Succeeded = new(int32(4)), n }
	}
	cases := map[string]struct {
		o       observation
		past    time.Duration // how long it has lacked members
		want    string        // status and reason of the condition; empty: none
		wantNew bool
		after   time.Duration
	}{
		"nothing is on a node":                      {o: observation{pods: each(pods(4))}},
		"all are on nodes":                          {o: observation{pods: each(pods(4, bound))}, past: time.Hour},
		"one is missing since now":                  {o: observation{pods: each(three)}, after: 5 * time.Minute},
		"one has been missing for 4 minutes":        {o: observation{pods: each(three)}, past: 4 * time.Minute, after: time.Minute},
		"one has been missing for 5 minutes":        {o: observation{pods: each(three)}, past: 5 * time.Minute, want: "True MembersMissing", wantNew: true},
		"its annotation says a minute":              {o: observation{pods: each(join(pods(3, running, annotated(group.IncompleteTimeoutAnnotation, "1m")), pods(1, annotated(group.IncompleteTimeoutAnnotation, "1m"))))}, past: time.Minute, want: "True MembersMissing", wantNew: true},
		"its annotation is wrong":                   {o: observation{pods: each(join(pods(3, running, annotated(group.IncompleteTimeoutAnnotation, "x")), pods(1, annotated(group.IncompleteTimeoutAnnotation, "x"))))}, past: time.Minute, after: 4 * time.Minute},
		"after a restart it is told already":        {o: observation{podGroup: podGroup(4, ours, incomplete), pods: each(three)}, want: "True MembersMissing"},
		"it is whole again":                         {o: observation{podGroup: podGroup(4, ours, incomplete), pods: each(pods(4, bound))}, want: "False Complete", wantNew: true},
		"none is left":                              {o: observation{podGroup: podGroup(4, ours, incomplete), pods: each(pods(4))}, want: "False NotStarted", wantNew: true},
		"those on nodes are leaving":                {o: observation{pods: each(join(pods(3, running, deleting), pods(1)))}, past: time.Hour},
		"of bare pods what succeeded is served":     {o: observation{pods: each(join(pods(1, in(corev1.PodSucceeded)), pods(3, running)))}, past: time.Hour},
		"of bare pods what failed is not":           {o: observation{pods: each(join(pods(1, in(corev1.PodFailed)), pods(3, running)))}, past: time.Hour, want: "True MembersMissing", wantNew: true},
		"a Job that is winding down":                {o: of(job(4, succeeded(3))).with(nil, join(pods(3, ofTrain, in(corev1.PodSucceeded)), pods(1, ofTrain, running))), past: time.Hour},
		"a Job of which one lost its node":          {o: of(job(4, succeeded(1))).with(nil, join(pods(1, ofTrain, in(corev1.PodSucceeded)), pods(2, ofTrain, running), pods(1, ofTrain))), past: time.Hour, want: "True MembersMissing", wantNew: true},
		"a Job that lost an index for good":         {o: of(job(4, succeeded(0), func(j *batchv1.Job) { j.Status.FailedIndexes = new("2") })).with(nil, pods(3, ofTrain, running)), past: time.Hour},
		"a StatefulSet that is scaled to nothing":   {o: of(statefulSet(0, appsv1.ParallelPodManagement)).with(nil, pods(3, ownedBy("apps/v1", "StatefulSet", "train", "set-uid"), running)), past: time.Hour},
		"a Job that is complete":                    {o: of(job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now))).with(nil, pods(1, ofTrain, running)), past: time.Hour},
		"more are wanted than the minimum on nodes": {o: observation{pods: each(join(pods(4, bound), pods(8)))}, past: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.o.now = now
			if tc.o.podGroup == nil {
				tc.o.podGroup = podGroup(4, ours)
			}
			l := shortfall{}
			if tc.past > 0 {
				l = shortfall{since: now.Add(-tc.past), maxOnNodes: countOf(tc.o.pods).onNodes}
			}
			v := DefaultConfig().decideOnIncomplete(tc.o, sizeDecision{minMember: 4, size: 4, valid: true}, l)
			got := ""
			if v.condition != nil {
				got = string(v.condition.Status) + " " + v.condition.Reason
			}
			if got != tc.want || v.mustWrite != tc.wantNew || v.requeueAfter != tc.after || len(v.evict) > 0 {
				t.Errorf("lacking() = %q, news %t, again after %v, evicts %d; want %q, %t, %v, 0", got, v.mustWrite, v.requeueAfter, len(v.evict), tc.want, tc.wantNew, tc.after)
			}
			if told := len(v.events) > 0; told != (tc.wantNew && strings.HasPrefix(tc.want, "True")) {
				t.Errorf("tells %+v", v.events)
			}
		})
	}
}

// When a group is no longer incomplete, the condition says how many pods it has and needs. If its owners
// need no pods any more, it says that, although the group may still have pods on nodes.
func TestMessageOfAGroupThatIsNoLongerIncomplete(t *testing.T) {
	const needsNone = "no pods are needed: the owners of the group have ended, or want no pods now"
	running := in(corev1.PodRunning)
	complete := job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now))
	cases := map[string]struct {
		o    observation
		want string
	}{
		"the members are back":                    {observation{pods: each(pods(4, bound))}, "4 pods are on nodes, 4 are needed"},
		"no member is left":                       {observation{pods: each(pods(4))}, "no pod of the group is on a node"},
		"its Job is complete, and pods still run": {of(complete).with(nil, pods(2, ofTrain, running)), needsNone},
		"its Job is complete, and no pod is left": {of(complete), needsNone},
		"its StatefulSet is scaled to 0":          {of(statefulSet(0, appsv1.ParallelPodManagement)).with(nil, pods(3, ownedBy("apps/v1", "StatefulSet", "train", "set-uid"), running)), needsNone},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.o.podGroup, tc.o.now = podGroup(4, ours, incomplete), now
			v := DefaultConfig().decideOnIncomplete(tc.o, sizeDecision{minMember: 4, size: 4, valid: true}, shortfall{})
			if v.condition == nil || v.condition.Status != metav1.ConditionFalse || v.condition.Message != tc.want {
				t.Errorf("the condition is %+v, want it False with the message %q", v.condition, tc.want)
			}
		})
	}
}

// A group whose pods are bound one after the other, however slowly, is not incomplete.
func TestBindingInProgressIsNotIncomplete(t *testing.T) {
	c, l := DefaultConfig(), shortfall{}
	at := now
	for n := 1; n < 8; n++ {
		o := observation{podGroup: podGroup(8, ours), pods: each(join(pods(n, bound), pods(8-n))), now: at}
		v := c.decideOnIncomplete(o, sizeDecision{minMember: 8, size: 8}, l)
		if v.condition != nil {
			t.Fatalf("with %d of 8 after %v: %+v", n, at.Sub(now), v.condition)
		}
		l, at = v.shortfall, at.Add(4*time.Minute)
	}
	// A pod that comes and goes does not restart the timeout each time.
	for _, n := range []int{6, 7, 6} {
		v := c.decideOnIncomplete(observation{podGroup: podGroup(8, ours), pods: each(pods(n, bound)), now: at}, sizeDecision{minMember: 8, size: 8}, l)
		if l, at = v.shortfall, at.Add(4*time.Minute); v.condition != nil {
			return
		}
	}
	t.Error("a group that lacks a pod for 12 minutes is not told so")
}

// A user who adds pods to a running group does not make it incomplete: it
// is measured by the number with which it was complete, until none of its
// pods is on a node. A group that was never seen complete is not evicted.
func TestWhatAGroupNeverHadIsNotLost(t *testing.T) {
	type step struct {
		need     int32
		onNodes  int
		wantLost bool // an hour later
	}
	cases := map[string][]step{
		"it never was whole":                      {{5, 3, false}},
		"it is scaled up":                         {{3, 3, false}, {5, 3, false}},
		"it is scaled up and loses one":           {{3, 3, false}, {5, 2, true}},
		"it was whole after it was scaled up":     {{3, 3, false}, {5, 5, false}, {5, 4, true}},
		"it has got some of what it was scaled":   {{3, 3, false}, {5, 4, false}, {5, 3, false}},
		"it is scaled down":                       {{5, 5, false}, {3, 3, false}},
		"it is scaled down and loses one":         {{5, 5, false}, {3, 2, true}},
		"it is scaled down and up again":          {{5, 5, false}, {3, 3, false}, {5, 3, false}},
		"it is scaled down and up while it lacks": {{5, 5, false}, {3, 2, true}, {5, 2, true}},
		"it is scaled down and up and gains one":  {{5, 5, false}, {3, 2, true}, {5, 3, false}},
		"it began anew":                           {{3, 3, false}, {5, 0, false}, {5, 3, false}},
		"it began anew, whole":                    {{3, 3, false}, {5, 0, false}, {5, 5, false}, {5, 3, true}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			m, at := memory{uid: "pg-uid", hadPods: true}, now
			pg := podGroup(1, ours)
			for i, step := range steps {
				var d decision
				for range 2 {
					pg.Spec.MinMember = step.need
					size := labelled(group.SizeLabel, strconv.Itoa(int(step.need)))
					policy := annotated(group.IncompletePolicyAnnotation, "restart")
					members := join(pods(step.onNodes, size, policy, in(corev1.PodRunning)), pods(int(step.need)-step.onNodes, size, policy))
					d, m = DefaultConfig().decide(observation{key: key, podGroup: pg, pods: each(members), now: at}, m)
					at = at.Add(time.Hour)
				}
				if lost := len(d.evict) > 0; lost != step.wantLost {
					t.Errorf("step %d: evicts %d, want any %t", i, len(d.evict), step.wantLost)
				}
			}
		})
	}
}

// A group is restarted of which one pod has succeeded, two run, one is bound and one waits
// for a node. Its pods are evicted until all are gone, except the one that has succeeded.
func TestRestart(t *testing.T) {
	policy := annotated(group.IncompletePolicyAnnotation, "restart")
	members := join(pods(1, policy, in(corev1.PodSucceeded)), pods(2, policy, in(corev1.PodRunning)), pods(1, policy, bound), pods(1, policy))
	pg, m := podGroup(5, ours), memory{uid: "pg-uid", shortfall: shortfall{since: now.Add(-time.Hour), maxOnNodes: 9, completeWith: 5}}
	look := func(at time.Time) decision {
		var d decision
		d, m = DefaultConfig().decide(observation{key: key, podGroup: pg, pods: each(members), now: at}, m)
		if d.status != nil {
			pg.Status = *d.status
		}
		return d
	}
	said := func() string { return meta.FindStatusCondition(pg.Status.Conditions, ConditionIncomplete).Message }
	d := look(now)
	if len(d.evict) != 3 || d.requeueAfter != minEvictBackoff || !strings.Contains(reasons(d), "MembersMissing Restarting") {
		t.Fatalf("decide() evicts %d, tells %q, looks again after %v, want 3, both events, %v", len(d.evict), reasons(d), d.requeueAfter, minEvictBackoff)
	}
	for _, set := range d.evict {
		pod := set.pod
		if pod.Status.Phase == corev1.PodSucceeded || pod.Spec.NodeName == "" {
			t.Errorf("evicts %+v", pod)
		}
	}
	if want := "4 of 5 pods are on nodes; policy restart"; said() != want {
		t.Errorf("the condition says %q, want %q", said(), want)
	}
	m.shortfall.evictError = "pod p: budget"
	if d = look(now.Add(time.Second)); len(d.evict) > 0 || d.status == nil || !strings.Contains(said(), "not evicted yet: pod p: budget") || len(d.events) > 0 {
		t.Errorf("after a refusal: %+v, the condition says %q", d, said())
	}
	if d = look(now.Add(2 * time.Second)); d.status != nil {
		t.Errorf("the refusal is written again: %+v", d.status)
	}
	if d = look(now.Add(minEvictBackoff)); len(d.evict) != 3 || d.requeueAfter != 2*minEvictBackoff || len(d.events) > 0 {
		t.Errorf("the second time: %+v, want 3 evicted, no event and twice the time", d)
	}
	// The condition is set also if the policy becomes Restart later.
	told := shortfall{since: now.Add(-time.Hour), maxOnNodes: 9, isReported: true, completeWith: 5}
	if d, _ = DefaultConfig().decide(observation{key: key, podGroup: pg, pods: each(members), now: now}, memory{uid: "pg-uid", enoughPods: true, shortfall: told}); reasons(d) != reason.Restarting {
		t.Errorf("a group that was told to be incomplete: tells %q, want %q", reasons(d), reason.Restarting)
	}
	members = join(pods(1, in(corev1.PodSucceeded)), pods(3, bound, deleting))
	if d = look(now.Add(minEvictBackoff)); len(d.evict) > 0 || m.shortfall != (shortfall{}) || meta.IsStatusConditionTrue(pg.Status.Conditions, ConditionIncomplete) {
		t.Errorf("when they leave: %+v, conditions %+v, remembered %+v", d, pg.Status.Conditions, m.shortfall)
	}
}

// A controller that has just started does not know with how many pods
// a group was complete: a group that was scaled up looks like one that
// has lost members. A restart that another process has begun goes on.
func TestAfterARestartOfTheController(t *testing.T) {
	policy := annotated(group.IncompletePolicyAnnotation, "restart")
	three := join(pods(3, policy, in(corev1.PodRunning)), pods(2, policy))
	saying := func(reason string) func(*scheduling.PodGroup) {
		return func(pg *scheduling.PodGroup) {
			meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: ConditionIncomplete, Status: metav1.ConditionTrue, Reason: reason, Message: "3 of 5 pods are on nodes; policy restart"})
		}
	}
	const unseen = "3 of 5 pods are on nodes; policy restart; not evicted: the controller has not seen the group complete since the controller was started"
	cases := map[string]struct {
		podGroup   *scheduling.PodGroup
		wantEvicts int
		wantReason string
		wantText   string
	}{
		"nothing was told":     {podGroup(5, ours), 0, reason.MembersMissing, unseen},
		"members were missing": {podGroup(5, ours, saying(reason.MembersMissing)), 0, reason.MembersMissing, unseen},
		"it was being evicted": {podGroup(5, ours, saying(reason.Restarting)), 3, reason.Restarting, "3 of 5 pods are on nodes; policy restart"},
		"it had been evicted": {podGroup(5, ours, func(pg *scheduling.PodGroup) {
			meta.SetStatusCondition(&pg.Status.Conditions, metav1.Condition{Type: ConditionIncomplete, Status: metav1.ConditionFalse, Reason: reason.NotStarted, Message: "no pod of the group is on a node"})
		}), 0, reason.MembersMissing, unseen},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := observation{key: key, podGroup: tc.podGroup, pods: each(three), now: now}
			d, m := DefaultConfig().decide(o, memory{})
			if len(d.evict) == 0 {
				o.now = now.Add(time.Hour)
				d, _ = DefaultConfig().decide(o, m)
			}
			if len(d.evict) != tc.wantEvicts {
				t.Errorf("evicts %d, want %d", len(d.evict), tc.wantEvicts)
			}
			status := &tc.podGroup.Status
			if d.status != nil {
				status = d.status
			}
			if c := meta.FindStatusCondition(status.Conditions, ConditionIncomplete); c.Status != metav1.ConditionTrue || c.Reason != tc.wantReason || c.Message != tc.wantText {
				t.Errorf("the condition is %+v, want reason %s and %q", c, tc.wantReason, tc.wantText)
			}
		})
	}
}

func TestWrongAnnotations(t *testing.T) {
	cases := map[string]struct {
		podGroup, pod map[string]string
		wantWrong     string
		wantPolicy    string
		wantTimeout   time.Duration
	}{
		"none":                             {nil, nil, "", "wait", 5 * time.Minute},
		"the PodGroup's goes before":       {map[string]string{group.IncompletePolicyAnnotation: "restart"}, map[string]string{group.IncompletePolicyAnnotation: "x"}, "", "restart", 5 * time.Minute},
		"a policy that does not exist":     {nil, map[string]string{group.IncompletePolicyAnnotation: "evict"}, `annotation fluence.flux-framework.org/incomplete-policy: "evict": must be one of wait, restart`, "wait", 5 * time.Minute},
		"no duration, but a right policy":  {map[string]string{group.IncompleteTimeoutAnnotation: "soon", group.IncompletePolicyAnnotation: "restart"}, nil, `annotation fluence.flux-framework.org/incomplete-timeout: "soon": must be a duration of at least 1s, such as 90s`, "restart", 5 * time.Minute},
		"a duration of the pods' template": {nil, map[string]string{group.IncompleteTimeoutAnnotation: "90s"}, "", "wait", 90 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pg := podGroup(1)
			pg.Annotations = tc.podGroup
			o := observation{key: key, podGroup: pg, pods: each(pods(1, func(p *corev1.Pod) { p.Annotations = tc.pod })), now: now}
			if policy, timeout, _ := o.incompletePolicy(5 * time.Minute); policy != tc.wantPolicy || timeout != tc.wantTimeout {
				t.Errorf("handling() = %q, %v, want %q, %v", policy, timeout, tc.wantPolicy, tc.wantTimeout)
			}
			d, m := DefaultConfig().decide(o, settled)
			valid := meta.FindStatusCondition(d.status.Conditions, ConditionValid)
			if tc.wantWrong == "" {
				if valid.Status != metav1.ConditionTrue {
					t.Errorf("condition %+v, want it valid", valid)
				}
				return
			}
			if valid.Status != metav1.ConditionFalse || valid.Reason != reason.InvalidAnnotation || valid.Message != tc.wantWrong || !strings.Contains(reasons(d), reason.InvalidAnnotation) {
				t.Errorf("condition %+v and events %q, want %q", valid, reasons(d), tc.wantWrong)
			}
			if d, _ = DefaultConfig().decide(o, m); strings.Contains(reasons(d), reason.InvalidAnnotation) {
				t.Errorf("tells %q a second time", reasons(d))
			}
		})
	}
}
