package podgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestMaking(t *testing.T) {
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	elsewhere := func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "default-scheduler" }
	leaving := func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.NewTime(start)) }
	second := func(j *batchv1.Job) { j.Name, j.UID = "eval", "other-uid" }
	ofSet := ownedBy("apps/v1", "StatefulSet", "train", "set-uid")
	unseen := func(o observation) observation { o.ownerNotCached = true; return o }
	top := func(kind string, s ownerState, size int32) observation {
		ref := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: kind, Name: "train", UID: "1"}
		w := topOwner{topOwnerRef: topOwnerRefFrom(ref), state: s, size: group.Size{Size: size, Min: size}}
		return observation{key: types.NamespacedName{Namespace: "ns", Name: w.owner.PodGroupName()}, now: now, topOwners: []topOwner{w}}
	}
	labelledJobs := func(jobs ...*batchv1.Job) observation {
		var objs []client.Object
		for _, j := range jobs {
			j.Spec.Template.Labels = map[string]string{group.Label: "g"}
			objs = append(objs, j)
		}
		o := of(objs...)
		o.key = key
		return o
	}
	cases := map[string]struct {
		o             observation
		wantMinMember int32 // 0: no PodGroup
		wantOwners    int
	}{
		"a Job before its pods":                        {of(job(4)), 4, 1},
		"a Job with its pods":                          {of(job(4)).with(nil, pods(2, ofTrain)), 4, 1},
		"a Job of another scheduler":                   {of(job(4, elsewhere)), 0, 0},
		"a Job whose pods were sent to us":             {of(job(4, elsewhere)).with(nil, pods(1, ofTrain)), 4, 1},
		"a Job whose pods have all ended":              {of(job(4, elsewhere)).with(nil, pods(1, ofTrain, in(corev1.PodSucceeded))), 0, 0},
		"a suspended Job":                              {of(job(4, suspended)), 0, 0},
		"a Job that is leaving":                        {of(job(4, leaving)), 0, 0},
		"a Job that is complete":                       {of(job(4, condition(batchv1.JobComplete, corev1.ConditionTrue, now))), 0, 0},
		"a Job that has failed":                        {of(job(4, condition(batchv1.JobFailed, corev1.ConditionTrue, now))), 0, 0},
		"a StatefulSet of pods in parallel":            {of(statefulSet(3, appsv1.ParallelPodManagement)), 3, 1},
		"a StatefulSet of one pod after another":       {of(statefulSet(3, appsv1.OrderedReadyPodManagement)), 1, 1},
		"a StatefulSet of no pods":                     {of(statefulSet(0, appsv1.ParallelPodManagement)), 0, 0},
		"a StatefulSet of no pods with its last one":   {of(statefulSet(0, appsv1.ParallelPodManagement)).with(nil, pods(1, ofSet)), 0, 0},
		"a Job of no pods":                             {of(job(0)), 0, 0},
		"of two Jobs one is of no pods":                {labelledJobs(job(4), job(0, second)).with(nil, pods(1, ofTrain)), 4, 2},
		"a labelled Job of no pods with its last one":  {labelledJobs(job(0)).with(nil, pods(1, ofTrain)), 0, 0},
		"a Job of no pods and a bare pod of one label": {labelledJobs(job(0)).with(nil, pods(1, labelled(group.SizeLabel, "2"))), 2, 1},
		"labelled pods":                                {observation{key: key}.with(nil, pods(2, labelled(group.SizeLabel, "2"))), 2, 0},
		"labelled pods that say no size":               {observation{key: key}.with(nil, pods(2)), 0, 0},
		"labelled pods with a wrong size":              {observation{key: key}.with(nil, pods(2, labelled(group.SizeLabel, "0"))), 1, 0},
		"labelled pods that have ended":                {observation{key: key}.with(nil, pods(2, in(corev1.PodFailed))), 0, 0},
		"labelled pods that are leaving":               {observation{key: key}.with(nil, pods(2, deleting)), 0, 0},
		"two Jobs of one label ask for the sum":        {labelledJobs(job(4), job(2, second)).with(nil, pods(1, ofTrain)), 6, 2},
		"two Jobs of one label before their pods":      {labelledJobs(job(4), job(2, second)), 0, 0},
		"two Jobs of one label that say a size":        {labelledJobs(job(4), job(2, second)).with(nil, pods(1, ofTrain, labelled(group.SizeLabel, "5"))), 5, 2},
		"of two Jobs one is suspended":                 {labelledJobs(job(4), job(2, second, suspended)).with(nil, pods(1, ofTrain)), 4, 2},
		"a Job and a bare pod of one label":            {labelledJobs(job(4)).with(nil, join(pods(1, ofTrain), pods(1))), 0, 0},
		"a label on pods of a Job that is leaving":     {labelledJobs(job(4, leaving)).with(nil, pods(1, ofTrain, labelled(group.SizeLabel, "2"))), 0, 0},
		"pods of a Job that was not seen yet":          {unseen(observation{key: key}), 0, 0},
		"labelled pods of a Job that was not seen yet": {unseen(observation{key: key}.with(nil, pods(2, labelled(group.SizeLabel, "2")))), 0, 0},
		"pods of a DaemonSet that say a size":          {top("DaemonSet", unsized, 0).with(nil, pods(1, labelled(group.SizeLabel, "3"))), 3, 1},
		"a workload whose kind may not be read":        {top("MPIJob", unreadable, 0).with(nil, pods(1, labelled(group.SizeLabel, "3"))), 3, 1},
		"a workload that has gone":                     {top("MPIJob", missing, 0).with(nil, pods(1, labelled(group.SizeLabel, "3"))), 0, 0},
		"a workload that is read from the API":         {top("MPIJob", readable, 5).with(nil, pods(1, ownedBy("example.com/v1", "MPIJob", "train", "1"))), 5, 1},
		"nothing at all":                               {observation{key: key}, 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.o.now = now
			d, m := DefaultConfig().decide(tc.o, memory{})
			if tc.wantMinMember == 0 {
				if d.create != nil || len(d.events) > 0 || m.created != "" {
					t.Errorf("decide() = %+v, want nothing", d)
				}
				return
			}
			if d.create == nil || d.create.Spec.MinMember != tc.wantMinMember {
				t.Fatalf("decide() makes %+v, want minMember %d", d.create, tc.wantMinMember)
			}
			if got := client.ObjectKeyFromObject(d.create); got != tc.o.key {
				t.Errorf("makes PodGroup %v, want %v", got, tc.o.key)
			}
			if got := d.create.OwnerReferences; len(got) != tc.wantOwners {
				t.Errorf("owners %+v, want %d", got, tc.wantOwners)
			}
			if said := fmt.Sprintf("minMember %d", tc.wantMinMember); !strings.HasPrefix(m.created, "Created the PodGroup for ") || !strings.HasSuffix(m.created, said) {
				t.Errorf("has to tell %q, want that it was created with %s", m.created, said)
			}
			if at, err := time.Parse(metav1.RFC3339Micro, d.create.Annotations[scheduling.CreationTimeAnnotation]); err != nil || at.After(now) || now.Sub(at) > time.Second {
				t.Errorf("annotations %v, want one with the time", d.create.Annotations)
			}
		})
	}
}

