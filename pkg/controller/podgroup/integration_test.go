package podgroup_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/eventually"
)

// job creates a Job with this parallelism. Its pods run for runFor if it is set.
func (e *env) job(name string, parallelism int32, runFor string, edits ...func(*batchv1.Job)) *batchv1.Job {
	e.Helper()
	job := e.newJob(name, parallelism, runFor)
	for _, edit := range edits {
		edit(job)
	}
	e.create(job)
	return job
}

// newJob returns such a Job without creating it.
func (e *env) newJob(name string, parallelism int32, runFor string) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: name},
		Spec: batchv1.JobSpec{
			Parallelism: &parallelism, Completions: &parallelism,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				SchedulerName: e.ns, RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "c", Image: "none"}},
			}},
		},
	}
	if runFor != "" {
		job.Spec.Template.Annotations = map[string]string{kubelet.RunFor: runFor}
	}
	return job
}

// The controller's cache keeps little of a PodGroup, whatever a user writes into its metadata.
func TestCacheKeepsLittleOfAPodGroup(t *testing.T) {
	e := newEnv(t, nil)
	// The finalizer keeps it from the garbage collector, which finds none of its owners.
	pg := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: "large", Finalizers: []string{"example.com/held"}, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}}}
	pg.Spec.MinResources = corev1.ResourceList{"cpu": resource.MustParse("1")}
	for i := range 1000 {
		pg.OwnerReferences = append(pg.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: types.UID(strconv.Itoa(i))})
	}
	e.create(pg)
	eventually.True(e.ctx, t, "the PodGroup in the cache", func(ctx context.Context) (bool, string) {
		var cached scheduling.PodGroup
		if err := e.cache.Get(ctx, client.ObjectKeyFromObject(pg), &cached); err != nil {
			return false, err.Error()
		}
		if refs := len(cached.OwnerReferences); refs != 128 || len(cached.Labels)+len(cached.Annotations)+len(cached.ManagedFields)+len(cached.Finalizers)+len(cached.Spec.MinResources) > 0 {
			t.Errorf("the cache has %d owner references, %v and %v", refs, cached.Labels, cached.Annotations)
		}
		return true, ""
	})
}

// nameFor returns the name of the PodGroup that is created for an object.
func nameFor(apiVersion, kind string, obj client.Object) string {
	return group.OwnerOf(metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: obj.GetName(), UID: obj.GetUID()}).PodGroupName()
}

// podsOf waits until a Job has this many pods.
func (e *env) podsOf(job *batchv1.Job, n int) []*corev1.Pod {
	e.Helper()
	w, err := e.client.Watch(e.ctx, &corev1.PodList{}, client.InNamespace(e.ns), client.MatchingLabels{batchv1.JobNameLabel: job.Name})
	if err != nil {
		e.Fatalf("watch pods: %v", err)
	}
	defer w.Stop()
	var pods []*corev1.Pod
	for ev := range w.ResultChan() {
		if pod, is := ev.Object.(*corev1.Pod); is {
			pods = append(pods, pod)
		}
		if len(pods) == n {
			return pods
		}
	}
	e.Fatalf("Job %s has %d pods, want %d", job.Name, len(pods), n)
	return nil
}

