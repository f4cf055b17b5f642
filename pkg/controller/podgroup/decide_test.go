package podgroup

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestMaking(t *testing.T) {
	ofTrain := group.JobName("train", "job-uid")
	key := types.NamespacedName{Namespace: "ns", Name: ofTrain}
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	elsewhere := func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "default-scheduler" }
	leaving := func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.NewTime(start)) }
	unlabelled := func(p *corev1.Pod) {
		p.Labels = nil
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job-uid", Controller: new(true)}}
	}
	byName := func(p *corev1.Pod) { unlabelled(p); p.Labels = map[string]string{group.Label: ofTrain} }
	cases := map[string]struct {
		job           *batchv1.Job
		pods          []*corev1.Pod
		wantMinMember int32 // 0: no PodGroup
	}{
		"a Job before its pods":                        {job: job(4), wantMinMember: 4},
		"a Job with its pods":                          {job: job(4), pods: pods(2, unlabelled), wantMinMember: 4},
		"a Job of another scheduler":                   {job: job(4, elsewhere)},
		"a Job whose pods were sent to us":             {job: job(4, elsewhere), pods: pods(1, unlabelled), wantMinMember: 4},
		"a Job whose pods have all ended":              {job: job(4, elsewhere), pods: pods(1, unlabelled, in(corev1.PodSucceeded))},
		"a suspended Job":                              {job: job(4, suspended)},
		"a Job that is leaving":                        {job: job(4, leaving)},
		"a Job that is complete":                       {job: job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now))},
		"a Job that has failed":                        {job: job(4, condition(batchv1.JobFailed, corev1.ConditionTrue, now))},
		"labelled pods":                                {pods: pods(2, labelled(group.SizeLabel, "2")), wantMinMember: 2},
		"labelled pods that say no size":               {pods: pods(2)},
		"labelled pods with a wrong size":              {pods: pods(2, labelled(group.SizeLabel, "0")), wantMinMember: 1},
		"labelled pods that have ended":                {pods: pods(2, in(corev1.PodFailed))},
		"labelled pods that are leaving":               {pods: pods(2, deleting)},
		"pods of a Job that was not seen yet":          {pods: pods(2, unlabelled)},
		"labelled pods of a Job that was not seen yet": {pods: pods(2, byName)},
		"nothing at all":                               {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, _ := DefaultConfig().decide(observed{key: key, job: tc.job, pods: tc.pods, now: now}, memory{})
			if tc.wantMinMember == 0 {
				if d.create != nil || len(d.events) > 0 {
					t.Errorf("decide() = %+v, want nothing", d)
				}
				return
			}
			if d.create == nil || d.create.Spec.MinMember != tc.wantMinMember {
				t.Fatalf("decide() makes %+v, want minMember %d", d.create, tc.wantMinMember)
			}
			if got := (types.NamespacedName{Namespace: d.create.Namespace, Name: d.create.Name}); got != key {
				t.Errorf("makes PodGroup %v, want %v", got, key)
			}
			if owned := len(d.create.OwnerReferences) == 1; owned != (tc.job != nil) {
				t.Errorf("owners %+v of the PodGroup of Job %v", d.create.OwnerReferences, tc.job)
			}
			if reasons(d) != "Created" {
				t.Errorf("tells %q, want that it was created", reasons(d))
			}
		})
	}
}

func reasons(d decision) string {
	var rs []string
	for _, n := range d.events {
		rs = append(rs, n.reason)
	}
	return strings.Join(rs, " ")
}

// A label's value that no PodGroup can be called is told once, on a pod.
func TestUnusableGroupName(t *testing.T) {
	o := observed{key: types.NamespacedName{Namespace: "ns", Name: "My_Group"}, pods: pods(2, labelled(group.Label, "My_Group")), now: now}
	d, m := DefaultConfig().decide(o, memory{})
	if d.create != nil || reasons(d) != "InvalidGroupName" || d.events[0].about != o.pods[0] || !strings.Contains(d.events[0].text, `"My_Group"`) {
		t.Errorf("decide() = %+v, want a warning on the pod that quotes the name", d)
	}
	if d, _ = DefaultConfig().decide(o, m); len(d.events) > 0 {
		t.Errorf("tells %+v a second time", d.events)
	}
}