// If the kind of an owner is not installed, or may not
// be read, an event on a pod says once what helps.
func TestAWorkloadThatCannotBeReadIsToldOnItsPods(t *testing.T) {
	ref := metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"}
	w := topOwner{topOwnerRef: topOwnerRefFrom(ref), state: unreadable, why: "the API server does not serve JobSet in jobset.x-k8s.io/v1alpha2"}
	o := observation{key: types.NamespacedName{Namespace: "ns", Name: w.owner.PodGroupName()}, topOwners: []topOwner{w}, pods: each(pods(1)), now: now, requeueAfter: time.Second}
	d, m := DefaultConfig().decide(o, memory{})
	if d.create != nil || reasons(d) != reason.OwnerUnreadable || d.events[0].about != o.pods[0].pod || d.requeueAfter != time.Second {
		t.Errorf("decide() = %+v, want a warning on the pod and another look in a second", d)
	}
	for _, want := range []string{w.why, "JobSet train", group.SizeLabel} {
		if !strings.Contains(d.events[0].text, want) {
			t.Errorf("the event says %q, want %q in it", d.events[0].text, want)
		}
	}
	if d, _ = DefaultConfig().decide(o, m); len(d.events) > 0 || d.requeueAfter != time.Second {
		t.Errorf("a second time: %+v, want no event and another look", d)
	}
}

// Owners that come after the PodGroup was created are added once.
func TestOwnersAreKeptUp(t *testing.T) {
	second := job(2, func(j *batchv1.Job) { j.Name, j.UID = "eval", "other-uid" })
	o := of(job(4), second).with(podGroup(6, ours, byTrain), pods(1, ofTrain))
	o.key = key
	d, _ := DefaultConfig().decide(o, memory{})
	if d.apply == nil || len(d.apply.owners) != 2 || d.apply.minMember != 6 || d.status != nil {
		t.Fatalf("decide() = %+v, want both owners applied, and nothing else", d)
	}
	for _, ref := range d.apply.owners {
		if *ref.Controller || *ref.BlockOwnerDeletion {
			t.Errorf("owner %+v controls the PodGroup or waits for it", ref)
		}
	}
	o.podGroup.OwnerReferences = d.apply.owners
	if d, _ = DefaultConfig().decide(o, memory{}); d.apply != nil {
		t.Errorf("applies %+v again", d.apply)
	}
	o.podGroup = podGroup(6)
	if d, _ = DefaultConfig().decide(o, memory{}); d.apply != nil {
		t.Errorf("applies %+v to a user's PodGroup", d.apply)
	}
	// An owner that is being deleted would take the PodGroup along.
	o.podGroup = podGroup(4, ours, byTrain)
	o.topOwners[1].deleting = true
	if d, _ = DefaultConfig().decide(o, memory{}); d.apply != nil {
		t.Errorf("applies %+v for an owner that is leaving", d.apply)
	}
}

func reasons(d decision) string {
	var rs []string
	for _, n := range d.events {
		rs = append(rs, n.reason)
	}
	return strings.Join(rs, " ")
}

// An event on a pod reports once that the value of the label cannot be the name of a PodGroup.
func TestUnusableGroupName(t *testing.T) {
	o := observation{key: types.NamespacedName{Namespace: "ns", Name: "My_Group"}, pods: each(pods(2, labelled(group.Label, "My_Group"))), now: now}
	d, m := DefaultConfig().decide(o, memory{})
	if d.create != nil || reasons(d) != "InvalidGroupName" || d.events[0].about != o.pods[0].pod || !strings.Contains(d.events[0].text, `"My_Group"`) {
		t.Errorf("decide() = %+v, want a warning on the pod that quotes the name", d)
	}
	if d, _ = DefaultConfig().decide(o, m); len(d.events) > 0 {
		t.Errorf("tells %+v a second time", d.events)
	}
}