func TestAJobFromCreationToItsEnd(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	before := time.Now()
	job := e.job("train", 4, "")
	name := nameFor("batch/v1", "Job", job)

	pending := e.untilPhase(name, scheduling.PodGroupPending)
	if pending.Spec.MinMember != 4 || pending.Status.OccupiedBy != e.ns+"/train" {
		t.Errorf("PodGroup %+v, want minMember 4, occupied by the Job", pending)
	}
	if o := pending.OwnerReferences; len(o) != 1 || o[0].UID != job.UID || *o[0].Controller || *o[0].BlockOwnerDeletion {
		t.Errorf("owners %+v, want the Job, which does not control it", o)
	}
	created := scheduling.CreationTime(pending)
	if created.Nanosecond()%1000 != 0 || created.Time.Before(before.Truncate(time.Microsecond)) || created.After(time.Now()) {
		t.Errorf("creation time %v, want whole microseconds, after %v", created, before)
	}
	if !meta.IsStatusConditionTrue(pending.Status.Conditions, podgroup.ConditionValid) {
		t.Errorf("conditions %+v, want %s", pending.Status.Conditions, podgroup.ConditionValid)
	}
	e.event("PodGroup", name, "Complete")

	pods := e.podsOf(job, 4)
	e.bind(pods...)
	running := e.untilPhase(name, scheduling.PodGroupRunning)
	e.fewWrites(3, time.Second)
	if running.Status.Scheduled != 4 {
		t.Errorf("status %+v, want 4 scheduled", running.Status)
	}
	for _, pod := range pods {
		end := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+kubelet.RunFor+`":"1s"}}}`))
		if err := e.client.Patch(e.ctx, pod, end); err != nil {
			t.Fatal(err)
		}
	}
	finished := e.untilPhase(name, scheduling.PodGroupFinished)
	if again := scheduling.CreationTime(finished); !again.Equal(&created) {
		t.Errorf("creation time became %v, was %v", again, created)
	}
	c := meta.FindStatusCondition(finished.Status.Conditions, podgroup.ConditionFinished)
	if c == nil || c.Reason != reason.Succeeded || finished.Status.Desired != 4 || finished.Status.Scheduled != 0 {
		t.Errorf("status %+v, want that 4 pods were wanted, none is on a node any more, and why", finished.Status)
	}
	if got := e.event("PodGroup", name, "Finished"); got != "4 pods succeeded" {
		t.Errorf("event Finished says %q", got)
	}
	e.delete(job)
	e.untilGone(name)
	if _, _, story := e.writes(); strings.Contains(story, "delete") {
		t.Errorf("the controller deleted what the garbage collector is for:\n%s", story)
	}
}

func TestASuspendedJobGetsItsPodGroupWhenResumed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("held", 2, "", func(j *batchv1.Job) { j.Spec.Suspend = new(true) })
	// When the PodGroup of a later Job exists, the first Job was passed over.
	later := e.job("later", 1, "")
	e.untilPhase(nameFor("batch/v1", "Job", later), scheduling.PodGroupPending)

	resumed := time.Now().Truncate(time.Second)
	if err := e.client.Patch(e.ctx, job, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":false}}`))); err != nil {
		t.Fatal(err)
	}
	pg := e.untilPhase(nameFor("batch/v1", "Job", job), scheduling.PodGroupPending)
	if created := scheduling.CreationTime(pg); created.Time.Before(resumed) {
		t.Errorf("creation time %v is before the Job was resumed, %v", created, resumed)
	}
}

// The scheduler has suspended Jobs whose pods have gone. They are resumed, whatever their scheduler is, and whether or
// not a PodGroup tells of the eviction. A Job that somebody else has suspended is left as it is, also if it was made from
// the manifest of one that the scheduler has suspended. A Job that somebody else has resumed stays as it is afterwards.
func TestASuspendedJobThatHasMadeRoomIsResumed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	held := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	job := e.job("evicted", 2, "")
	foreign := e.job("foreign", 2, "", func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "another" })
	other, awake := e.job("other", 2, "", held), e.job("awake", 2, "", held)
	copied := e.job("copied", 2, "", held, func(j *batchv1.Job) {
		j.Annotations = map[string]string{group.SuspendedForAnnotation: group.SuspensionFor("u-1", job.UID)}
	})
	for of, suspended := range map[*batchv1.Job]bool{job: true, foreign: true, awake: false} {
		e.patch(of, `{"metadata":{"annotations":{%q:%q}},"spec":{"suspend":%t}}`, group.SuspendedForAnnotation, group.SuspensionFor("u-1", of.UID), suspended)
	}
	for _, of := range []*batchv1.Job{job, foreign, awake} {
		e.untilAwake(of)
	}
	e.patch(awake, `{"spec":{"suspend":true}}`)
	e.untilPhase(nameFor("batch/v1", "Job", awake), scheduling.PodGroupSuspended)
	for _, of := range []*batchv1.Job{other, copied, awake} {
		var now batchv1.Job
		if err := e.client.Get(e.ctx, client.ObjectKeyFromObject(of), &now); err != nil || !*now.Spec.Suspend {
			t.Errorf("Job %s is resumed, error %v", of.Name, err)
		}
	}
}