func TestRemoval(t *testing.T) {
	byJob := func(pg *scheduling.PodGroup) {
		pg.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "train"}}
	}
	copied := func(pg *scheduling.PodGroup) { ours(pg); pg.ManagedFields = nil }
	elsewhere := func(pg *scheduling.PodGroup) { ours(pg); pg.Annotations[SchedulerAnnotation] = "another" }
	applied := func(pg *scheduling.PodGroup) { ours(pg); pg.ManagedFields[0].Manager = "kubectl" }
	cases := map[string]struct {
		podGroup   *scheduling.PodGroup
		job        *batchv1.Job
		pods       []*corev1.Pod
		seen       bool
		empty      time.Duration // how long it has been without pods
		wantRemove bool
		wantAfter  time.Duration
	}{
		"ours, since a moment without pods":          {podGroup: podGroup(2, ours), wantAfter: time.Minute},
		"ours, 59 seconds without pods":              {podGroup: podGroup(2, ours), empty: 59 * time.Second, wantAfter: time.Second},
		"ours, a minute without pods":                {podGroup: podGroup(2, ours), empty: time.Minute, wantRemove: true},
		"ours, with a pod again":                     {podGroup: podGroup(2, ours), pods: pods(1), empty: time.Hour},
		"ours, with a pod that has ended":            {podGroup: podGroup(2, ours), pods: pods(1, in(corev1.PodSucceeded)), empty: time.Hour},
		"of a Job that has gone":                     {podGroup: podGroup(2, ours, byJob), empty: time.Hour},
		"of a Job that has made no pods for an hour": {podGroup: podGroup(4, ours, byJob), job: job(4), empty: time.Hour},
		"a user's, written by another client":        {podGroup: podGroup(2, applied), empty: time.Hour},
		"a user's":                                   {podGroup: podGroup(2), empty: time.Hour},
		"a user's, copied from one of ours":          {podGroup: podGroup(2, copied), empty: time.Hour},
		"of a controller for another scheduler":      {podGroup: podGroup(2, elsewhere), empty: time.Hour},
		"a user's that has had pods of ours":         {podGroup: podGroup(2), seen: true, empty: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := memory{seen: tc.seen}
			if tc.empty > 0 {
				m.empty = now.Add(-tc.empty)
			}
			d, _ := DefaultConfig().decide(observed{key: key, podGroup: tc.podGroup, job: tc.job, pods: tc.pods, now: now}, m)
			if d.remove != tc.wantRemove || d.after != tc.wantAfter {
				t.Errorf("decide(): remove %t, look again after %v, want %t, %v", d.remove, d.after, tc.wantRemove, tc.wantAfter)
			}
		})
	}
}

// Somebody else's PodGroup keeps its spec; without pods of ours it is not even
// given a status.
func TestPodGroupsOfOthers(t *testing.T) {
	d, _ := DefaultConfig().decide(observed{key: key, podGroup: podGroup(3), now: now}, memory{})
	if d.status != nil || d.after != 0 || len(d.events) > 0 {
		t.Errorf("without pods: %+v, want nothing", d)
	}
	d, _ = DefaultConfig().decide(observed{key: key, podGroup: podGroup(3), pods: pods(4, labelled(group.SizeLabel, "4")), now: now}, memory{})
	if d.minMember != 0 || d.remove {
		t.Errorf("with pods: %+v, want the spec left alone", d)
	}
	if d.status == nil || d.status.Phase != scheduling.PodGroupPending || d.status.CreationTime == nil {
		t.Errorf("with pods: status %+v, want a phase and a creation time", d.status)
	}
	left := podGroup(3)
	left.Status.Phase = scheduling.PodGroupRunning
	if d, _ = DefaultConfig().decide(observed{key: key, podGroup: left, now: now}, memory{seen: true}); d.status == nil || d.status.Phase != scheduling.PodGroupPending {
		t.Errorf("when its pods are gone: status %+v, want it pending again", d.status)
	}
}

// When a finished Job is removed its pods go before the PodGroup does: that is
// not told as a group which falls back.
func TestPodGroupOfAJobThatHasGoneIsLeftAlone(t *testing.T) {
	pg := podGroup(4, ours)
	pg.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "train"}}
	pg.Status.Phase = scheduling.PodGroupFinished
	leaving := job(4, func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.NewTime(now)) })
	for name, j := range map[string]*batchv1.Job{"gone": nil, "leaving": leaving} {
		if d, _ := DefaultConfig().decide(observed{key: key, podGroup: pg, job: j, pods: pods(1, bound), now: now}, memory{}); d.status != nil || d.minMember > 0 || len(d.events) > 0 {
			t.Errorf("Job %s: decide() = %+v, want nothing", name, d)
		}
	}
}