func TestRemoval(t *testing.T) {
	copied := func(pg *scheduling.PodGroup) { ours(pg); pg.ManagedFields = nil }
	elsewhere := func(pg *scheduling.PodGroup) { ours(pg); pg.Annotations[SchedulerAnnotation] = "another" }
	applied := func(pg *scheduling.PodGroup) { ours(pg); pg.ManagedFields[0].Manager = "kubectl" }
	// train is a Job that is gone or being deleted.
	train := func(s ownerState) []topOwner { return []topOwner{{state: s, deleting: s != missing}} }
	cases := map[string]struct {
		podGroup   *scheduling.PodGroup
		job        *batchv1.Job
		tops       []topOwner
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
		"of a Job that has just gone":                {podGroup: podGroup(2, ours, byTrain), tops: train(missing), wantAfter: time.Minute},
		"of a Job that went unnoticed":               {podGroup: podGroup(2, ours, byTrain), tops: train(missing), empty: time.Hour, wantRemove: true},
		"of a Job that went but for its pods":        {podGroup: podGroup(2, ours, byTrain), tops: train(missing), pods: pods(1), empty: time.Hour},
		"of a Job that is being deleted":             {podGroup: podGroup(2, ours, byTrain), tops: train(readable), empty: time.Hour},
		"of a Job that has made no pods for an hour": {podGroup: podGroup(4, ours, byTrain), job: job(4), empty: time.Hour},
		"a user's, written by another client":        {podGroup: podGroup(2, applied), empty: time.Hour},
		"a user's":                                   {podGroup: podGroup(2), empty: time.Hour},
		"a user's, copied from one of ours":          {podGroup: podGroup(2, copied), empty: time.Hour},
		"of a controller for another scheduler":      {podGroup: podGroup(2, elsewhere), empty: time.Hour},
		"a user's that has had pods of ours":         {podGroup: podGroup(2), seen: true, empty: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := memory{uid: "pg-uid", hadPods: tc.seen}
			if tc.empty > 0 {
				m.emptySince = now.Add(-tc.empty)
			}
			o := observation{key: key, now: now, topOwners: tc.tops}
			if tc.job != nil {
				o = of(tc.job)
			}
			d, _ := DefaultConfig().decide(o.with(tc.podGroup, tc.pods), m)
			if d.remove != tc.wantRemove || d.requeueAfter != tc.wantAfter {
				t.Errorf("decide(): remove %t, look again after %v, want %t, %v", d.remove, d.requeueAfter, tc.wantRemove, tc.wantAfter)
			}
		})
	}
}

// A PodGroup of another creator keeps its spec. Without
// pods of this scheduler it does not even get a status.
func TestPodGroupsOfOthers(t *testing.T) {
	d, _ := DefaultConfig().decide(observation{key: key, podGroup: podGroup(3), now: now}, memory{})
	if d.status != nil || d.requeueAfter != 0 || len(d.events) > 0 {
		t.Errorf("without pods: %+v, want nothing", d)
	}
	d, _ = DefaultConfig().decide(observation{key: key, podGroup: podGroup(3), pods: each(pods(4, labelled(group.SizeLabel, "4"))), now: now}, settled)
	if d.apply != nil || d.remove {
		t.Errorf("with pods: %+v, want the spec left alone", d)
	}
	if d.status == nil || d.status.Phase != scheduling.PodGroupPending || d.status.CreationTime == nil {
		t.Errorf("with pods: status %+v, want a phase and a creation time", d.status)
	}
	left := podGroup(3)
	left.Status.Phase = scheduling.PodGroupRunning
	if d, _ = DefaultConfig().decide(observation{key: key, podGroup: left, now: now}, memory{uid: "pg-uid", hadPods: true}); d.status == nil || d.status.Phase != scheduling.PodGroupPending {
		t.Errorf("when its pods are gone: status %+v, want it pending again", d.status)
	}
	if d, _ = DefaultConfig().decide(observation{key: key, podGroup: left, now: now}, memory{uid: "another", hadPods: true}); d.status != nil {
		t.Errorf("made again without pods: status %+v, want none", d.status)
	}
}

// When a finished Job is removed, its pods go before the PodGroup
// does. The status does not show a group that falls back.
func TestPodGroupOfAJobThatHasGoneIsLeftAlone(t *testing.T) {
	pg := podGroup(4, ours, byTrain)
	pg.Status.Phase = scheduling.PodGroupFinished
	leaving := job(4, func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.NewTime(now)) })
	goneTop := topOwner{topOwnerRef: topOwnerRefFrom(pg.OwnerReferences[0]), state: missing}
	for name, o := range map[string]observation{"gone": {key: key, now: now, topOwners: []topOwner{goneTop}}, "leaving": of(leaving)} {
		if d, _ := DefaultConfig().decide(o.with(pg, pods(1, bound)), memory{}); d.status != nil || d.apply != nil || len(d.events) > 0 {
			t.Errorf("Job %s: decide() = %+v, want nothing", name, d)
		}
	}
}

// The whole life of a group that waits, as the writes and events that it costs.
func TestLifeOfAGroup(t *testing.T) {
	size := labelled(group.SizeLabel, "3")
	steps := []struct {
		pods       []*corev1.Pod
		wantPhase  scheduling.PodGroupPhase // empty: no write
		wantEvents string
	}{
		{pods: pods(2, size), wantPhase: scheduling.PodGroupPending},
		{pods: pods(3, size), wantEvents: "Complete"},
		// A pod is replaced.
		{pods: pods(2, size)},
		{pods: pods(3, size)},
		{pods: join(pods(1, size, bound), pods(2, size))},
		{pods: pods(3, size, bound)},
		{pods: join(pods(1, size, in(corev1.PodRunning)), pods(2, size, bound))},
		{pods: pods(3, size, in(corev1.PodRunning)), wantPhase: scheduling.PodGroupRunning},
		{pods: join(pods(1, size, in(corev1.PodSucceeded)), pods(2, size, in(corev1.PodRunning)))},
		{pods: pods(3, size, in(corev1.PodSucceeded)), wantPhase: scheduling.PodGroupFinished, wantEvents: "Finished"},
		{},
	}
	pg, m := podGroup(3, ours), settled
	for i, step := range steps {
		var d decision
		d, m = DefaultConfig().decide(observation{key: key, podGroup: pg, pods: each(step.pods), now: now}, m)
		var phase scheduling.PodGroupPhase
		if d.status != nil {
			phase, pg.Status = d.status.Phase, *d.status
		}
		if phase != step.wantPhase || reasons(d) != step.wantEvents || d.apply != nil {
			t.Errorf("step %d: writes phase %q and spec %+v, tells %q, want %q, nothing, %q", i, phase, d.apply, reasons(d), step.wantPhase, step.wantEvents)
		}
	}
	if pg.Status.Succeeded != 3 || pg.Status.Scheduled != 0 || pg.Status.Desired != 3 {
		t.Errorf("after its pods are gone the status is %+v, want what it came to", pg.Status)
	}
}