// untilAwake waits until a Job is not suspended, and nothing is left of its suspension.
func (e *env) untilAwake(job *batchv1.Job) {
	e.Helper()
	eventually.True(e.ctx, e.T, "Job "+job.Name+" is resumed", func(ctx context.Context) (bool, string) {
		var now batchv1.Job
		if err := e.client.Get(ctx, client.ObjectKeyFromObject(job), &now); err != nil {
			return false, err.Error()
		}
		return !*now.Spec.Suspend && now.Annotations[group.SuspendedForAnnotation] == "", fmt.Sprintf("suspended %t, annotations %v", *now.Spec.Suspend, now.Annotations)
	})
}

func TestLabelledPods(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Second
	e := newEnv(t, func(c *podgroup.Config) { c.EmptyDelay = delay })
	labels := map[string]string{group.Label: "crew", group.SizeLabel: "2"}
	a, b := e.pod("a", labels), e.pod("b", labels)
	pg := e.untilPhase("crew", scheduling.PodGroupPending)
	if pg.Spec.MinMember != 2 || len(pg.OwnerReferences) > 0 || pg.Labels[podgroup.ManagedByLabel] != podgroup.ManagedByValue {
		t.Errorf("PodGroup %+v, want minMember 2, no owner and our label", pg)
	}
	e.bind(a, b)
	e.untilPhase("crew", scheduling.PodGroupRunning)
	e.delete(a)
	e.untilPhase("crew", scheduling.PodGroupUnknown)
	e.delete(b)
	last := time.Now()
	e.untilGone("crew")
	if waited := time.Since(last); waited < delay {
		t.Errorf("removed %v after the last pod, want not before %v", waited, delay)
	}
}

func TestUsersPodGroupIsNeitherTouchedNorRemoved(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *podgroup.Config) { c.EmptyDelay = time.Second })
	mine := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: e.ns, Name: "mine",
		// These marks were copied along from a PodGroup of the controller.
		Labels:      map[string]string{podgroup.ManagedByLabel: podgroup.ManagedByValue},
		Annotations: map[string]string{podgroup.SchedulerAnnotation: e.ns},
	}}
	mine.Spec.MinMember = 3
	e.create(mine)
	pod := e.pod("a", map[string]string{group.Label: "mine", group.SizeLabel: "8"})
	seen := e.untilPhase("mine", scheduling.PodGroupPending)
	if seen.Spec.MinMember != 3 || seen.Generation != mine.Generation || seen.Status.CreationTime == nil {
		t.Errorf("PodGroup %+v, want minMember 3 as the user wrote it, and a status", seen)
	}
	// A PodGroup of the controller that loses its pod later is removed first.
	theirs := e.pod("b", map[string]string{group.Label: "theirs", group.SizeLabel: "1"})
	e.untilPhase("theirs", scheduling.PodGroupPending)
	e.delete(pod)
	e.delete(theirs)
	e.untilGone("theirs")
	var after scheduling.PodGroup
	if err := e.client.Get(e.ctx, client.ObjectKeyFromObject(mine), &after); err != nil {
		t.Fatalf("the user's PodGroup: %v", err)
	}
	if after.UID != mine.UID || after.Generation != mine.Generation || len(after.Labels) != 1 || len(after.Annotations) != 1 || len(after.OwnerReferences) > 0 {
		t.Errorf("the user's PodGroup became %+v", after)
	}
}