// A group's whole life, as the writes and events that it costs.
func TestLifeOfAGroup(t *testing.T) {
	size := labelled(group.SizeLabel, "3")
	steps := []struct {
		pods       []*corev1.Pod
		wantPhase  scheduling.PodGroupPhase // empty: no write
		wantEvents string
	}{
		{pods: pods(2, size), wantPhase: scheduling.PodGroupPending},
		{pods: pods(3, size), wantEvents: "Complete"},
		{pods: join(pods(1, size, bound), pods(2, size))},
		{pods: pods(3, size, bound), wantPhase: scheduling.PodGroupScheduling},
		{pods: join(pods(1, size, in(corev1.PodRunning)), pods(2, size, bound))},
		{pods: pods(3, size, in(corev1.PodRunning)), wantPhase: scheduling.PodGroupRunning},
		{pods: join(pods(1, size, in(corev1.PodSucceeded)), pods(2, size, in(corev1.PodRunning)))},
		{pods: pods(3, size, in(corev1.PodSucceeded)), wantPhase: scheduling.PodGroupFinished, wantEvents: "Finished"},
		{},
	}
	pg, m := podGroup(3, ours), memory{}
	for i, step := range steps {
		var d decision
		d, m = DefaultConfig().decide(observed{key: key, podGroup: pg, pods: step.pods, now: now}, m)
		var phase scheduling.PodGroupPhase
		if d.status != nil {
			phase, pg.Status = d.status.Phase, *d.status
		}
		if phase != step.wantPhase || reasons(d) != step.wantEvents || d.minMember != 0 {
			t.Errorf("step %d: writes phase %q and minMember %d, tells %q, want %q, 0, %q", i, phase, d.minMember, reasons(d), step.wantPhase, step.wantEvents)
		}
	}
	if pg.Status.Succeeded != 3 || pg.Status.Scheduled != 3 {
		t.Errorf("after its pods are gone the status is %+v, want what it came to", pg.Status)
	}
}

// A controller that starts anew does not tell again what a group's phase shows.
func TestCompletionIsNotToldAfterARestart(t *testing.T) {
	for phase, want := range map[scheduling.PodGroupPhase]string{
		scheduling.PodGroupPending: "Complete", scheduling.PodGroupScheduling: "", scheduling.PodGroupRunning: "",
	} {
		pg := podGroup(2, ours)
		pg.Status.Phase = phase
		d, _ := DefaultConfig().decide(observed{key: key, podGroup: pg, pods: pods(2, labelled(group.SizeLabel, "2")), now: now}, memory{})
		if reasons(d) != want {
			t.Errorf("a group that is %s: tells %q, want %q", phase, reasons(d), want)
		}
	}
}

func TestWrongLabelsAreToldOnceAndCleared(t *testing.T) {
	pg, m := podGroup(1, ours), memory{}
	look := func(value string) decision {
		var d decision
		d, m = DefaultConfig().decide(observed{key: key, podGroup: pg, pods: pods(2, labelled(group.SizeLabel, value)), now: now}, m)
		if d.status != nil {
			pg.Status = *d.status
		}
		if d.minMember > 0 {
			pg.Spec.MinMember = d.minMember
		}
		return d
	}
	if d := look("x"); reasons(d) != ReasonInvalidSize || pg.Status.Conditions[0].Status != metav1.ConditionFalse {
		t.Errorf("a wrong label: tells %q, conditions %+v", reasons(d), pg.Status.Conditions)
	}
	if d := look("x"); len(d.events) > 0 || d.status != nil {
		t.Errorf("the same wrong label again: %+v, want nothing", d)
	}
	if d := look("y"); reasons(d) != ReasonInvalidSize || !strings.Contains(pg.Status.Conditions[0].Message, `"y"`) {
		t.Errorf("another wrong label: tells %q, conditions %+v", reasons(d), pg.Status.Conditions)
	}
	// First the spec, then the status that tells of it.
	if d := look("2"); pg.Spec.MinMember != 2 || d.status != nil {
		t.Errorf("the label is right: minMember %d, status %+v, want 2 and no status yet", pg.Spec.MinMember, d.status)
	}
	if look("2"); pg.Spec.MinMember != 2 || pg.Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("the label is right: minMember %d, conditions %+v", pg.Spec.MinMember, pg.Status.Conditions)
	}
}