// What a group costs in the first seconds after its PodGroup was created. Its first status is
// held for a second at most, and the event of its creation until enough pods exist.
func TestTheFirstSecondsOfAGroup(t *testing.T) {
	const created, complete = "Created the PodGroup for Job train: minMember 3", "3 pods exist, minMember is 3"
	type step struct {
		at        time.Duration
		pods      []*corev1.Pod
		wantPhase scheduling.PodGroupPhase // empty: no write
		wantTold  string
		wantAfter time.Duration
	}
	running := in(corev1.PodRunning)
	cases := map[string]struct {
		invalid bool
		lag     time.Duration // from the Job to its PodGroup
		steps   []step
	}{
		"it runs within a second": {steps: []step{
			{wantAfter: time.Second},
			{at: 200 * time.Millisecond, pods: pods(2), wantAfter: 800 * time.Millisecond},
			{at: 250 * time.Millisecond, pods: pods(3), wantTold: created + "; " + complete, wantAfter: 750 * time.Millisecond},
			{at: 500 * time.Millisecond, pods: pods(3, bound), wantAfter: 500 * time.Millisecond},
			{at: 900 * time.Millisecond, pods: pods(3, running), wantPhase: scheduling.PodGroupRunning},
			{at: time.Second, pods: pods(3, running)},
		}},
		"its pods are on nodes within a second": {steps: []step{
			{pods: pods(3), wantTold: created + "; " + complete, wantAfter: time.Second},
			{at: 999 * time.Millisecond, pods: pods(3, bound), wantAfter: time.Millisecond},
			{at: time.Second, pods: pods(3, bound), wantPhase: scheduling.PodGroupScheduling},
			{at: time.Minute, pods: pods(3, bound)},
		}},
		"it waits": {steps: []step{
			{pods: pods(3), wantTold: created + "; " + complete, wantAfter: time.Second},
			{at: time.Second, pods: pods(3), wantPhase: scheduling.PodGroupPending},
			{at: time.Minute, pods: pods(3, bound), wantAfter: DefaultConfig().CountDelay},
			{at: time.Minute + time.Second, pods: pods(3, running), wantPhase: scheduling.PodGroupRunning},
		}},
		"its pods come late": {steps: []step{
			{wantAfter: time.Second},
			{at: time.Second, wantPhase: scheduling.PodGroupPending, wantAfter: 9 * time.Second},
			{at: 4 * time.Second, pods: pods(3), wantTold: created + "; " + complete},
		}},
		"its pods come very late": {steps: []step{
			{wantAfter: time.Second},
			{at: time.Second, wantPhase: scheduling.PodGroupPending, wantAfter: 9 * time.Second},
			{at: 10 * time.Second, pods: pods(2), wantTold: created},
			{at: 11 * time.Second, pods: pods(3), wantTold: complete},
		}},
		"its PodGroup comes so late after the Job that only the status has its time": {lag: 11 * time.Second, steps: []step{
			{wantPhase: scheduling.PodGroupPending, wantAfter: 10 * time.Second},
		}},
		"its labels are invalid": {invalid: true, steps: []step{
			{pods: pods(3), wantPhase: scheduling.PodGroupPending, wantTold: "Created the PodGroup for Job train: minMember 1, " + `label fluence.group-size: "x": must be a whole number from 1 to 100000`},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, m := of(job(3, func(j *batchv1.Job) {
				if tc.invalid {
					j.Spec.Template.Labels = map[string]string{group.SizeLabel: "x"}
				}
			})), memory{}
			d, m := DefaultConfig().decide(o, m)
			o.podGroup = d.create
			o.podGroup.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager}}
			o.podGroup.UID, o.podGroup.CreationTimestamp = "pg-uid", metav1.NewTime(now.Truncate(time.Second))
			o.podGroup.CreationTimestamp = metav1.NewTime(o.podGroup.CreationTimestamp.Add(tc.lag))
			for _, step := range tc.steps {
				for _, pod := range step.pods {
					ofTrain(pod)
				}
				o.now, o.pods = now.Add(step.at), each(step.pods)
				d, m = DefaultConfig().decide(o, m)
				var phase scheduling.PodGroupPhase
				if d.status != nil {
					phase, o.podGroup.Status = d.status.Phase, *d.status
				}
				var told []string
				for _, n := range d.events {
					told = append(told, n.text)
				}
				if phase != step.wantPhase || strings.Join(told, ", ") != step.wantTold || d.requeueAfter != step.wantAfter {
					t.Errorf("after %v: writes phase %q, tells %q, looks again after %v; want %q, %q, %v", step.at, phase, told, d.requeueAfter, step.wantPhase, step.wantTold, step.wantAfter)
				}
			}
			if at := o.podGroup.Status.CreationTime; at == nil || !at.Equal(new(metav1.NewMicroTime(now.Truncate(time.Microsecond)))) {
				t.Errorf("creation time %v, want that of the first look, %v", at, now)
			}
		})
	}
}