func TestInvalidSizes(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	cases := map[string]struct {
		labels  map[string]string
		wantMsg string
	}{
		"zero":           {map[string]string{group.SizeLabel: "0"}, `label fluence.group-size: "0": must be a whole number from 1 to 100000`},
		"no-number":      {map[string]string{group.SizeLabel: "x"}, `label fluence.group-size: "x": must be a whole number from 1 to 100000`},
		"min-above-size": {map[string]string{group.SizeLabel: "2", group.MinLabel: "3"}, `label fluence.group-min: "3": must not exceed fluence.group-size, which is 2`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{group.Label: name}
			maps.Copy(labels, tc.labels)
			pod := e.pod(name, labels)
			pg := e.untilPhase(name, scheduling.PodGroupPending)
			c := meta.FindStatusCondition(pg.Status.Conditions, podgroup.ConditionValid)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason.InvalidGroupSize || c.Message != tc.wantMsg || pg.Spec.MinMember != 1 {
				t.Errorf("minMember %d, condition %+v, want 1 and a false one that says %q", pg.Spec.MinMember, c, tc.wantMsg)
			}
			if got := e.event("PodGroup", name, reason.InvalidGroupSize); got != tc.wantMsg {
				t.Errorf("the event says %q, want %q", got, tc.wantMsg)
			}
			fix := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"fluence.group-size":"3","fluence.group-min":null}}}`))
			if err := e.client.Patch(e.ctx, pod, fix); err != nil {
				t.Fatal(err)
			}
			pg = e.until(name, "the label is read", func(pg *scheduling.PodGroup) bool {
				return pg != nil && meta.IsStatusConditionTrue(pg.Status.Conditions, podgroup.ConditionValid)
			})
			if pg.Spec.MinMember != 3 {
				t.Errorf("minMember %d after the label was corrected, want 3", pg.Spec.MinMember)
			}
		})
	}
}

func TestUnusableGroupNameIsToldOnThePod(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	e.pod("a", map[string]string{group.Label: "My_Group"})
	if got := e.event("Pod", "a", "InvalidGroupName"); !strings.Contains(got, `scheduling.x-k8s.io/pod-group: "My_Group"`) {
		t.Errorf("the event says %q, want the label and its value", got)
	}
}

// The API server itself keeps the creation time as it was set, with all digits.
func TestCreationTimeCannotBeChanged(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	e.pod("a", map[string]string{group.Label: "g", group.SizeLabel: "1"})
	pg := e.untilPhase("g", scheduling.PodGroupPending)
	for what, value := range map[string]string{"another time": "2020-01-01T00:00:00.000000Z", "whole seconds": "2020-01-01T00:00:00Z"} {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"creationTime":"`+value+`"}}`))
		if err := e.client.Status().Patch(e.ctx, pg.DeepCopy(), patch); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}

func TestDescribeReadsWell(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	job := e.job("train", 2, "")
	name := nameFor("batch/v1", "Job", job)
	pg := e.untilPhase(name, scheduling.PodGroupPending)
	e.event("PodGroup", name, "Complete")
	out, _, err := shared.Kubectl(e.ctx, "-n", e.ns, "describe", "podgroups.scheduling.x-k8s.io", name)
	if err != nil {
		t.Fatal(err)
	}
	micros := scheduling.CreationTime(pg)
	for _, want := range []string{
		"Min Member:  2", micros.UTC().Format(metav1.RFC3339Micro), "Pending", "ValidGroupSize", "minMember 2, size 2",
		"Created the PodGroup for Job train: minMember 2", "2 pods exist, minMember is 2", "fluence-controller",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("kubectl describe does not say %q:\n%s", want, out)
		}
	}
	out, _, err = shared.Kubectl(e.ctx, "-n", e.ns, "get", "fpg")
	if head := strings.Fields(strings.SplitN(out, "\n", 2)[0]); err != nil || strings.Join(head, " ") != "NAME MIN SIZE BOUND PHASE REASON AGE" {
		t.Errorf("kubectl get shows columns %v, error %v", head, err)
	}
}