// With the CRD's default the PodGroup of a group that starts has nothing to be told, so it is written
// when the group runs. One that is refused, invalid or slow gets the same as without a default.
func TestTheFirstStatusOfAGroupBesideTheDefault(t *testing.T) {
	const told = "Created the PodGroup for Job train: minMember 3; 3 pods exist, minMember is 3"
	type step struct {
		at        time.Duration
		pods      []*corev1.Pod
		scheduled string                   // the reason of the scheduler's condition, which is False
		wantPhase scheduling.PodGroupPhase // empty: no write
		wantTold  string
		wantAfter time.Duration
	}
	config := DefaultConfig()
	hold, slow, soon := config.FirstStatusDelay, config.StatusDelay, config.CountDelay
	running := in(corev1.PodRunning)
	cases := map[string]struct {
		invalid bool
		lag     time.Duration // from the Job to its PodGroup
		steps   []step
	}{
		"it runs after a minute, and only the status has its time": {lag: 11 * time.Second, steps: []step{
			{wantPhase: scheduling.PodGroupPending, wantAfter: hold},
			{at: 20 * time.Second, pods: pods(3), wantAfter: hold - 20*time.Second},
			{at: time.Minute, pods: pods(3, running), wantPhase: scheduling.PodGroupRunning},
			{at: time.Hour, pods: pods(3, running)},
		}},
		"it is refused later, and only the status has its time": {lag: 11 * time.Second, steps: []step{
			{wantPhase: scheduling.PodGroupPending, wantAfter: hold},
			{at: 20 * time.Second, pods: pods(3), wantAfter: hold - 20*time.Second},
			{at: 21 * time.Second, pods: pods(3), scheduled: reason.NoRoom, wantTold: told},
		}},
		"it runs after a minute": {steps: []step{
			{wantAfter: hold},
			{at: 20 * time.Second, pods: pods(3), wantAfter: hold - 20*time.Second},
			{at: time.Minute, pods: pods(3, bound), wantAfter: soon},
			{at: time.Minute + time.Second, pods: pods(3, running), wantPhase: scheduling.PodGroupRunning},
			{at: time.Hour, pods: pods(3, running)},
		}},
		"its PodGroup comes seconds after the Job, and it runs after a minute": {lag: 5 * time.Second, steps: []step{
			{wantAfter: hold},
			{at: time.Minute, pods: pods(3, running), wantPhase: scheduling.PodGroupRunning},
		}},
		"it gathers pods and waits for binds before it runs": {steps: []step{
			{wantAfter: hold},
			{at: 2 * time.Second, pods: pods(1), scheduled: reason.Gathering, wantAfter: 2 * time.Second},
			{at: 3 * time.Second, pods: pods(2), wantAfter: time.Second},
			{at: 4 * time.Second, pods: pods(2), wantPhase: scheduling.PodGroupPending, wantAfter: hold - 4*time.Second},
			{at: 5 * time.Second, pods: pods(2), wantAfter: hold - 5*time.Second},
			{at: 30 * time.Second, pods: pods(3), scheduled: reason.Binding, wantAfter: hold - 30*time.Second},
			{at: 31 * time.Second, pods: pods(3, running), wantPhase: scheduling.PodGroupRunning},
		}},
		"its pods come within two seconds, and it runs after a minute": {steps: []step{
			{wantAfter: hold},
			{at: 8 * time.Second, pods: pods(1), wantAfter: 2 * time.Second},
			{at: 9 * time.Second, pods: pods(3), wantAfter: hold - 9*time.Second},
			{at: time.Minute, pods: pods(3, running), wantPhase: scheduling.PodGroupRunning},
		}},
		"it is refused within a second": {steps: []step{
			{pods: pods(3), wantAfter: hold},
			{at: 300 * time.Millisecond, pods: pods(3), scheduled: reason.NoRoom, wantTold: told, wantAfter: 700 * time.Millisecond},
			{at: time.Second, pods: pods(3), scheduled: reason.NoRoom, wantPhase: scheduling.PodGroupPending},
		}},
		"it is refused later": {steps: []step{
			{pods: pods(3), wantAfter: hold},
			{at: 20 * time.Second, pods: pods(3), scheduled: reason.NoRoom, wantPhase: scheduling.PodGroupPending, wantTold: told},
		}},
		"its pods are on nodes within a second, and do not run": {steps: []step{
			{wantAfter: hold},
			{at: 200 * time.Millisecond, pods: pods(3, bound), wantAfter: 800 * time.Millisecond},
			{at: time.Second, pods: pods(3, bound), wantPhase: scheduling.PodGroupScheduling, wantAfter: slow - 800*time.Millisecond},
			{at: 200*time.Millisecond + slow, pods: pods(3, bound), wantTold: told},
		}},
		"its pods are on nodes later, and do not run": {steps: []step{
			{wantAfter: hold},
			{at: 5 * time.Second, pods: pods(3, bound), wantAfter: soon},
			{at: 5*time.Second + soon, pods: pods(3, bound), wantPhase: scheduling.PodGroupScheduling, wantAfter: slow - soon},
			{at: 5*time.Second + slow, pods: pods(3, bound), wantTold: told},
		}},
		"its pods are on nodes later, and run after some seconds": {steps: []step{
			{wantAfter: hold},
			{at: 5 * time.Second, pods: pods(3, bound), wantAfter: soon},
			{at: 5*time.Second + soon, pods: pods(3, bound), wantPhase: scheduling.PodGroupScheduling, wantAfter: slow - soon},
			{at: 8 * time.Second, pods: pods(3, running), wantPhase: scheduling.PodGroupRunning},
		}},
		"nothing becomes of it": {steps: []step{
			{pods: pods(3), wantAfter: hold},
			{at: hold, pods: pods(3), wantPhase: scheduling.PodGroupPending, wantTold: told},
		}},
		"its labels are invalid": {invalid: true, steps: []step{
			{pods: pods(3), wantPhase: scheduling.PodGroupPending, wantTold: "Created the PodGroup for Job train: minMember 1, " + `label fluence.group-size: "x": must be a whole number from 1 to 100000`},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, m := of(job(3, func(j *batchv1.Job) {
				if tc.invalid {
					j.Spec.Template.Labels = map[string]string{group.SizeLabel: "x"}
				}
			})), memory{}
			d, m := config.decide(o, m)
			o.podGroup = d.create
			o.podGroup.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager}}
			o.podGroup.UID, o.podGroup.CreationTimestamp = "pg-uid", metav1.NewTime(now.Truncate(time.Second))
			o.podGroup.CreationTimestamp = metav1.NewTime(o.podGroup.CreationTimestamp.Add(tc.lag))
			o.podGroup.Status.Phase = scheduling.PodGroupPending
			for _, step := range tc.steps {
				for _, pod := range step.pods {
					ofTrain(pod)
				}
				o.now, o.pods = now.Add(step.at), each(step.pods)
				if step.scheduled != "" {
					meta.SetStatusCondition(&o.podGroup.Status.Conditions, metav1.Condition{Type: report.ConditionScheduled, Status: metav1.ConditionFalse, Reason: step.scheduled})
				}
				d, m = config.decide(o, m)
				var phase scheduling.PodGroupPhase
				if d.status != nil {
					phase, o.podGroup.Status = d.status.Phase, *d.status
				}
				var got []string
				for _, n := range d.events {
					got = append(got, n.text)
				}
				if phase != step.wantPhase || strings.Join(got, ", ") != step.wantTold || d.requeueAfter != step.wantAfter {
					t.Errorf("after %v: writes phase %q, tells %q, looks again after %v; want %q, %q, %v", step.at, phase, got, d.requeueAfter, step.wantPhase, step.wantTold, step.wantAfter)
				}
			}
		})
	}
}

// The numbers of a group that gathers its pods are shown soon, and wait for their turn in a burst of groups.
func TestTheNumbersOfAGroupThatGathersWaitForTheirTurn(t *testing.T) {
	config := DefaultConfig()
	o := of(job(3))
	d, m := config.decide(o, memory{})
	o.podGroup, o.pods, o.now = d.create, each(pods(1, ofTrain)), now
	o.podGroup.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager}}
	o.podGroup.UID, o.podGroup.CreationTimestamp, o.podGroup.Status.Phase = "pg-uid", metav1.NewTime(now.Truncate(time.Second)), scheduling.PodGroupPending
	d, m = config.decide(o, m)
	if d.status != nil || d.requeueAfter != gatheringDelay {
		t.Fatalf("the first look writes %+v, and looks again after %v, want %v", d.status, d.requeueAfter, gatheringDelay)
	}
	o.now = now.Add(gatheringDelay)
	if d, _ = config.decide(o, m); d.status == nil || d.status.Phase != scheduling.PodGroupPending || d.status.Desired != 3 {
		t.Fatalf("writes %+v, want the phase and 3 wanted pods", d.status)
	}
	if want := now.Add(config.FirstStatusDelay); !d.passingUntil.Equal(want) {
		t.Errorf("the status may wait until %v, want %v", d.passingUntil, want)
	}
}

// The event that the controller has created a PodGroup is about that one only, not about another that
// took its name before the event was sent.
func TestAnotherPodGroupOfTheNameIsNotToldToBeCreated(t *testing.T) {
	for name, tc := range map[string]struct {
		before types.UID // of the PodGroup that the memory is about
		n      int
		want   string
	}{
		"the one that was just created": {"", 2, "created a moment ago; 2 pods exist, minMember is 2"},
		"one that replaced it":          {"gone", 2, "2 pods exist, minMember is 2"},
		"one of a single pod":           {"gone", 1, "1 pod exists, minMember is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observation{key: key, podGroup: podGroup(int32(tc.n)), pods: each(pods(tc.n)), now: now} //nolint:gosec // 1 or 2
			d, _ := DefaultConfig().decide(o, memory{uid: tc.before, firstSeen: now, created: "created a moment ago"})
			if len(d.events) != 1 || d.events[0].text != tc.want {
				t.Errorf("tells %+v, want %q", d.events, tc.want)
			}
		})
	}
}

// A controller that is started anew does not send an event again that a group's phase implies.
func TestCompletionIsNotToldAfterARestart(t *testing.T) {
	for phase, want := range map[scheduling.PodGroupPhase]string{
		scheduling.PodGroupPending: "Complete", scheduling.PodGroupScheduling: "", scheduling.PodGroupRunning: "",
	} {
		pg := podGroup(2, ours)
		pg.Status.Phase = phase
		pg.Status.CreationTime = new(metav1.NewMicroTime(start)) // the controller wrote it
		d, _ := DefaultConfig().decide(observation{key: key, podGroup: pg, pods: each(pods(2, labelled(group.SizeLabel, "2"))), now: now}, memory{})
		if reasons(d) != want {
			t.Errorf("a group that is %s: tells %q, want %q", phase, reasons(d), want)
		}
	}
}

func TestWrongLabelsAreToldOnceAndCleared(t *testing.T) {
	pg, m := podGroup(1, ours), memory{}
	look := func(value string) decision {
		var d decision
		d, m = DefaultConfig().decide(observation{key: key, podGroup: pg, pods: each(pods(2, labelled(group.SizeLabel, value))), now: now}, m)
		if d.status != nil {
			pg.Status = *d.status
		}
		if d.apply != nil {
			pg.Spec.MinMember = d.apply.minMember
		}
		return d
	}
	if d := look("x"); reasons(d) != reason.InvalidGroupSize || pg.Status.Conditions[0].Status != metav1.ConditionFalse {
		t.Errorf("a wrong label: tells %q, conditions %+v", reasons(d), pg.Status.Conditions)
	}
	if d := look("x"); len(d.events) > 0 || d.status != nil {
		t.Errorf("the same wrong label again: %+v, want nothing", d)
	}
	if d := look("y"); reasons(d) != reason.InvalidGroupSize || !strings.Contains(pg.Status.Conditions[0].Message, `"y"`) {
		t.Errorf("another wrong label: tells %q, conditions %+v", reasons(d), pg.Status.Conditions)
	}
	// First the spec is written, then the status that depends on it.
	if d := look("2"); pg.Spec.MinMember != 2 || d.status != nil {
		t.Errorf("the label is right: minMember %d, status %+v, want 2 and no status yet", pg.Spec.MinMember, d.status)
	}
	if look("2"); pg.Spec.MinMember != 2 || pg.Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("the label is right: minMember %d, conditions %+v", pg.Spec.MinMember, pg.Status.Conditions)
	}
}

// Owners of kinds that are not watched are read again when they are about to end.
func TestOwnersAboutToEndAreLookedAtAgain(t *testing.T) {
	ref := metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"}
	cases := map[string]struct {
		pods []*corev1.Pod
		done bool
		want time.Duration
	}{
		"all run":                     {pods: pods(2, in(corev1.PodRunning))},
		"one has succeeded":           {pods: join(pods(1, in(corev1.PodSucceeded)), pods(1, in(corev1.PodRunning))), want: endPollWhileRunning},
		"all have ended":              {pods: pods(2, in(corev1.PodSucceeded)), want: endPollAfterPods},
		"all have ended, and it says": {pods: pods(2, in(corev1.PodSucceeded)), done: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := topOwner{topOwnerRef: topOwnerRefFrom(ref), reportsEnd: true, ending: ending{done: tc.done}, size: group.Size{Size: 2, Min: 2}}
			pg := podGroup(2, ours, func(pg *scheduling.PodGroup) { pg.OwnerReferences = []metav1.OwnerReference{ref} })
			o := observation{key: key, topOwners: []topOwner{w}, podGroup: pg, pods: each(tc.pods), now: now}
			if d, _ := DefaultConfig().decide(o, memory{}); d.requeueAfter != tc.want {
				t.Errorf("decide() looks again after %v, want %v", d.requeueAfter, tc.want)
			}
		})
	}
}

// A group that needs more pods than ask for the scheduler says so, once.
func TestALackOfPodsOfTheSchedulerIsToldOnce(t *testing.T) {
	ref := metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "train", UID: "1"}
	w := topOwner{topOwnerRef: topOwnerRefFrom(ref), size: group.Size{Size: 4, Min: 4}, otherSchedulers: "1 pod of JobSet/train, driver, has schedulerName other"}
	pg := podGroup(5, ours, sized("kubectl-edit"), func(pg *scheduling.PodGroup) { pg.OwnerReferences = []metav1.OwnerReference{ref} })
	o := observation{key: key, topOwners: []topOwner{w}, podGroup: pg, pods: each(pods(4, ofTrain)), now: now}
	d, m := DefaultConfig().decide(o, settled)
	const want = "minMember is 5, and only 4 pods will ask for this scheduler: 1 pod of JobSet/train, driver, has schedulerName other"
	if i := slices.IndexFunc(d.events, func(n pendingEvent) bool { return n.reason == reason.OtherScheduler }); i < 0 || d.events[i].text != want {
		t.Errorf("events %+v, want %q", d.events, want)
	}
	if d, _ = DefaultConfig().decide(o, m); slices.ContainsFunc(d.events, func(n pendingEvent) bool { return n.reason == reason.OtherScheduler }) {
		t.Errorf("told twice: %+v", d.events)
	}
	// An operator made this PodGroup, and may have set the scheduler of the driver.
	o.podGroup = podGroup(5)
	if d, _ = DefaultConfig().decide(o, settled); slices.ContainsFunc(d.events, func(n pendingEvent) bool { return n.reason == reason.OtherScheduler }) {
		t.Errorf("told of a PodGroup of others: %+v", d.events)
	}
}

// A group that lacks pods says why they do not come, as long as it has no pods on nodes.
func TestMembersThatAreNotExpected(t *testing.T) {
	suspended := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	second := func(j *batchv1.Job) { j.Name, j.UID = "eval", "other-uid" }
	failed := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Name = name
			ofTrain(p)
			in(corev1.PodFailed)(p)
		}
	}
	byEval, running := referring("Job", "eval", "other-uid"), in(corev1.PodRunning)
	deployment := func(replicas ...int32) observation {
		o := observation{key: key, now: now, topOwners: []topOwner{{topOwnerRef: topOwnerRef{owner: group.Owner{Group: "apps", Kind: "Deployment", Name: "web", UID: "web-uid"}}}}}
		for i, n := range replicas {
			o.podOwners = append(o.podOwners, podOwner{Object: &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}, replicas: &n, template: &corev1.PodTemplateSpec{}, topUID: "web-uid"})
		}
		return o.with(podGroup(1, ours, referring("Deployment", "web", "web-uid")), nil)
	}
	cases := map[string]struct {
		o    observation
		want string
	}{
		"a Deployment is scaled to 0":     {deployment(0, 0), "Suspended: Deployment/web wants no pods for now"},
		"a Deployment is rolled out":      {deployment(0, 2), ""},
		"all are there":                   {of(job(2)).with(podGroup(2, ours, byTrain), pods(2, ofTrain)), ""},
		"they are to come":                {of(job(2)).with(podGroup(2, ours, byTrain), pods(1, ofTrain)), ""},
		"the Job is suspended":            {of(job(2, suspended)).with(podGroup(2, ours, byTrain), nil), "Suspended: Job/train is suspended"},
		"it has ended":                    {of(job(2, suspended, condition(batchv1.JobComplete, corev1.ConditionTrue, now))).with(podGroup(2, ours, byTrain), nil), ""},
		"one of two is suspended":         {of(job(2, suspended), job(2, second)).with(podGroup(2, ours, byTrain, byEval), nil), ""},
		"both are":                        {of(job(2, suspended), job(2, second, suspended)).with(podGroup(4, ours, byTrain, byEval), nil), "Suspended: Job/train and 1 owner more are suspended"},
		"a StatefulSet is scaled to 0":    {of(statefulSet(0, appsv1.ParallelPodManagement)).with(podGroup(2, ours, referring("StatefulSet", "train", "set-uid")), nil), "Suspended: StatefulSet/train wants no pods for now"},
		"a pod has failed":                {of(job(2)).with(podGroup(2, ours, byTrain), join(pods(1, ofTrain), pods(1, failed("a")))), "MembersFailed: pod a has failed"},
		"more have":                       {of(job(4)).with(podGroup(4, ours, byTrain), join(pods(1, ofTrain), pods(1, failed("a")), pods(2, failed("b")))), "MembersFailed: pod a and 2 more have failed"},
		"another was made for it":         {of(job(2)).with(podGroup(2, ours, byTrain), join(pods(2, ofTrain), pods(1, failed("a")))), ""},
		"it is being deleted":             {of(job(2)).with(podGroup(2, ours, byTrain), join(pods(1, ofTrain), pods(1, failed("a"), deleting))), ""},
		"another of the group still runs": {of(job(2)).with(podGroup(2, ours, byTrain), join(pods(1, ofTrain, running), pods(1, failed("a")))), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.o.podGroup.Status.Conditions = []metav1.Condition{{Type: scheduling.ConditionMembersExpected, Status: metav1.ConditionFalse, Reason: "Old"}}
			tc.o.podGroup.Status.Phase = scheduling.PodGroupScheduling
			d, _ := DefaultConfig().decide(tc.o, settled)
			if d.status == nil {
				t.Fatalf("no status, but %+v", d)
			}
			got := ""
			if c := meta.FindStatusCondition(d.status.Conditions, scheduling.ConditionMembersExpected); c != nil {
				got = c.Reason + ": " + c.Message
			}
			if got != tc.want {
				t.Errorf("says %q, want %q", got, tc.want)
			}
		})
	}
}

// A unit has the name of its leader pod. The event of its PodGroup names the LeaderWorkerSet too.
func TestAUnitIsToldWithItsLeaderWorkerSet(t *testing.T) {
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "vllm-0", UID: "1"}
	top := topOwner{topOwnerRef: topOwnerRefFrom(ref), unitOf: "vllm", size: group.Size{Size: 2, Min: 2}}
	o := observation{key: types.NamespacedName{Namespace: "ns", Name: top.owner.PodGroupName()}, topOwners: []topOwner{top}, pods: each(pods(1, ofTrain)), now: now}
	d, m := DefaultConfig().decide(o, memory{})
	const want = "Created the PodGroup for unit vllm-0 of LeaderWorkerSet vllm: minMember 2"
	if d.create == nil || m.created != want {
		t.Errorf("created %v, and says %q, want %q", d.create != nil, m.created, want)
	}
}

// The clock of a group without pods begins anew when a pod comes.
func TestThePodsOfAnEmptyGroupComeBack(t *testing.T) {
	o := observation{key: key, podGroup: podGroup(1, ours), now: now}
	_, m := DefaultConfig().decide(o, memory{})
	o.now, o.pods = now.Add(59*time.Second), each(pods(1, labelled(group.SizeLabel, "1")))
	_, m = DefaultConfig().decide(o, m)
	o.now, o.pods = now.Add(61*time.Second), nil
	if d, _ := DefaultConfig().decide(o, m); d.remove {
		t.Error("removed 2 seconds after its last pod")
	}
}

// In a burst only some of the statuses are written that say no more than that pods have nodes. No
// group waits for its turn for more than passingStatusDelay, and no other status waits.
func TestPassingStatusesTakeTurns(t *testing.T) {
	config := DefaultConfig()
	r := &reconciler{passing: rate.NewLimiter(passingStatusRate, passingStatusBurst)}
	o := of(job(3))
	created, m := config.decide(o, memory{})
	o.podGroup = created.create
	o.podGroup.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager}}
	o.podGroup.UID, o.podGroup.CreationTimestamp = "pg-uid", metav1.NewTime(now.Truncate(time.Second))
	o.podGroup.Status.Phase = scheduling.PodGroupPending
	at := func(since time.Duration, m memory, state func(*corev1.Pod)) (decision, memory) {
		members := pods(3, state)
		for _, pod := range members {
			ofTrain(pod)
		}
		o.now, o.pods = now.Add(since), each(members)
		return config.decide(o, m)
	}
	_, m = at(5*time.Second, m, bound)
	due := 5*time.Second + config.CountDelay
	for i := range passingStatusBurst + 2 {
		d, _ := at(due, m, bound)
		if d.status == nil || d.status.Phase != scheduling.PodGroupScheduling {
			t.Fatalf("status %+v, want phase Scheduling", d.status)
		}
		if got, want := r.defers(d, now.Add(due)), i >= passingStatusBurst; got != want {
			t.Errorf("status %d of a burst waits for its turn: %v, want %v", i+1, got, want)
		}
	}
	if d, _ := at(due, m, in(corev1.PodRunning)); d.status == nil || r.defers(d, now.Add(due)) {
		t.Errorf("the status that a group runs waits for its turn, or is not written: %+v", d.status)
	}
	late := 5*time.Second + passingStatusDelay
	for i := range 2 * passingStatusBurst {
		if d, _ := at(late, m, bound); d.status == nil || r.defers(d, now.Add(late)) {
			t.Fatalf("status %d is not written though its group has waited for passingStatusDelay", i+1)
		}
	}
}

// A reconcile whose status has to wait for its turn writes nothing and comes again in time. It remembers
// what Incomplete goes by, so that its time does not begin anew.
func TestADeferredStatusIsDecidedAgain(t *testing.T) {
	train := job(3)
	o := of(train)
	created, _ := DefaultConfig().decide(o, memory{})
	pg := created.create
	pg.UID, pg.CreationTimestamp = "pg-uid", metav1.NewTime(now.Truncate(time.Second))
	pg.Status.Phase, pg.ManagedFields = scheduling.PodGroupPending, []metav1.ManagedFieldsEntry{{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: scheduling.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}}
	objs := []client.Object{train, pg}
	for i, pod := range pods(3, bound) {
		ofTrain(pod)
		pod.Name, pod.UID, pod.Labels = fmt.Sprint("p", i), types.UID(fmt.Sprint("p", i)), nil
		objs = append(objs, pod)
	}
	r := fakeReconciler(t, objs...)
	key := client.ObjectKeyFromObject(pg)
	r.passing, r.memories = rate.NewLimiter(0, 0), map[types.NamespacedName]memory{}
	was := memory{uid: pg.UID, firstSeen: now.Add(-time.Minute), hadPods: true, boundSince: now.Add(-r.config.StatusDelay), stale: staleness{since: now.Add(-r.config.StatusDelay)}}
	r.remember(key, was)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > r.config.StatusDelay {
		t.Errorf("Reconcile() = %+v, %v, want that it comes again within %v", result, err, r.config.StatusDelay)
	}
	var after scheduling.PodGroup
	if err := r.client.Get(t.Context(), key, &after); err != nil || after.Status.Phase != scheduling.PodGroupPending {
		t.Errorf("the phase is %q (%v), want that nothing is written", after.Status.Phase, err)
	}
	if m := r.recall(key); m.shortfall.completeWith != 3 || !m.stale.since.Equal(was.stale.since) {
		t.Errorf("remembers %+v since %v, want that 3 pods had nodes, and the time as before", m.shortfall, m.stale.since)
	}
}
